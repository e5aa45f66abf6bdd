//===- ColumnSumLowering.h - column sums over items -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums over the work items of a kernel: per column, as in the gradient of a
// norm's scale and bias, or over all elements, as in a mean loss. A block
// processes several items, with column accumulators per thread. Partial sums
// are reduced in two stages, by the last-arriving block of each group and by
// the last one of all, always in block order.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_ROWS_COLUMNSUMLOWERING_H
#define MPC_LIB_TARGET_CUDA_ROWS_COLUMNSUMLOWERING_H

#include "../Plan/Schedule.h"

#include "Target/Kernel/ElementEmitter.h"
#include "Target/Kernel/IndexMath.h"
#include "Target/Kernel/MathExpansion.h"

namespace mpc::cuda {

/// Layout of the scratch buffer: counters, then for each sum one row per block,
/// followed by one row per group of blocks.
struct ColumnSumScratch {
  ColumnSumScratch(llvm::ArrayRef<tile::AccumulatorsType> sums,
                   tile::ThreadMappingAttr team, int64_t blocks);
  int64_t groups = 1, lines = 1, bytes = 0;
  llvm::SmallVector<int64_t> offsets;
};

/// Generates the sums of one kernel.
class ColumnSumLowering {
public:
  ColumnSumLowering(GpuBody &kernel, tile::ThreadMappingAttr team,
                    ElementEmitter &emitter,
                    llvm::ArrayRef<tile::AccumulatorsOp> summed,
                    llvm::ArrayRef<tile::TotalOp> totals);

  /// Initializes accumulators. `start` is the first position of the thread in
  /// its row; `item` (null: 0) is the index among the rows that a block
  /// processes concurrently.
  void begin(mlir::Value start, mlir::Value item);
  /// Accumulates an item's value at `position` in step `step` of the thread.
  void add(tile::AccumulateOp add, mlir::Value step, mlir::Value position);
  /// After the last item: reduces over threads and blocks, and emits the
  /// totals.
  mlir::LogicalResult finish();

private:
  /// One sum: its accumulators and the partial sums of all blocks.
  struct Sum {
    mlir::Value sums;
    int64_t width;
    mlir::Type type;
    /// Accumulators of the thread; null: accumulates in the block's row.
    mlir::Value own;
    mlir::Value lines;
    bool isPerColumn() const { return width > 1; }
  };
  using Line = llvm::function_ref<mlir::LogicalResult(
      llvm::ArrayRef<mlir::Value> sums, mlir::Value column)>;

  /// Calls `body` for each vector of an item that this thread has.
  void eachStep(
      llvm::function_ref<void(mlir::Value step, mlir::Value position)> body);
  /// Calls `body` for vectors of columns, distributed over the block's threads.
  mlir::LogicalResult
  eachColumn(llvm::function_ref<mlir::LogicalResult(mlir::Value)> body);
  /// Returns the index of `column` in row `line` of a sum.
  mlir::Value at(const Sum &sum, mlir::Value line, mlir::Value column);
  /// Reduces a sum over the block's threads into the block's row.
  void storeColumnPartials(Sum &sum);
  void storeScalarPartial(Sum &sum);
  mlir::LogicalResult lastOf(int64_t count, mlir::Value counter,
                             llvm::function_ref<mlir::LogicalResult()> body);
  /// Reduces `count` rows from `first` on and passes the sums to `takeColumns`,
  /// for every column, and to `takeNumbers`.
  mlir::LogicalResult join(mlir::Value first, int64_t count, Line takeColumns,
                           Line takeNumbers);
  /// The same, and emits the totals.
  mlir::LogicalResult storeTotals(mlir::Value first, int64_t count);
  void emitTotals(llvm::ArrayRef<Sum *> of, llvm::ArrayRef<mlir::Value> values,
                  mlir::Value column);
  mlir::Value zero(const Sum &sum, int64_t lanes);

  GpuBody &kernel;
  tile::ThreadMappingAttr team;
  ElementEmitter &emitter;
  ValueMath math;
  IndexMath index;
  llvm::SmallVector<tile::AccumulatorsType> types;
  llvm::SmallVector<tile::TotalOp> totals;
  int64_t blocks, threads;
  ColumnSumScratch scratch;
  llvm::SmallVector<Sum> sums;
  llvm::SmallVector<Sum *> columns, numbers;
  mlir::Value start, item;
  /// Shared memory for the sums of the rows that a block processes
  /// concurrently.
  llvm::SmallDenseMap<mlir::Type, mlir::Value> sharedOf;
  /// Number of columns, and columns that a thread reduces at a time.
  int64_t length = 1, joined = 1;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_ROWS_COLUMNSUMLOWERING_H
