//===- Team.h - tiles of teams of threads -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to this folder. Carries out what a program over tiles leaves open by
// its team (#tile.team): where a thread stands, which positions it walks, where
// it keeps what, and how members join what they have.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_TEAM_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_TEAM_H

#include "Schedule.h"
#include "TeamSums.h"

#include "Target/Kernel/TileRegions.h"

namespace mpc {

class TeamTiles {
public:
  /// `function` is a kernel whose grid and block are known; its last argument
  /// is the scratch buffer where it has one.
  TeamTiles(mlir::gpu::GPUFuncOp function, tile::OwnOp own);
  /// Replaces the op, and the totals of what its items add up.
  mlir::LogicalResult lower();

private:
  using Join = llvm::function_ref<Carried(mlir::ValueRange, mlir::ValueRange)>;

  // Places (Team.cpp).
  void placeThread();
  void placeItem(mlir::Value round = {});
  void placeMember();
  /// Moves what is left of a block here, tile ops carried out.
  mlir::LogicalResult moveItem(mlir::Block &block);
  /// All items of a block, one after another.
  mlir::LogicalResult checkLaunch();
  mlir::LogicalResult moveRounds(mlir::Block &block);
  mlir::LogicalResult lowerWalk(tile::WalkOp walk);
  /// Positions of a walk in this thread's step `iteration`.
  llvm::SmallVector<mlir::Value> setPosition(tile::WalkOp walk,
                                             mlir::Value iteration);
  mlir::LogicalResult lowerCommit(tile::CommitOp commit);
  /// `body` where `condition` (null: always) holds, else `otherwise`.
  mlir::FailureOr<Carried>
  guarded(mlir::Value condition, mlir::ValueRange otherwise,
          llvm::function_ref<mlir::FailureOr<Carried>()> body);

  // Kept values (Team.cpp).
  mlir::LogicalResult makeBuffer(tile::KeepOp keep);
  mlir::Value bufferIndex(int64_t lanes);
  void save(tile::SaveOp save);
  mlir::Value load(tile::KeptOp kept);

  // Joins (TeamJoins.cpp): the lanes of vectors, the threads of a team, those
  // of (a part of) a warp, its warps, the lines of a block that stand in
  // columns. The result is in every thread.
  Carried joinAll(tile::JoinOp op);
  Carried joinVector(tile::JoinOp op, mlir::ValueRange vectors);
  Carried joinTeam(tile::JoinOp op, mlir::ValueRange values);
  Carried joinWarp(tile::JoinOp op, mlir::ValueRange values, int64_t width);
  Carried joinWarps(tile::JoinOp op, mlir::ValueRange values);
  Carried joinColumns(tile::JoinOp op, mlir::ValueRange values);

  // Items that several blocks share (TeamSplits.cpp): the last block to come
  // joins what all have left in the scratch buffer, and does what is left of
  // `block`.
  mlir::LogicalResult joinBlocks(llvm::ArrayRef<tile::JoinOp> joins,
                                 mlir::Block &block);
  mlir::LogicalResult finishJoins(llvm::ArrayRef<tile::JoinOp> joins,
                                  llvm::ArrayRef<mlir::Value> arrays,
                                  mlir::Value place);

  tile::OwnOp own;
  tile::TeamAttr team;
  GpuBody kernel;
  ElementEmitter emitter;
  ValueMath math;
  IndexMath index;
  std::optional<TeamSums> sums;
  /// This thread's number in its team; the item's number in its block (null:
  /// 0); the thread's first position.
  mlir::Value member, column, start;
  /// The step of a walk, the position along its axes, and whether that exists
  /// (null: always).
  mlir::Value step, position, inside;
  /// Whether the thread's item exists and whether it is the item's first
  /// thread; null: always.
  mlir::Value active, first;
  llvm::DenseMap<mlir::Value, mlir::Value> buffers;
  int64_t sharedOffset = 0;
  mlir::Value dynamicShared;
};

/// The scratch buffer of items that blocks share: a counter per block of a row
/// of blocks, then for each partial value an array of `splits` x `lanes`
/// elements.
struct SplitScratch {
  /// `partials` are the scalar types that a member carries.
  SplitScratch(int64_t items, tile::TeamAttr team,
               llvm::ArrayRef<mlir::Type> partials);
  int64_t blocks = 1, lanes = 1, bytes = 0;
  llvm::SmallVector<int64_t> offsets;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_TEAM_H
