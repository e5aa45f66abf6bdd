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

#include "Target/Kernel/RowForm.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OwningOpRef.h"

namespace mpc {

/// Where a group holds what more than one walk reads.
enum class RowKeep : int64_t { Nowhere, Registers, Shared };

/// How a row kernel is spread over threads, as the schedule holds it.
struct RowGeometry {
  /// Threads that share an item, items of a block, lanes of a vector, vectors
  /// of an item per thread, blocks that share an item.
  int64_t group = 1, items = 1, vector = 1, steps = 1, splits = 1;
  RowKeep keep = RowKeep::Nowhere;
  /// Where a kernel also sums over its rows: times that a block takes new
  /// items, blocks of a team that join their sums first, and where a thread
  /// adds up its columns (nowhere: in the scratch buffer).
  int64_t rounds = 1, team = 1;
  RowKeep sums = RowKeep::Registers;

  explicit RowGeometry(const Schedule &schedule);
  RowGeometry() = default;
  void addTo(Schedule &schedule) const;
};

/// One result of a row kernel.
struct RowResult {
  /// What the kernel returns, and the tensor of the row form that it is (made
  /// from).
  mlir::Value result, row;
  /// Its number among the kernel's results.
  unsigned number;
  /// The movement between them, from the row outwards; its last result is
  /// `result` or what that is elementwise in. Empty: they are the same.
  llvm::SmallVector<mlir::Operation *> movement;

  mlir::Value moved() const { return movement.back()->getResult(0); }
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
  /// Whether a tensor depends on a reducing op and exists once per row.
  bool isPerRow(mlir::Value tensor) const {
    auto found = rows.dependent.find(tensor);
    return found != rows.dependent.end() && !found->second;
  }
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
  /// What a group carries for a reduce op or the position of an extreme.
  llvm::SmallVector<mlir::Type> partials(mlir::Operation *op) const;
  /// Bytes of one kept element, all kept tensors together.
  int64_t keptBytes() const;
  /// Bytes of the widest value that is carried.
  int64_t carriedBytes() const { return carried; }

private:
  bool findColumnSums(mlir::func::FuncOp kernel);
  void takeColumnSums(mlir::func::FuncOp kernel, mlir::IRMapping &mapping);
  mlir::LogicalResult analyze(bool withMovement);
  mlir::LogicalResult findMovement(RowResult &result) const;
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

/// The scratch buffer of a kernel whose items are split over blocks: a counter
/// per block of a row of blocks, then for each partial value an array of
/// `splits` x `lanes` elements.
struct RowScratch {
  RowScratch(const RowPlan &plan, const RowGeometry &geometry);
  int64_t blocks = 1, lanes = 1, bytes = 0;
  llvm::SmallVector<int64_t> offsets;
};

/// The body of a kernel of either family.
mlir::LogicalResult emitRows(GpuKernel &kernel);

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_ROWPLAN_H
