//===- FilterGradientSchedule.cpp - choice of the filter gradient variant -===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A filter gradient has few elements, each a sum over all positions of all
// images: both variants split sums over blocks.
//
//===----------------------------------------------------------------------===//

#include "FilterGradientProblem.h"
#include "Gemm.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Maximum blocks per sum.
static constexpr int64_t kMostSplits = 256;

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
