//===- RowReductionPlan.h - analysis of row reductions ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Analysis and parameters shared by the kernel families "row" and "reduction".
// A work item is a row or, if the last dimension is not reduced, a vector of
// adjacent rows. A thread group makes several passes over each item: one per
// reducing op, and one to store. Values used in several passes are buffered in
// registers or shared memory. Private to this folder.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_ROWS_ROWREDUCTIONPLAN_H
#define MPC_LIB_TARGET_CUDA_ROWS_ROWREDUCTIONPLAN_H

#include "../Plan/Schedule.h"

#include "Target/Kernel/RowKernelEmitter.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OwningOpRef.h"

namespace mpc::cuda {

class RowReductionPlan;

/// Mapping of a row kernel to threads, while it is being chosen.
struct RowThreadMapping {
  /// Threads per item, items per block, lanes per vector, vectors per thread
  /// and item, blocks per item.
  int64_t group = 1, items = 1, vector = 1, steps = 1, splits = 1;
  tile::Place keep = tile::Place::nowhere;
  /// For column sums (sums over rows): sequential rounds of items per block,
  /// blocks per group of the first reduction stage, and storage of a thread's
  /// accumulators (nowhere: the scratch buffer).
  int64_t rounds = 1, groups = 1;
  tile::Place sums = tile::Place::registers;
  /// Whether every block processes all items, in rounds.
  bool everyBlock = false;

  /// Converts to the schedule's attribute.
  tile::ThreadMappingAttr team(const RowReductionPlan &plan,
                               int64_t firstBlock = 0) const;
};

/// A sum over all rows of a kernel: per column, or of all elements.
struct RowColumnSum {
  /// The sum or mean, in the original kernel, and the indices of the results
  /// that are (elementwise in) it.
  mlir::Operation *op;
  llvm::SmallVector<unsigned> results;
  bool isPerColumn;
  /// Summand: a full-shape tensor of the row form.
  mlir::Value operand;
};

/// Analysis of one row kernel.
class RowReductionPlan {
public:
  /// Analyzes `kernel`; null if it is not of the row form.
  static std::unique_ptr<RowReductionPlan> of(mlir::func::FuncOp kernel);

  /// The kernel with collapsed dimensions and expanded group norms.
  mlir::func::FuncOp function() const { return copy.get(); }
  const RowPattern &form() const { return rows; }
  llvm::ArrayRef<RowResult> results() const { return rowResults; }
  llvm::ArrayRef<RowColumnSum> columnSums() const { return sumsOverRows; }
  /// Whether column sums do not depend on a reducing op, and no pass follows
  /// the first.
  bool sumsOnFirstWalk() const { return sumsEarly; }
  bool isPerRow(mlir::Value tensor) const { return rows.isPerRow(tensor); }
  /// Returns true if a full-shape tensor can be stored in the first pass.
  bool isEarly(mlir::Value tensor) const {
    return !rows.dependent.contains(tensor);
  }
  /// Full-shape tensors to buffer, with the index of the reducing op whose
  /// first pass computes them.
  llvm::ArrayRef<std::pair<mlir::Value, size_t>> kept() const {
    return keptTensors;
  }
  /// Whether a single pass suffices: no reducing op depends on another one, and
  /// no full-shape tensor is stored after them.
  bool isOneWalk() const { return oneWalk; }

  /// Row length, number of rows, number of items at a vector width.
  int64_t length() const { return rowLength; }
  int64_t rowCount() const { return count; }
  int64_t items(int64_t vector) const {
    return rows.isVertical() ? count / vector : count;
  }
  /// Maximum vector width for which every access is aligned.
  int64_t lanes() const { return vectorLanes; }
  /// Parameters of the row program for a thread group; refers to the plan.
  RowKernelSchedule choice(tile::ThreadMappingAttr team) const;
  /// Types of a thread's partial results, for all reducing ops.
  llvm::SmallVector<mlir::Type> partials() const;
  /// Types of the column sums.
  llvm::SmallVector<tile::AccumulatorsType> sumTypes() const;
  /// Bytes per position of all buffered tensors.
  int64_t keptBytes() const;
  /// Bytes of the widest value type.
  int64_t carriedBytes() const { return carried; }

private:
  bool findColumnSums(mlir::func::FuncOp kernel);
  void takeColumnSums(mlir::func::FuncOp kernel, mlir::IRMapping &mapping);
  mlir::LogicalResult analyze(bool withMovement);
  mlir::LogicalResult findMovement(RowResult &result) const;
  mlir::FailureOr<mlir::Value> findMoved(mlir::Value computed) const;
  void findBuffered();
  void findLanes();

  mlir::OwningOpRef<mlir::func::FuncOp> copy;
  RowPattern rows;
  llvm::SmallVector<RowResult> rowResults;
  llvm::SmallVector<RowColumnSum> sumsOverRows;
  /// Tensors that results read at other positions than the rows.
  llvm::DenseSet<mlir::Value> readBeside;
  llvm::SmallVector<std::pair<mlir::Value, size_t>> keptTensors;
  int64_t rowLength = 1, count = 1, vectorLanes = 1, carried = 4;
  bool oneWalk = false, sumsEarly = false;
};

/// Generates the program of a row kernel for the thread group `team`.
mlir::LogicalResult emitRows(GpuKernel &kernel, const RowReductionPlan &plan,
                             tile::ThreadMappingAttr team);

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_ROWS_ROWREDUCTIONPLAN_H
