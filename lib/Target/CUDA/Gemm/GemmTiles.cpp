//===- GemmTiles.cpp - tiling of GEMM -------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmCost.h"
#include "GemmOperandSums.h"

#include "mpc/Support/TensorCoreModel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Shared memory for staging the epilogue, even if the pipeline needs less, in
/// bytes.
static constexpr int64_t kHandedBytes = 24 * 1024;
/// Minimum steps per block with split-K.
static constexpr int64_t kStepsOfSplit = 8;

const MatrixUnit &GemmTiles::unitOf(const FusedGemm &problem) const {
  return warpgroups
             ? *findMatrixUnit(MatrixInstruction::Wgmma, problem.tileType)
             : *problem.unit;
}

SmallVector<int64_t> GemmTiles::shapeOf(const FusedGemm &problem,
                                        const GemmOperand &operand,
                                        int64_t rows) const {
  int64_t lines = operand.alongDepth ? rows : k;
  TileLayout places = placesOf(problem, operand);
  if (places.isCut)
    return {rows / TileLayout::lineOf(places.bytes), lines,
            TileLayout::lineOf(places.bytes)};
  if (places.isPermuted)
    return {lines, TileLayout::lineOf(places.bytes)};
  if (operand.alongDepth)
    return {lines, k + 16 / problem.tileBytes()};
  return {lines, rows + problem.unit->paddingAcross / problem.tileBytes()};
}

static int64_t operandBytes(const FusedGemm &problem, const GemmTiles &tiles,
                            const GemmOperand &operand, int64_t rows) {
  int64_t elements = 1;
  for (int64_t extent : tiles.shapeOf(problem, operand, rows))
    elements *= extent;
  return llvm::alignTo(elements * problem.tileBytes(), 16);
}

int64_t GemmTiles::lhsBytes(const FusedGemm &problem) const {
  return operandBytes(problem, *this, *problem.lhs, m);
}

int64_t GemmTiles::rhsBytes(const FusedGemm &problem) const {
  return operandBytes(problem, *this, *problem.rhs, n);
}

int64_t GemmTiles::lhsStages(const FusedGemm &problem) const {
  return problem.rows ? llvm::divideCeil(problem.k, k) : stages;
}

int64_t GemmTiles::pipelineBytes(const FusedGemm &problem) const {
  return lhsStages(problem) * lhsBytes(problem) + stages * rhsBytes(problem);
}

int64_t GemmTiles::handedRows(const FusedGemm &problem) const {
  int64_t rowsPerStep = problem.unit->m;
  int64_t room = std::max(pipelineBytes(problem), kHandedBytes);
  int64_t line = warpsM * warpsN * (warpN() + 8) * 4;
  // A divisor of the number of steps.
  int64_t steps = warpM() / rowsPerStep, rows = steps;
  while (rows > 1 && (steps % rows != 0 || rows * rowsPerStep * line > room))
    --rows;
  return rows * rowsPerStep;
}

int64_t GemmTiles::sharedBytes(const FusedGemm &problem) const {
  int64_t handed = handedRows(problem) * warpsM * warpsN * (warpN() + 8) * 4;
  return std::max({pipelineBytes(problem), handed,
                   GemmOperandSums::sharedBytes(problem, *this)});
}

int64_t GemmTiles::tileCount(const FusedGemm &problem) const {
  return llvm::divideCeil(problem.m, m) * llvm::divideCeil(problem.n, n) *
         problem.batches;
}

int64_t GemmTiles::counterBytes(const FusedGemm &problem) const {
  return llvm::alignTo(4 * tileCount(problem), 128);
}

int64_t GemmTiles::partialBytes(const FusedGemm &problem) const {
  return 4 * tileCount(problem) * splits * m * n;
}

int64_t GemmTiles::scratchBytes(const FusedGemm &problem) const {
  if (splits == 1)
    return 0;
  return counterBytes(problem) + partialBytes(problem) +
         GemmOperandSums::scratchBytes(problem, *this);
}

//===----------------------------------------------------------------------===//
// Tile selection
//===----------------------------------------------------------------------===//

/// Returns true if the unit's sums of 8-bit floats have fewer bits than f32 and
/// the problem needs these.
static bool needsPromotion(const FusedGemm &problem, const MatrixUnit &unit,
                           const CudaTarget &target) {
  return problem.needsF32Sums &&
         TensorCoreArithmetic::of(unit.isWgmma() ? TensorCoreInstruction::Wgmma
                                                 : TensorCoreInstruction::Mma,
                                  TensorCoreType::E4M3,
                                  target.target().facts().computeCapability)
                 .resultBits < 23;
}

/// Returns the wgmma unit of a problem, or null: 8-bit operands have to extend
/// along k.
static const MatrixUnit *wgmmaUnit(const FusedGemm &problem,
                                   const CudaTarget &target) {
  bool isAlongDepth = problem.lhs->alongDepth && problem.rhs->alongDepth;
  if (!target.hasWarpgroups() ||
      problem.k < TileLayout::lineOf(problem.tileBytes()) ||
      (problem.tileBytes() == 1 && !isAlongDepth))
    return nullptr;
  return findMatrixUnit(MatrixInstruction::Wgmma, problem.tileType);
}

/// Returns depths of tiles: enough work per barrier, but at most k.
static SmallVector<int64_t> depthsOf(const FusedGemm &problem,
                                     const MatrixUnit &unit,
                                     bool needsPromotion) {
  if (unit.isFma() || unit.isWgmma())
    return {4 * unit.k};
  // Sums of 128 products are exact enough.
  if (needsPromotion)
    return {std::max(std::min<int64_t>(llvm::PowerOf2Ceil(problem.k), 128),
                     unit.k)};
  int64_t most = std::max<int64_t>(llvm::PowerOf2Ceil(problem.k), 16);
  SmallVector<int64_t> depths;
  for (int64_t depth : {64, 32}) {
    depth = std::min(depth, most) * unit.k / 16;
    depth = std::min(depth, std::max(most, unit.k));
    if (!llvm::is_contained(depths, depth))
      depths.push_back(depth);
  }
  return depths;
}

/// Returns tile shapes, without stages.
static std::vector<GemmTiles> shapesFor(const FusedGemm &problem,
                                        const CudaTarget &target) {
  std::vector<GemmTiles> shapes;
  const MatrixUnit *wgmma = wgmmaUnit(problem, target);
  for (const MatrixUnit *unit : {wgmma, problem.unit}) {
    // The two instructions round sums of 8-bit floats differently: the bits of
    // a matmul must not depend on its tiles.
    if (!unit || (wgmma && unit != wgmma && wgmma->isFloat8()))
      continue;
    bool promotes = needsPromotion(problem, *unit, target);
    for (const BlockTile &shape : unit->tiles)
      for (int64_t depth : depthsOf(problem, *unit, promotes)) {
        GemmTiles tiles;
        tiles.m = shape.m;
        tiles.n = shape.n;
        tiles.k = depth;
        tiles.warpsM = shape.warpsM;
        tiles.warpsN = shape.warpsN;
        tiles.warpgroups = unit->isWgmma();
        tiles.promotes = promotes;
        shapes.push_back(tiles);
      }
  }
  return shapes;
}

std::vector<GemmTiles> GemmTiles::candidates(const FusedGemm &problem,
                                             const CudaTarget &target) {
  bool async = target.hasAsyncCopies() &&
               (problem.lhs->argument || problem.rhs->argument);
  GemmCost cost(problem, target);
  std::vector<GemmTiles> result;
  for (GemmTiles tiles : shapesFor(problem, target)) {
    // A warp needs both halves of its pairs.
    if (problem.pair && tiles.warpN() % (2 * problem.pair->block) != 0)
      continue;
    if (!GemmOperandSums::fits(problem, tiles))
      continue;
    // Two stages overlap copies with computation; more hide memory latency.
    const MatrixUnit &unit = tiles.unitOf(problem);
    int64_t most = std::min<int64_t>(async ? unit.stages : 2,
                                     llvm::divideCeil(problem.k, tiles.k));
    tiles.stages = std::min<int64_t>(most, 2);
    if (tiles.sharedBytes(problem) > target.sharedBytesPerBlock() ||
        !cost.fitsRegisters(tiles))
      continue;
    int64_t room = cost.pipelineRoom(tiles);
    while (tiles.stages < most) {
      GemmTiles more = tiles;
      ++more.stages;
      if (more.pipelineBytes(problem) > room)
        break;
      tiles = more;
    }
    // Prefer a smaller depth if a deeper tile leaves too few stages.
    if (tiles.stages < std::min<int64_t>(most, 3) &&
        tiles.k != depthsOf(problem, unit, tiles.promotes).back())
      continue;
    result.push_back(tiles);
  }
  return result;
}

GemmTiles GemmTiles::choose(const FusedGemm &problem,
                            const CudaTarget &target) {
  GemmCost cost(problem, target);
  GemmTiles best;
  double least = HUGE_VAL;
  for (GemmTiles tiles : candidates(problem, target)) {
    // Blocks need equal numbers of steps, at least as many as stages.
    int64_t steps = llvm::divideCeil(problem.k, tiles.k);
    // With split-K each block would repeat the row prologue.
    int64_t room =
        problem.rows
            ? 1
            : std::max<int64_t>(
                  target.multiprocessors() / tiles.tileCount(problem), 1);
    for (tiles.splits = 1; tiles.splits <= room; ++tiles.splits) {
      if (steps % tiles.splits != 0 ||
          (tiles.splits > 1 && steps / tiles.splits < kStepsOfSplit))
        continue;
      if (tiles.sharedBytes(problem) > target.sharedBytesPerBlock())
        continue;
      if (double cycles = cost.cycles(tiles); cycles < least) {
        least = cycles;
        best = tiles;
      }
    }
  }
  return best;
}
