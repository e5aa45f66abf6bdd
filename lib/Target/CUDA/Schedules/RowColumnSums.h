//===- RowColumnSums.h - sums over the rows of a row kernel -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A row kernel that also adds up what its rows hold: per column, as the
// gradient of a norm's scale and bias, or all of it, as the mean of a loss. A
// block walks over several rows, each thread adds up its own columns, and what
// the blocks have is joined in two steps by the last block of some and the last
// of all, always in the order of the blocks.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_ROWCOLUMNSUMS_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_ROWCOLUMNSUMS_H

#include "RowPlan.h"

namespace mpc {

/// How the kernel of `plan`, which sums over rows, runs.
Schedule scheduleColumnSums(const RowPlan &plan, const CudaTarget &target);

/// The scratch buffer: counters, then per sum a line of each block and, behind
/// them, of each team of blocks.
struct ColumnScratch {
  ColumnScratch(const RowPlan &plan, const RowGeometry &geometry,
                int64_t blocks);
  int64_t teams = 1, lines = 1, bytes = 0;
  llvm::SmallVector<int64_t> offsets;
};

/// Writes the sums of one kernel.
class ColumnSums {
public:
  ColumnSums(GpuKernel &kernel, const RowPlan &plan,
             const RowGeometry &geometry, ElementEmitter &emitter);

  /// Zeros. `start` is the first position of the thread in its row; `item`
  /// (null: 0) tells the rows that a block has at a time apart.
  void begin(mlir::Value start, mlir::Value item);
  /// Adds what a row holds at a place, which is at `position` of the row in
  /// step `step` of the thread.
  mlir::LogicalResult add(const ReductionLoop::Place &place, mlir::Value step,
                          mlir::Value position);
  /// After the last row: joins what all threads and blocks have, and stores it.
  mlir::LogicalResult finish();

private:
  /// One sum: how it is added up, and its numbers of all blocks.
  struct Sum {
    const RowColumnSum *of;
    mlir::Type type;
    /// The thread's own vectors; null where it adds to the block's line.
    mlir::Value own;
    mlir::Value lines;
    bool isPerColumn() const { return of->isPerColumn; }
  };
  using Line = llvm::function_ref<mlir::LogicalResult(
      llvm::ArrayRef<mlir::Value> sums, mlir::Value column)>;

  /// `body` at every vector of a row that is this thread's.
  void eachStep(
      llvm::function_ref<void(mlir::Value step, mlir::Value position)> body);
  /// `body` where `condition` (null: always) holds.
  void within(mlir::Value condition, llvm::function_ref<void()> body);
  /// `body` at vectors of columns, spread over the threads of the block.
  mlir::LogicalResult
  eachColumn(llvm::function_ref<mlir::LogicalResult(mlir::Value)> body);
  /// Index `column` of line `line` of a sum.
  mlir::Value at(const Sum &sum, mlir::Value line, mlir::Value column);
  /// Leaves what the block's threads have of a sum in the block's line.
  void leaveColumns(Sum &sum);
  void leaveNumber(Sum &sum);
  /// `body` in the last of `count` blocks to come to `counter`.
  mlir::LogicalResult lastOf(int64_t count, mlir::Value counter,
                             llvm::function_ref<mlir::LogicalResult()> body);
  /// Adds `count` lines from `first` on and hands the sums to `takeColumns`, at
  /// every column, and to `takeNumbers`.
  mlir::LogicalResult join(mlir::Value first, int64_t count, Line takeColumns,
                           Line takeNumbers);
  /// The same, and stores what is made of the sums.
  mlir::LogicalResult storeTotals(mlir::Value first, int64_t count);
  mlir::LogicalResult store(llvm::ArrayRef<Sum *> sums,
                            llvm::ArrayRef<mlir::Value> values,
                            mlir::Value column, int64_t lanes);
  mlir::Value zero(const Sum &sum, int64_t lanes);

  GpuKernel &kernel;
  const RowPlan &plan;
  const RowGeometry &geometry;
  ElementEmitter &emitter;
  ValueMath math;
  IndexMath index;
  ColumnScratch scratch;
  llvm::SmallVector<Sum> sums;
  llvm::SmallVector<Sum *> columns, numbers;
  mlir::Value start, item;
  /// Shared memory for the sums of the rows that a block has at a time.
  llvm::SmallDenseMap<mlir::Type, mlir::Value> sharedOf;
  /// Columns that one thread joins at a time.
  int64_t joined = 1;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_ROWCOLUMNSUMS_H
