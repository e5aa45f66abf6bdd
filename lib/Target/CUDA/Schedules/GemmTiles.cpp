//===- GemmTiles.cpp - how products are cut -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmSums.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Shared memory that a block's pipeline may take, so that two blocks share a
/// multiprocessor where they can.
static constexpr int64_t kPipelineBytes = 80 * 1024;
/// What the results between sums and epilogue may take beyond that of the
/// pipeline.
static constexpr int64_t kHandedBytes = 24 * 1024;
static constexpr int64_t kMostStages = 4;
/// Steps along k from which adding up the results of several blocks costs less
/// than it saves, and those that a block keeps at least.
static constexpr int64_t kLongProduct = 32, kStepsOfSplit = 8;

static int64_t tileBytes(const GemmProblem &problem) {
  return problem.tileType.getIntOrFloatBitWidth() / 8;
}

int64_t GemmTiles::pitch(const GemmProblem &problem, const GemmOperand &operand,
                         int64_t rows, int64_t depth) {
  // Eight rows that ldmatrix reads together lie in different banks where the
  // pitch is an odd multiple of 16 bytes. tf32 fragments are read element by
  // element, rows (along k) times columns of four by eight lanes.
  int64_t line = operand.alongDepth ? depth : rows;
  switch (problem.unit) {
  case GemmUnitKind::Mma16:
    return line + 8;
  case GemmUnitKind::MmaTf32:
    return line + (operand.alongDepth ? 4 : 8);
  case GemmUnitKind::Fma:
    return line + 4;
  }
  return line;
}

static int64_t operandBytes(const GemmProblem &problem,
                            const GemmOperand &operand, int64_t rows,
                            int64_t depth) {
  int64_t lines = operand.alongDepth ? rows : depth;
  return llvm::alignTo(lines * GemmTiles::pitch(problem, operand, rows, depth) *
                           tileBytes(problem),
                       16);
}

int64_t GemmTiles::lhsBytes(const GemmProblem &problem) const {
  return operandBytes(problem, *problem.lhs, m, k);
}

int64_t GemmTiles::rhsBytes(const GemmProblem &problem) const {
  return operandBytes(problem, *problem.rhs, n, k);
}

int64_t GemmTiles::pipelineBytes(const GemmProblem &problem) const {
  return stages * (lhsBytes(problem) + rhsBytes(problem));
}

int64_t GemmTiles::handedRows(const GemmProblem &problem) const {
  int64_t rowsPerStep = problem.unit == GemmUnitKind::Fma ? 4 : 16;
  int64_t room = std::max(pipelineBytes(problem), kHandedBytes);
  int64_t line = warpsM * warpsN * (warpN() + 8) * 4;
  int64_t rows = warpM();
  while (rows > rowsPerStep && rows * line > room)
    rows /= 2;
  return rows;
}

int64_t GemmTiles::sharedBytes(const GemmProblem &problem) const {
  int64_t handed = handedRows(problem) * warpsM * warpsN * (warpN() + 8) * 4;
  return std::max(
      {pipelineBytes(problem), handed, GemmSums::sharedBytes(problem, *this)});
}

int64_t GemmTiles::tileCount(const GemmProblem &problem) const {
  return llvm::divideCeil(problem.m, m) * llvm::divideCeil(problem.n, n) *
         problem.batches;
}

int64_t GemmTiles::counterBytes(const GemmProblem &problem) const {
  return llvm::alignTo(4 * tileCount(problem), 128);
}

int64_t GemmTiles::partialBytes(const GemmProblem &problem) const {
  return 4 * tileCount(problem) * splits * m * n;
}

int64_t GemmTiles::scratchBytes(const GemmProblem &problem) const {
  if (splits == 1)
    return 0;
  return counterBytes(problem) + partialBytes(problem) +
         GemmSums::scratchBytes(problem, *this);
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

namespace {
struct Candidate {
  int64_t m, n, warpsM, warpsN;
};
} // namespace

static constexpr Candidate kMmaCandidates[] = {
    {128, 256, 2, 4}, {256, 128, 4, 2}, {128, 128, 2, 2}, {128, 64, 2, 2},
    {64, 128, 2, 2},  {64, 64, 2, 2},   {64, 32, 2, 2},   {32, 64, 2, 2},
    {32, 32, 2, 2},   {16, 64, 1, 4},   {16, 32, 1, 4},   {64, 16, 4, 1},
};

/// Warps of 16 x 32 at least, whatever the layout of the tiles.
static constexpr Candidate kFmaCandidates[] = {
    {128, 128, 4, 2}, {128, 64, 4, 1}, {64, 128, 2, 2},
    {64, 64, 2, 2},   {32, 64, 1, 2},  {64, 32, 4, 1},
    {32, 32, 2, 1},   {16, 64, 1, 2},  {16, 32, 1, 1},
};

/// Rough time of the whole product in multiply-adds of one multiprocessor.
static double costOf(const GemmProblem &problem, const GemmTiles &tiles,
                     int64_t multiprocessors) {
  double blocks = double(llvm::divideCeil(problem.m, tiles.m)) *
                  llvm::divideCeil(problem.n, tiles.n) * problem.batches;
  double perProcessor = std::ceil(blocks / multiprocessors);
  // Edges of a tile are loaded, its area is multiplied; one step along k waits
  // for memory unless other blocks work meanwhile.
  double area = tiles.m * tiles.n, edges = tiles.m + tiles.n;
  double steps = llvm::divideCeil(problem.k, tiles.k);
  double resident = std::min(perProcessor, std::max(1.0, 32768 / area));
  double wait = 400.0 * 1024 / resident, start = 2000.0 * 1024 / resident;
  return perProcessor *
         (steps * (tiles.k * (area + 40 * edges) + wait) + start);
}

/// Extent of a tile along k: enough work between two barriers, and no more than
/// there is.
static int64_t depthOf(const GemmProblem &problem, const Candidate &tile) {
  if (problem.unit == GemmUnitKind::Fma)
    return 16;
  int64_t depth = tile.m * tile.n > 64 * 64 ? 32 : 64;
  depth = std::min<int64_t>(depth, llvm::PowerOf2Ceil(problem.k));
  depth = std::max<int64_t>(depth, 16);
  return problem.unit == GemmUnitKind::MmaTf32 ? depth / 2 : depth;
}

std::vector<GemmTiles> GemmTiles::candidates(const GemmProblem &problem,
                                             const CudaTarget &target) {
  ArrayRef<Candidate> shapes(kMmaCandidates);
  if (problem.unit == GemmUnitKind::Fma)
    shapes = kFmaCandidates;
  bool async = target.hasAsyncCopies() &&
               (problem.lhs->isStored() || problem.rhs->isStored());
  int64_t room = std::min(kPipelineBytes, target.sharedBytesPerBlock());
  std::vector<GemmTiles> result;
  for (const Candidate &shape : shapes) {
    GemmTiles tiles;
    tiles.m = shape.m;
    tiles.n = shape.n;
    tiles.k = depthOf(problem, shape);
    tiles.warpsM = shape.warpsM;
    tiles.warpsN = shape.warpsN;
    // Two stages overlap copies with work; more hide the memory's latency.
    int64_t most = std::min<int64_t>(async ? kMostStages : 2,
                                     llvm::divideCeil(problem.k, tiles.k));
    tiles.stages = std::min<int64_t>(most, 2);
    if (tiles.sharedBytes(problem) > target.sharedBytesPerBlock())
      continue;
    while (tiles.stages < most) {
      GemmTiles more = tiles;
      ++more.stages;
      if (more.pipelineBytes(problem) > room)
        break;
      tiles = more;
    }
    result.push_back(tiles);
  }
  return result;
}

/// Blocks per tile where tiles alone leave most of the device idle over a long
/// k: a divisor of the steps, so that all blocks have as many.
static int64_t splitsOf(const GemmProblem &problem, const GemmTiles &tiles,
                        int64_t multiprocessors) {
  int64_t steps = llvm::divideCeil(problem.k, tiles.k);
  if (steps < kLongProduct)
    return 1;
  int64_t splits = std::min(multiprocessors / tiles.tileCount(problem),
                            steps / kStepsOfSplit);
  while (splits > 1 && steps % splits != 0)
    --splits;
  return std::max<int64_t>(splits, 1);
}

GemmTiles GemmTiles::choose(const GemmProblem &problem,
                            const CudaTarget &target) {
  std::vector<GemmTiles> all = candidates(problem, target);
  GemmTiles best =
      *llvm::min_element(all, [&](const GemmTiles &x, const GemmTiles &y) {
        return costOf(problem, x, target.multiprocessors()) <
               costOf(problem, y, target.multiprocessors());
      });
  best.splits = splitsOf(problem, best, target.multiprocessors());
  return best;
}

//===----------------------------------------------------------------------===//
// In the schedule
//===----------------------------------------------------------------------===//

void GemmTiles::addTo(Schedule &schedule) const {
  schedule.parameters["tile_m"] = m;
  schedule.parameters["tile_n"] = n;
  schedule.parameters["tile_k"] = k;
  schedule.parameters["warps_m"] = warpsM;
  schedule.parameters["warps_n"] = warpsN;
  schedule.parameters["stages"] = stages;
  schedule.parameters["splits"] = splits;
}

GemmTiles GemmTiles::of(const Schedule &schedule) {
  GemmTiles tiles;
  tiles.m = schedule["tile_m"];
  tiles.n = schedule["tile_n"];
  tiles.k = schedule["tile_k"];
  tiles.warpsM = schedule["warps_m"];
  tiles.warpsN = schedule["warps_n"];
  tiles.stages = schedule["stages"];
  // Schedules by hand need not name it.
  if (schedule.parameters.contains("splits"))
    tiles.splits = schedule["splits"];
  return tiles;
}

std::optional<Schedule> mpc::scheduleGemm(func::FuncOp kernel,
                                          const GemmProblem &problem,
                                          const GemmTiles &tiles) {
  if (!GemmEpilogue::of(kernel, problem))
    return std::nullopt;
  Schedule schedule;
  schedule.blocks[0] = tiles.tileCount(problem) * tiles.splits;
  if (schedule.blocks[0] > INT32_MAX)
    return std::nullopt;
  schedule.threads = tiles.threads();
  schedule.sharedBytes = tiles.sharedBytes(problem);
  schedule.scratchBytes = tiles.scratchBytes(problem);
  tiles.addTo(schedule);
  return schedule;
}
