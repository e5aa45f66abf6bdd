//===- AttentionGradientSchedule.cpp - attention gradient tile sizes (mma) ===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionGradientMma.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Maximum operand columns of the tensor-core variant.
static constexpr int64_t kMostColumns = 256;
/// Maximum registers per thread for accumulators, scores and own rows; the rest
/// is for the others' fragments and addresses.
static constexpr int64_t kMostRegisters = 150;
/// The same if all keys' scores are in registers, with the maximum keys and
/// bytes of such a tile.
static constexpr int64_t kMostTileRegisters = 192, kMostKeysInOneTile = 128,
                         kMostTileBytes = 48 * 1024;
/// Maximum accumulator columns, and of both accumulators of the keys role.
static constexpr int64_t kMostSumColumns = 192, kMostSharedColumns = 256;

namespace {
/// Tile sizes of one role.
struct RoleSizes {
  /// Rows of the others' tile.
  int64_t others;
  /// Accumulator columns per pass.
  int64_t sums;
  bool keepsOwn = false;
};

/// Tile sizes of one schedule.
struct GradientTiles {
  GradientTiles(const AttentionSizes &sizes, bool isTf32, bool isCausal)
      : bytes(isTf32 ? 4 : 2), skew(16 / bytes),
        depth(llvm::alignTo(sizes.depth, 16)),
        columns(llvm::alignTo(sizes.width, 16)),
        warps(std::min<int64_t>(
            4, llvm::divideCeil(std::max(sizes.length, sizes.positions),
                                kGradientWarpRows))) {
    int64_t wide = depth + columns;
    // Wide operands leave registers for few scores.
    int64_t others = wide <= kMostSharedColumns ? 32 : 16;
    auto atMost = [](int64_t tile, int64_t extent) {
      return std::min<int64_t>(tile, llvm::alignTo(extent, 16));
    };
    sumColumns = std::min(std::max(depth, columns), kMostSumColumns);
    // Half of a diagonal tile is wasted, and detecting it takes registers.
    int64_t keysAtOnce = wide <= 128 && !isTf32 && !isCausal ? 64 : others;
    rows = {atMost(keysAtOnce, sizes.positions), std::min(depth, sumColumns)};
    // With all scores of a row in registers one pass suffices.
    int64_t all = llvm::alignTo(sizes.positions, 16);
    keysInOneTile = all <= kMostKeysInOneTile &&
                    tileBytes(all) <= kMostTileBytes && depth <= sumColumns &&
                    all + rows.sums / 2 <= kMostTileRegisters;
    if (keysInOneTile)
      rows.others = all;
    keysInOneWalk = wide <= kMostSharedColumns;
    keys = {atMost(others, sizes.length), keysInOneWalk ? wide : sumColumns};
    auto keepsOwn = [&](const RoleSizes &role, int64_t most) {
      return wide * bytes / 8 + role.others + role.sums / 2 <= most;
    };
    rows.keepsOwn =
        keepsOwn(rows, keysInOneTile ? kMostTileRegisters : kMostRegisters);
    keys.keepsOwn = keepsOwn(keys, kMostRegisters);
  }

  int64_t blockRows() const { return warps * kGradientWarpRows; }
  int64_t tileBytes(int64_t tileRows) const {
    return tileRows * (depth + columns + 2 * skew) * bytes;
  }
  int64_t walkedBytes(const RoleSizes &role, int64_t stages,
                      int64_t statistics) const {
    return stages * (tileBytes(role.others) + statistics * role.others * 4);
  }
  /// Shared memory for the others' tiles, reused for results, in bytes.
  int64_t passingBytes(int64_t stages) const {
    int64_t result = blockRows() * (sumColumns + kGradientResultSkew) * 4;
    return std::max({walkedBytes(rows, keysInOneTile ? 1 : stages, 0),
                     walkedBytes(keys, stages, 3), result});
  }
  /// Own rows follow, or share that memory.
  int64_t sharedBytes(int64_t stages) const {
    int64_t own = tileBytes(blockRows()), passing = passingBytes(stages);
    return rows.keepsOwn && keys.keepsOwn && !keysInOneTile
               ? std::max(passing, own)
               : passing + own;
  }
  int64_t blocks(const AttentionSizes &sizes) const {
    return sizes.heads * llvm::divideCeil(sizes.length, blockRows()) +
           sizes.sharedHeads * llvm::divideCeil(sizes.positions, blockRows());
  }

  int64_t bytes, skew, depth, columns, warps;
  RoleSizes rows, keys;
  /// Maximum accumulator columns.
  int64_t sumColumns;
  /// Whether the rows role has all keys in one tile, and whether the keys role
  /// accumulates both results in one pass.
  bool keysInOneTile, keysInOneWalk;
};
} // namespace

/// Returns true if cp.async can load all operands without conversion.
static bool copiesOperands(AttentionGradientOp op, const CudaTarget &target) {
  Type element = getElementTypeOrSelf(op.getQuery());
  return target.hasAsyncCopies() &&
         llvm::all_of(ArrayRef<Value>{op.getQuery(), op.getKey(), op.getValue(),
                                      gradientFactor(op)},
                      [&](Value operand) {
                        return getElementTypeOrSelf(operand) == element &&
                               AttentionCodegen::asyncBytes(operand) > 0;
                      });
}

std::optional<Schedule> cuda::scheduleGradientMma(func::FuncOp kernel,
                                                  AttentionGradientOp op,
                                                  const CudaTarget &target) {
  AttentionProblem problem(op);
  const MatrixUnit *unit = mmaUnit(
      getElementTypeOrSelf(problem.query.getType()), problem.compute, target);
  AttentionSizes sizes(problem);
  if (!unit || sizes.depth > kMostColumns || sizes.width > kMostColumns ||
      std::min({sizes.heads, sizes.sharedHeads, sizes.length, sizes.positions,
                sizes.depth, sizes.width}) < 1)
    return std::nullopt;
  GradientTiles tiles(sizes, unit->type == MathType::TensorFloat32,
                      problem.causal);
  int64_t stages = copiesOperands(op, target) ? 2 : 1;
  auto fits = [&] {
    return tiles.sharedBytes(stages) + kGradientStaticBytes <=
           target.sharedBytesPerBlock();
  };
  // For few heads use smaller blocks on more multiprocessors.
  while (tiles.warps > 1 &&
         (!fits() || 2 * tiles.blocks(sizes) <= target.multiprocessors()))
    tiles.warps = llvm::divideCeil(tiles.warps, 2);
  if (!fits())
    return std::nullopt;
  Schedule schedule;
  schedule.threads = 32 * tiles.warps;
  schedule.sharedBytes = tiles.sharedBytes(stages);
  AttentionGradientSchedule parameters;
  parameters.matrixUnits = true;
  parameters.depth = tiles.depth;
  parameters.columns = tiles.columns;
  parameters.stages = stages;
  parameters.keys = tiles.rows.others;
  parameters.queries = tiles.keys.others;
  parameters.rowsInRegisters = tiles.rows.keepsOwn;
  parameters.keysInRegisters = tiles.keys.keepsOwn;
  parameters.ownOffset = tiles.passingBytes(stages);
  parameters.keysInOneTile = tiles.keysInOneTile;
  parameters.keysInOneWalk = tiles.keysInOneWalk;
  parameters.sumColumns = tiles.sumColumns;
  placeGradientBlocks(schedule, parameters, kernel, op, tiles.blockRows());
  return schedule;
}
