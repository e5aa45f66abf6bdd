//===- ThreadGroupLowering.h - tile programs on thread groups ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers a tile program for the thread group of #tile.threads: the positions of
// each thread, the storage of buffers, and reductions across threads. Private
// to this folder.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_ROWS_THREADGROUPLOWERING_H
#define MPC_LIB_TARGET_CUDA_ROWS_THREADGROUPLOWERING_H

#include "../Plan/Schedule.h"
#include "ColumnSumLowering.h"

#include "Target/Kernel/TileRegions.h"

namespace mpc::cuda {

class ThreadGroupLowering {
public:
  /// `function` is a kernel with known grid and block; its last argument is the
  /// scratch buffer, if any.
  ThreadGroupLowering(mlir::gpu::GPUFuncOp function, tile::ForEachOp own);
  /// Replaces the op, and the totals of its column sums.
  mlir::LogicalResult lower();

private:
  using Join = llvm::function_ref<Carried(mlir::ValueRange, mlir::ValueRange)>;

  // Indices (ThreadGroupLowering.cpp).
  void placeThread();
  void placeItem(mlir::Value round = {});
  void placeMember();
  /// Moves the rest of a block into the kernel, lowering its tile ops.
  mlir::LogicalResult moveItem(mlir::Block &block);
  /// Verifies the launch, and lowers all items of a block sequentially.
  mlir::LogicalResult checkLaunch();
  mlir::LogicalResult moveRounds(mlir::Block &block);
  mlir::LogicalResult lowerWalk(tile::ItemLoopOp walk);
  /// Returns the loop's positions of this thread in step `iteration`.
  llvm::SmallVector<mlir::Value> setPosition(tile::ItemLoopOp walk,
                                             mlir::Value iteration);
  mlir::LogicalResult lowerCommit(tile::ItemStoreOp commit);

  // Buffers (ThreadGroupLowering.cpp).
  mlir::LogicalResult makeBuffer(tile::ItemBufferOp keep);
  mlir::Value bufferIndex(int64_t lanes);
  void save(tile::BufferWriteOp save);
  mlir::Value load(tile::BufferReadOp kept);

  // Reductions over the lanes of a vector, the threads of a group, of (a part
  // of) a warp, the warps of a block, the rows of threads of a block. All
  // threads receive the result.
  Carried reduceAll(tile::ItemReduceOp op);
  Carried reduceVector(tile::ItemReduceOp op, mlir::ValueRange vectors);
  Carried reduceGroup(tile::ItemReduceOp op, mlir::ValueRange values);
  Carried reduceWarp(tile::ItemReduceOp op, mlir::ValueRange values,
                     int64_t width);
  Carried reduceWarps(tile::ItemReduceOp op, mlir::ValueRange values);
  Carried reduceColumns(tile::ItemReduceOp op, mlir::ValueRange values);

  // Items split over several blocks: the last-arriving block reduces the
  // partial results in the scratch buffer and runs the rest of `block`.
  mlir::LogicalResult reduceBlocks(llvm::ArrayRef<tile::ItemReduceOp> joins,
                                   mlir::Block &block);
  mlir::LogicalResult finishJoins(llvm::ArrayRef<tile::ItemReduceOp> joins,
                                  llvm::ArrayRef<mlir::Value> arrays,
                                  mlir::Value place);

  tile::ForEachOp own;
  tile::ThreadMappingAttr team;
  GpuBody kernel;
  ElementEmitter emitter;
  ValueMath math;
  IndexMath index;
  std::optional<ColumnSumLowering> sums;
  /// Thread index in its group; item index in the block (null: 0); first
  /// position of the thread.
  mlir::Value member, column, start;
  /// Step of a loop, position along its axes, and whether the position is in
  /// bounds (null: always).
  mlir::Value step, position, inside;
  /// Whether the thread's item exists, and whether it is the item's first
  /// thread; null: always.
  mlir::Value active, first;
  llvm::DenseMap<mlir::Value, mlir::Value> buffers;
  int64_t sharedOffset = 0;
  mlir::Value dynamicShared;
};

/// Layout of the scratch buffer of split items: a counter per group of blocks
/// that share items, then an array of `splits` x `lanes` elements per partial
/// value.
struct SplitScratch {
  /// `partials` are the scalar types that a thread carries.
  SplitScratch(int64_t items, tile::ThreadMappingAttr team,
               llvm::ArrayRef<mlir::Type> partials);
  int64_t blocks = 1, lanes = 1, bytes = 0;
  llvm::SmallVector<int64_t> offsets;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_ROWS_THREADGROUPLOWERING_H
