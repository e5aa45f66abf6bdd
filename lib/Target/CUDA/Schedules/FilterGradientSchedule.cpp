//===- FilterGradientSchedule.cpp - choice of the filter gradient variant -===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A filter gradient has few elements, each a sum over all positions of all
// images: both variants split sums over blocks. Costs are estimated in cycles
// of one multiprocessor, from the shape alone; those of the implicit GEMM by
// GemmCost. Small windows with few channels leave its tiles mostly empty.
//
//===----------------------------------------------------------------------===//

#include "FilterGradientProblem.h"
#include "GemmCost.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Maximum blocks per sum.
static constexpr int64_t kMostSplits = 256;

/// Thread instructions per multiprocessor and cycle.
static constexpr double kInstructions = 128;
/// Instructions per position for address and load.
static constexpr double kPerPosition = 12;
/// Cycles of block start-up and tail, of the last-block semaphore, and per
/// partial sum of the reduction.
static constexpr double kFilterStart = 2000, kFilterSemaphore = 4000,
                        kFilterPart = 100;

Schedule cuda::scheduleDirectFilter(const FilterGradientProblem &problem,
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
  schedule.set(DirectFilterSchedule{lines});
  schedule.blocks[1] = splits;
  if (splits > 1)
    schedule.scratchBytes =
        llvm::alignTo(schedule.blocks[0] * sizeof(int32_t), 64) +
        splits * schedule.blocks[0] * kFilterThreads * problem.rows *
            problem.lanes * bytesPerElement(problem.type);
  return schedule;
}

double cuda::directFilterCycles(const FilterGradientProblem &problem,
                                const Schedule &schedule,
                                const CudaTarget &target) {
  double blocks = double(schedule.blocks[0]) * schedule.blocks[1];
  double rounds = std::ceil(blocks / target.multiprocessors());
  // Per position one multiply-add per sum, a load per output channel and one of
  // the image, and the bounds check.
  double perPosition =
      problem.rows * problem.lanes + 2 * problem.rows + kPerPosition;
  double positions = double(schedule.get<DirectFilterSchedule>().lines) *
                     problem.positions.back();
  double cycles =
      rounds * positions * perPosition * kFilterThreads / kInstructions +
      kFilterStart;
  if (schedule.blocks[1] > 1)
    cycles += kFilterSemaphore + schedule.blocks[1] * kFilterPart;
  return cycles;
}
