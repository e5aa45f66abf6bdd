//===- FallbackFamily.cpp - fallback kernels, one item per thread ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels that no other family supports. Independent phases share the threads
// of the grid; ordered phases are run by a single block with barriers between
// them.
//
//===----------------------------------------------------------------------===//

#include "../Plan/KernelPlan.h"
#include "../Plan/Schedule.h"

#include "Target/Kernel/TileRegions.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

namespace {
/// Threads per block of independent items, and of the single block for ordered
/// phases.
constexpr int64_t kFallbackThreads = 128, kPhaseThreads = 512;

ElementTarget scalarTarget() {
  ElementTarget target = cudaElementTarget();
  target.lanes = 1;
  return target;
}

class FallbackPlan : public KernelPlan {
public:
  using KernelPlan::KernelPlan;

  std::optional<Schedule> schedule() const override {
    bool inOrder = false;
    return choose(inOrder);
  }
  std::optional<Schedule> scheduleAs(const Schedule &given) const override {
    bool inOrder = false;
    std::optional<Schedule> chosen = choose(inOrder);
    return chosen && !inOrder ? onGridOf(given, *chosen) : chosen;
  }
  LogicalResult emit(GpuKernel &kernel) const override;

private:
  /// Chooses a schedule and determines whether phases are ordered.
  std::optional<Schedule> choose(bool &inOrder) const;
};
} // namespace

std::optional<Schedule> FallbackPlan::choose(bool &inOrder) const {
  // Items and scratch memory are only known from generated code.
  TrialCodegen trial(kernel);
  FailureOr<int64_t> scratch =
      emitLoops(kernel, trial.builder, trial.memory, scalarTarget());
  if (failed(scratch))
    return std::nullopt;
  int64_t items = 0;
  trial.module->walk([&](tile::ForEachOp own) {
    items = std::max<int64_t>(items, own.getCount());
    inOrder |= own.getInOrder();
  });
  Schedule schedule;
  schedule.scratchBytes = *scratch;
  int64_t most = inOrder ? kPhaseThreads : kFallbackThreads;
  schedule.threads = std::clamp<int64_t>(llvm::alignTo(items, 32), 32, most);
  if (!inOrder)
    schedule.blocks[0] =
        std::max<int64_t>(llvm::divideCeil(items, schedule.threads), 1);
  return schedule;
}

LogicalResult FallbackPlan::emit(GpuKernel &kernel) const {
  OpBuilder builder = kernel.builder;
  if (failed(emitLoops(kernel.kernel, builder,
                       {kernel.inputs, kernel.outputs, kernel.scratch},
                       scalarTarget())))
    return failure();
  // Items have no private memory.
  lowerTilesToLoops(kernel.function, scalarTarget(), nullptr);
  Value item;
  for (tile::ForEachOp own :
       llvm::make_early_inc_range(kernel.function.getOps<tile::ForEachOp>())) {
    kernel.builder.setInsertionPoint(own);
    IndexMath math{kernel.builder, kernel.loc};
    auto count = static_cast<int64_t>(own.getCount());
    if (own.getInOrder()) {
      if (item)
        kernel.barrier();
      item = kernel.thread();
      math.loop(item, math.constant(count), kernel.schedule.threads,
                [&](Value at) { moveBody(kernel.builder, own.getBody(), at); });
      own.erase();
      continue;
    }
    if (!item) {
      item = kernel.thread();
      if (kernel.blocks() > 1)
        item =
            math.add(math.mul(kernel.block(), kernel.schedule.threads), item);
      kernel.named(item, "item");
    }
    if (count < kernel.schedule.threads * kernel.blocks())
      kernel.enter(math.less(item, count));
    moveBody(kernel.builder, own.getBody(), item);
    own.erase();
  }
  return success();
}

std::unique_ptr<KernelPlan> cuda::planFallback(func::FuncOp kernel,
                                               const CudaTarget &target) {
  return std::make_unique<FallbackPlan>(kernel, target);
}
