//===- FilterSchedule.cpp - which form a filter's gradient takes ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A filter has few elements, and each is a sum over all positions of all
// images: whichever form, most blocks share their sums with others. What a form
// costs is estimated in cycles of one multiprocessor, from the shape alone.
//
//===----------------------------------------------------------------------===//

#include "FilterProblem.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

/// Threads that keep a multiprocessor busy, and blocks that add to one sum.
static constexpr int64_t kThreadsPerProcessor = 1024, kMostSplits = 256;

/// Instructions of all threads that a multiprocessor runs per cycle.
static constexpr double kInstructions = 128;
/// Instructions that find and fetch one chunk of a tile, and one position of
/// the form without tiles.
static constexpr double kPerChunk = 48, kPerPosition = 12;
/// Bytes per cycle from shared memory and from the second-level cache. Cycles
/// that a step waits for them, that a block takes to begin and end, that a
/// block takes to find that it is the last one, and that adding one more part
/// of a sum takes.
static constexpr double kSharedBytes = 128, kBytes = 48, kWait = 400,
                        kStart = 2000, kMeet = 4000, kPart = 100;

//===----------------------------------------------------------------------===//
// Sums in threads
//===----------------------------------------------------------------------===//

Schedule mpc::scheduleFilterThreads(const FilterProblem &problem,
                                    const CudaTarget &target) {
  Schedule schedule;
  schedule.threads = kFilterThreads;
  schedule.blocks[0] =
      std::max<int64_t>(llvm::divideCeil(problem.items, kFilterThreads), 1);
  int64_t wanted =
      llvm::divideCeil(target.multiprocessors() * kThreadsPerProcessor,
                       schedule.blocks[0] * kFilterThreads);
  int64_t splits = std::clamp<int64_t>(wanted, 1, kMostSplits);
  int64_t lines = std::max<int64_t>(
      llvm::divideCeil(std::max<int64_t>(problem.lines, 1), splits), 1);
  splits = std::max<int64_t>(llvm::divideCeil(problem.lines, lines), 1);
  schedule.parameters["lines"] = lines;
  schedule.blocks[1] = splits;
  if (splits > 1)
    schedule.scratchBytes =
        llvm::alignTo(schedule.blocks[0] * sizeof(int32_t), 64) +
        splits * schedule.blocks[0] * kFilterThreads * problem.rows *
            problem.lanes * bytesPerElement(problem.type);
  return schedule;
}

/// What that costs.
static double cyclesOf(const FilterProblem &problem, const Schedule &schedule,
                       const CudaTarget &target) {
  double blocks = double(schedule.blocks[0]) * schedule.blocks[1];
  double rounds = std::ceil(blocks / target.multiprocessors());
  // A position is one multiply-add per sum, a load per output channel and one
  // of the image, and the test whether there is one.
  double perPosition =
      problem.rows * problem.lanes + 2 * problem.rows + kPerPosition;
  double positions = double(schedule["lines"]) * problem.positions.back();
  double cycles =
      rounds * positions * perPosition * kFilterThreads / kInstructions +
      kStart;
  if (schedule.blocks[1] > 1)
    cycles += kMeet + schedule.blocks[1] * kPart;
  return cycles;
}

//===----------------------------------------------------------------------===//
// A product of matrices
//===----------------------------------------------------------------------===//

static double multiplyAddsPerCycle(GemmUnitKind unit) {
  switch (unit) {
  case GemmUnitKind::Mma16:
    return 1024;
  case GemmUnitKind::MmaTf32:
    return 512;
  case GemmUnitKind::Fma:
    return 128;
  }
  return 128;
}

/// What a product cut into `tiles` costs. A window of few places and channels
/// leaves most of a tile empty, and channels that fill no vector are fetched
/// one by one: this is what may make it dearer than sums in threads.
static double cyclesOf(const GemmProblem &problem, const GemmTiles &tiles,
                       const CudaTarget &target) {
  auto chunks = [&](const GemmOperand &operand, int64_t rows) {
    int64_t chunk =
        std::min(operand.chunk, operand.alongDepth ? tiles.k : rows);
    return double(rows) * tiles.k / chunk;
  };
  double blocks = double(tiles.tileCount(problem)) * tiles.splits;
  double rounds = std::ceil(blocks / target.multiprocessors());
  double steps = double(llvm::divideCeil(problem.k, tiles.k)) / tiles.splits;
  double area = double(tiles.m) * tiles.n;
  // Blocks that share a multiprocessor work while others wait.
  double resident = std::min(rounds, std::max(1.0, 32768 / area));
  int64_t bytes = bytesPerElement(problem.tileType),
          read = tiles.m * tiles.warpsN + tiles.n * tiles.warpsM;
  double multiply = tiles.k * area / multiplyAddsPerCycle(problem.unit);
  double issue =
      (chunks(*problem.lhs, tiles.m) + chunks(*problem.rhs, tiles.n)) *
      kPerChunk / kInstructions;
  // Instructions that multiply take the place of others; matrix units do not.
  if (problem.unit == GemmUnitKind::Fma)
    issue += multiply;
  // Warps overlap what they do, so a step takes what its busiest part does.
  double step =
      std::max({multiply, issue, tiles.k * read * bytes / kSharedBytes,
                tiles.k * (tiles.m + tiles.n) * bytes / kBytes}) +
      kWait / resident;
  double cycles = rounds * (steps * step + kStart / resident);
  if (tiles.splits > 1)
    cycles += kMeet + area / (4 * tiles.threads()) * tiles.splits * kPart;
  return cycles;
}

GemmTiles mpc::chooseFilterTiles(const GemmProblem &problem,
                                 const CudaTarget &target) {
  GemmTiles best;
  double least = HUGE_VAL;
  for (GemmTiles tiles : GemmTiles::candidates(problem, target)) {
    int64_t steps = llvm::divideCeil(problem.k, tiles.k);
    // All blocks have as many steps, and enough to fill their stages.
    int64_t most = std::min(steps / tiles.stages,
                            std::max<int64_t>(2 * target.multiprocessors() /
                                                  tiles.tileCount(problem),
                                              1));
    for (int64_t splits = 1; splits <= std::max<int64_t>(most, 1); ++splits) {
      tiles.splits = splits;
      double cycles =
          steps % splits == 0 ? cyclesOf(problem, tiles, target) : HUGE_VAL;
      if (cycles < least) {
        least = cycles;
        best = tiles;
      }
    }
  }
  return best;
}

std::optional<Schedule> mpc::scheduleFilterProduct(func::FuncOp kernel,
                                                   const CudaTarget &target) {
  std::optional<GemmProblem> problem =
      GemmProblem::filterGradient(kernel, target);
  if (!problem)
    return std::nullopt;
  return scheduleGemm(kernel, *problem, chooseFilterTiles(*problem, target));
}

std::optional<Schedule> mpc::scheduleFilter(func::FuncOp kernel,
                                            const CudaTarget &target) {
  std::optional<FilterOps> ops = FilterOps::of(kernel);
  if (!ops)
    return std::nullopt;
  FilterProblem problem(*ops);
  Schedule threads = scheduleFilterThreads(problem, target);
  std::optional<Schedule> product = scheduleFilterProduct(kernel, target);
  if (!product)
    return threads;
  double cycles = cyclesOf(*GemmProblem::filterGradient(kernel, target),
                           GemmTiles::of(*product), target);
  return cycles < cyclesOf(problem, threads, target) ? *product : threads;
}
