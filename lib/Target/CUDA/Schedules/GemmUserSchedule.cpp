//===- GemmUserSchedule.cpp - GEMM with user-provided schedules -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Gemm.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Returns the number of equal parameters.
static size_t countSame(const Schedule &given, const Schedule &other) {
  return llvm::count_if(other.parameters, [&](const auto &entry) {
    auto found = given.parameters.find(entry.first);
    return found != given.parameters.end() && found->second == entry.second;
  });
}

std::optional<Schedule> cuda::scheduleGemmAs(func::FuncOp kernel,
                                             const FusedGemm &problem,
                                             const CudaTarget &target,
                                             const Schedule &given) {
  std::optional<Schedule> nearest =
      scheduleGemm(kernel, problem, GemmTiles::choose(problem, target));
  if (!nearest)
    return std::nullopt;
  auto number = [&](const char *name) {
    auto found = given.parameters.find(name);
    return found == given.parameters.end() ? 1 : found->second;
  };
  for (GemmTiles tiles : GemmTiles::candidates(problem, target)) {
    // Fewer stages are allowed, but at least two to overlap copies.
    int64_t steps = llvm::divideCeil(problem.k, tiles.k);
    tiles.stages =
        std::clamp(number("stages"), std::min<int64_t>(steps, 2), tiles.stages);
    // Blocks need equal numbers of steps, at least as many as stages.
    int64_t splits = number("splits");
    if (!problem.rows && splits > 1 && steps % splits == 0 &&
        steps / splits >= tiles.stages)
      tiles.splits = splits;
    std::optional<Schedule> schedule = scheduleGemm(kernel, problem, tiles);
    if (schedule && countSame(given, *schedule) > countSame(given, *nearest))
      nearest = schedule;
  }
  return nearest;
}
