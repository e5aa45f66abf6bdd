//===- GemmPlan.cpp - scheduling of GEMM ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Gemm.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

std::unique_ptr<GemmPlan> GemmPlan::of(func::FuncOp kernel,
                                       const CudaTarget &target,
                                       std::optional<FusedGemm> problem) {
  if (!problem)
    return nullptr;
  std::optional<GemmEpilogue> epilogue = GemmEpilogue::of(kernel, *problem);
  if (!epilogue)
    return nullptr;
  return std::unique_ptr<GemmPlan>(
      new GemmPlan(kernel, target, std::move(*problem), std::move(*epilogue)));
}

std::unique_ptr<KernelPlan> cuda::planGemm(func::FuncOp kernel,
                                           const CudaTarget &target) {
  return GemmPlan::of(kernel, target, FusedGemm::matmul(kernel, target));
}

std::optional<Schedule> GemmPlan::scheduleWith(const GemmTiles &tiles) const {
  // Rows may be too long for any tile.
  if (tiles.m == 0)
    return std::nullopt;
  Schedule schedule;
  schedule.blocks[0] = tiles.tileCount(problem) * tiles.splits;
  if (schedule.blocks[0] > INT32_MAX)
    return std::nullopt;
  schedule.threads = tiles.threads();
  schedule.sharedBytes = tiles.sharedBytes(problem);
  schedule.scratchBytes = tiles.scratchBytes(problem);
  if (problem.rows)
    schedule.team = problem.rows->team(tiles);
  schedule.set(tiles);
  return schedule;
}

std::optional<Schedule> GemmPlan::schedule() const {
  return scheduleWith(GemmTiles::choose(problem, target));
}

/// Returns the number of equal parameters.
static size_t countSame(const Schedule &given, const Schedule &other) {
  return llvm::count_if(other.parameters, [&](const auto &entry) {
    auto found = given.parameters.find(entry.first);
    return found != given.parameters.end() && found->second == entry.second;
  });
}

std::optional<Schedule> GemmPlan::scheduleAs(const Schedule &given) const {
  std::optional<Schedule> nearest = schedule();
  if (!nearest)
    return std::nullopt;
  auto wanted = given.get<GemmTiles>();
  for (GemmTiles tiles : GemmTiles::candidates(problem, target)) {
    // Fewer stages are allowed, but at least two to overlap copies.
    int64_t steps = llvm::divideCeil(problem.k, tiles.k);
    tiles.stages =
        std::clamp(wanted.stages, std::min<int64_t>(steps, 2), tiles.stages);
    // Blocks need equal numbers of steps, at least as many as stages.
    if (!problem.rows && wanted.splits > 1 && steps % wanted.splits == 0 &&
        steps / wanted.splits >= tiles.stages)
      tiles.splits = wanted.splits;
    std::optional<Schedule> schedule = scheduleWith(tiles);
    if (schedule && countSame(given, *schedule) > countSame(given, *nearest))
      nearest = schedule;
  }
  return nearest;
}
