//===- RowPlan.h - what a row kernel on a GPU is made of --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to this folder. The analysis and the numbers that the families "row"
// and "reduction" share. An item is a row or, where the last dimension is not
// reduced, a vector of neighbouring rows. A group of threads walks each item:
// once per op that reduces, then once to store. What walks have in common is
// kept in registers or shared memory.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_ROWPLAN_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_ROWPLAN_H

#include "Schedule.h"

#include "Target/Kernel/RowProgram.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OwningOpRef.h"

namespace mpc {

class RowPlan;

/// How a row kernel is spread over threads, while that is being chosen.
struct RowGeometry {
  /// Threads that share an item, items of a block, lanes of a vector, vectors
  /// of an item per thread, blocks that share an item.
  int64_t group = 1, items = 1, vector = 1, steps = 1, splits = 1;
  tile::Place keep = tile::Place::nowhere;
  /// Where a kernel also sums over its rows: times that a block takes new
  /// items, blocks of a group that join their sums first, and where a thread
  /// adds up its columns (nowhere: in the scratch buffer).
  int64_t rounds = 1, groups = 1;
  tile::Place sums = tile::Place::registers;
  /// Whether every block takes all items, in rounds.
  bool everyBlock = false;

  /// As a schedule holds it.
  tile::TeamAttr team(const RowPlan &plan, int64_t firstBlock = 0) const;
};

/// A sum over all rows of a kernel: of each column, or of everything.
struct RowColumnSum {
  /// The sum or mean, in the kernel itself, and the numbers of the kernel's
  /// results that are (elementwise in) it.
  mlir::Operation *op;
  llvm::SmallVector<unsigned> results;
  bool isPerColumn;
  /// What is summed: a full tensor of the row form.
  mlir::Value operand;
};

/// The structure of one row kernel.
class RowPlan {
public:
  /// Null where `kernel` is not of the row form.
  static std::unique_ptr<RowPlan> of(mlir::func::FuncOp kernel);

  /// The kernel in fewer dimensions, group norms expanded.
  mlir::func::FuncOp function() const { return copy.get(); }
  const RowForm &form() const { return rows; }
  llvm::ArrayRef<RowResult> results() const { return rowResults; }
  llvm::ArrayRef<RowColumnSum> columnSums() const { return sumsOverRows; }
  /// Whether nothing that is summed over the rows waits for a reducing op, and
  /// no walk comes after these.
  bool sumsOnFirstWalk() const { return sumsEarly; }
  bool isPerRow(mlir::Value tensor) const { return rows.isPerRow(tensor); }
  /// Whether a tensor of the full shape can be stored by the first walk.
  bool isEarly(mlir::Value tensor) const {
    return !rows.dependent.contains(tensor);
  }
  /// Full tensors to keep, by the number of the reducing op whose first walk
  /// computes them.
  llvm::ArrayRef<std::pair<mlir::Value, size_t>> kept() const {
    return keptTensors;
  }
  /// Whether one walk serves all ops: none needs another's result, and nothing
  /// of the full shape is stored after them.
  bool isOneWalk() const { return oneWalk; }

  /// Positions that an item reduces, rows in all, items at a vector width.
  int64_t length() const { return rowLength; }
  int64_t rowCount() const { return count; }
  int64_t items(int64_t vector) const {
    return rows.isVertical() ? count / vector : count;
  }
  /// The widest vectors that every access is aligned for.
  int64_t lanes() const { return vectorLanes; }
  /// What a team chooses for the program; the plan outlives it.
  RowChoice choice(tile::TeamAttr team) const;
  /// What a member of a team carries for all reducing ops.
  llvm::SmallVector<mlir::Type> partials() const;
  /// The sums of all rows, as tiles have them.
  llvm::SmallVector<tile::SumsType> sumTypes() const;
  /// Bytes of one kept element, all kept tensors together.
  int64_t keptBytes() const;
  /// Bytes of the widest value that is carried.
  int64_t carriedBytes() const { return carried; }

private:
  bool findColumnSums(mlir::func::FuncOp kernel);
  void takeColumnSums(mlir::func::FuncOp kernel, mlir::IRMapping &mapping);
  mlir::LogicalResult analyze(bool withMovement);
  mlir::LogicalResult findMovement(RowResult &result) const;
  mlir::FailureOr<mlir::Value> findMoved(mlir::Value computed) const;
  void findKept();
  void findLanes();

  mlir::OwningOpRef<mlir::func::FuncOp> copy;
  RowForm rows;
  llvm::SmallVector<RowResult> rowResults;
  llvm::SmallVector<RowColumnSum> sumsOverRows;
  /// Tensors that results read beside the rows, at other places.
  llvm::DenseSet<mlir::Value> readBeside;
  llvm::SmallVector<std::pair<mlir::Value, size_t>> keptTensors;
  int64_t rowLength = 1, count = 1, vectorLanes = 1, carried = 4;
  bool oneWalk = false, sumsEarly = false;
};

/// The program of a kernel of either family, whose items `team` has.
mlir::LogicalResult emitRows(GpuKernel &kernel, tile::TeamAttr team);

/// How the kernel of `plan`, which sums over rows, runs.
Schedule scheduleColumnSums(const RowPlan &plan, const CudaTarget &target);

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_ROWPLAN_H
