//===- TeamSums.h - sums over the items of a kernel -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel that also adds up what its items hold: per column, as the gradient
// of a norm's scale and bias, or all of it, as the mean of a loss. A block
// walks over several items, each thread adds up its own columns, and what the
// blocks have is joined in two steps by the last block of some and the last of
// all, always in the order of the blocks.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_TEAMSUMS_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_TEAMSUMS_H

#include "Schedule.h"

#include "Target/Kernel/ElementEmitter.h"
#include "Target/Kernel/IndexMath.h"
#include "Target/Kernel/MathExpansion.h"

namespace mpc {

/// The scratch buffer: counters, then per sum a line of each block and, behind
/// them, of each group of blocks.
struct SumsScratch {
  SumsScratch(llvm::ArrayRef<tile::SumsType> sums, tile::TeamAttr team,
              int64_t blocks);
  int64_t groups = 1, lines = 1, bytes = 0;
  llvm::SmallVector<int64_t> offsets;
};

/// Writes the sums of one kernel.
class TeamSums {
public:
  TeamSums(GpuBody &kernel, tile::TeamAttr team, ElementEmitter &emitter,
           llvm::ArrayRef<tile::SumsOp> summed,
           llvm::ArrayRef<tile::TotalOp> totals);

  /// Zeros. `start` is the first position of the thread in its row; `item`
  /// (null: 0) tells the rows that a block has at a time apart.
  void begin(mlir::Value start, mlir::Value item);
  /// Adds what an item holds at `position` in step `step` of the thread.
  void add(tile::AccumulateOp add, mlir::Value step, mlir::Value position);
  /// After the last item: joins what all threads and blocks have, and does what
  /// the totals say.
  mlir::LogicalResult finish();

private:
  /// One sum: how it is added up, and its numbers of all blocks.
  struct Sum {
    mlir::Value sums;
    int64_t width;
    mlir::Type type;
    /// The thread's own vectors; null where it adds to the block's line.
    mlir::Value own;
    mlir::Value lines;
    bool isPerColumn() const { return width > 1; }
  };
  using Line = llvm::function_ref<mlir::LogicalResult(
      llvm::ArrayRef<mlir::Value> sums, mlir::Value column)>;

  /// `body` at every vector of an item that is this thread's.
  void eachStep(
      llvm::function_ref<void(mlir::Value step, mlir::Value position)> body);
  /// `body` at vectors of columns, spread over the threads of the block.
  mlir::LogicalResult
  eachColumn(llvm::function_ref<mlir::LogicalResult(mlir::Value)> body);
  /// Index `column` of line `line` of a sum.
  mlir::Value at(const Sum &sum, mlir::Value line, mlir::Value column);
  /// Leaves what the block's threads have of a sum in the block's line.
  void leaveColumns(Sum &sum);
  void leaveNumber(Sum &sum);
  mlir::LogicalResult lastOf(int64_t count, mlir::Value counter,
                             llvm::function_ref<mlir::LogicalResult()> body);
  /// Adds `count` lines from `first` on and hands the sums to `takeColumns`, at
  /// every column, and to `takeNumbers`.
  mlir::LogicalResult join(mlir::Value first, int64_t count, Line takeColumns,
                           Line takeNumbers);
  /// The same, and does what the totals say.
  mlir::LogicalResult storeTotals(mlir::Value first, int64_t count);
  void moveTotal(llvm::ArrayRef<Sum *> of, llvm::ArrayRef<mlir::Value> values,
                 mlir::Value column);
  mlir::Value zero(const Sum &sum, int64_t lanes);

  GpuBody &kernel;
  tile::TeamAttr team;
  ElementEmitter &emitter;
  ValueMath math;
  IndexMath index;
  llvm::SmallVector<tile::SumsType> types;
  llvm::SmallVector<tile::TotalOp> totals;
  int64_t blocks, threads;
  SumsScratch scratch;
  llvm::SmallVector<Sum> sums;
  llvm::SmallVector<Sum *> columns, numbers;
  mlir::Value start, item;
  /// Shared memory for the sums of the rows that a block has at a time.
  llvm::SmallDenseMap<mlir::Type, mlir::Value> sharedOf;
  /// Columns in all, and those that one thread joins at a time.
  int64_t length = 1, joined = 1;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_TEAMSUMS_H
