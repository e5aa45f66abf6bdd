//===- RowReduction.cpp - row reductions: softmax, norms ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Softmax, norms and reductions along the last dimension. Short rows are shared
// by lanes of a warp, long ones by a block. Values that are used more than once
// are held in registers, for longer rows in shared memory, and are loaded again
// for the longest rows.
//
//===----------------------------------------------------------------------===//

#include "KernelPlan.h"
#include "RowReductionPlan.h"
#include "ThreadGroupLowering.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Maximum elements of a row that a thread holds in registers, in general and
/// within a warp. Several 16-byte loads in flight per thread hide memory
/// latency better than more threads with one each.
static constexpr int64_t kMostRowElements = 32, kKeptInWarp = 16;
static constexpr int64_t kMostRowThreads = 1024;
/// Rows split over blocks: threads per block, minimum vectors per thread, and
/// blocks per multiprocessor for full utilization.
static constexpr int64_t kSplitThreads = 256, kLeastSteps = 4,
                         kBlocksPerProcessor = 4;

/// Returns the number of threads per row of `vectors`.
static int64_t chooseGroup(const RowReductionPlan &plan, int64_t vector,
                           const CudaTarget &target) {
  auto vectors = static_cast<int64_t>(llvm::divideCeil(plan.length(), vector));
  auto share = [&](int64_t group) -> int64_t {
    return llvm::divideCeil(vectors, group) * vector;
  };
  int64_t kept =
      std::max<int64_t>(1, llvm::divideCeil(plan.keptBytes(), int64_t{4}));
  int64_t group = 1;
  // Load at least whole sectors of a row.
  while (group < vectors && group < 4)
    group *= 2;
  // Reductions within a warp are cheap; larger groups need a barrier.
  while (group < kMostRowThreads &&
         share(group) * kept > (group < kWarp ? kKeptInWarp : kMostRowElements))
    group *= 2;
  // For few rows use more threads per row.
  int64_t wanted = target.multiprocessors() * kThreadsPerProcessor;
  while (group < kMostRowThreads && group < vectors &&
         plan.rowCount() * group < wanted && share(group) > vector)
    group *= 2;
  return group;
}

/// Returns the number of blocks per row, for few long rows with a single pass.
static int64_t chooseSplits(const RowReductionPlan &plan, int64_t vector,
                            const CudaTarget &target) {
  if (!plan.isOneWalk() || plan.rowCount() == 0)
    return 1;
  int64_t vectors = plan.length() / vector;
  int64_t wanted = llvm::divideCeil(
      kBlocksPerProcessor * target.multiprocessors(), plan.rowCount());
  return std::min(wanted, vectors / (kSplitThreads * kLeastSteps));
}

/// Returns the number of rows per block.
static int64_t chooseItems(int64_t group, int64_t rows,
                           const CudaTarget &target) {
  if (group > kWarp)
    return 1;
  int64_t items = 4 * kWarp / group;
  while (items * group > kWarp && rows < 2 * target.multiprocessors() * items)
    items /= 2;
  return items;
}

namespace {
class RowKernelPlan : public KernelPlan {
public:
  RowKernelPlan(func::FuncOp kernel, const CudaTarget &target,
                std::unique_ptr<RowReductionPlan> plan)
      : KernelPlan(kernel, target), plan(std::move(plan)) {}

  std::optional<Schedule> schedule() const override {
    if (!plan->columnSums().empty())
      return scheduleColumnSums(*plan, target);
    Schedule schedule;
    RowThreadMapping geometry;
    geometry.vector = plan->lanes();
    geometry.group = chooseGroup(*plan, geometry.vector, target);
    int64_t kept = llvm::divideCeil(plan->keptBytes(), int64_t{4});
    auto stepsAt = [&](int64_t vector) {
      return llvm::divideCeil(plan->length(), geometry.group * vector);
    };
    if (kept) {
      int64_t bytes = plan->keptBytes() * geometry.group * geometry.vector *
                      stepsAt(geometry.vector);
      if (stepsAt(geometry.vector) * geometry.vector * kept <=
          kMostRowElements) {
        geometry.keep = tile::Place::registers;
      } else if (bytes + kReserved <= target.sharedBytesPerBlock()) {
        geometry.keep = tile::Place::shared;
        geometry.vector = std::min(geometry.vector, 16 / plan->carriedBytes());
        schedule.sharedBytes = plan->keptBytes() * geometry.group *
                               geometry.vector * stepsAt(geometry.vector);
      }
    }
    int64_t splits = chooseSplits(*plan, geometry.vector, target);
    if (splits > 1) {
      geometry.group = kSplitThreads;
      geometry.splits = splits;
    }
    geometry.steps =
        llvm::divideCeil(stepsAt(geometry.vector), geometry.splits);
    geometry.items = chooseItems(geometry.group, plan->rowCount(), target);
    schedule.threads = geometry.group * geometry.items;
    schedule.team = geometry.team(*plan);
    if (geometry.splits > 1) {
      schedule.blocks[1] = geometry.splits;
      schedule.scratchBytes = SplitScratch(plan->items(geometry.vector),
                                           schedule.team, plan->partials())
                                  .bytes;
    }
    schedule.blocks[0] = std::max<int64_t>(
        1, llvm::divideCeil(plan->rowCount(), geometry.items));
    return schedule;
  }

  std::optional<Schedule> scheduleAs(const Schedule &given) const override {
    return withTeamOf(given, *schedule());
  }
  LogicalResult emit(GpuKernel &gpuKernel) const override {
    return emitRows(gpuKernel, *plan, gpuKernel.schedule.team);
  }

private:
  /// Shared memory for reductions across the warps of a block, in bytes.
  static constexpr int64_t kReserved = 2048;

  std::unique_ptr<RowReductionPlan> plan;
};
} // namespace

std::unique_ptr<KernelPlan> cuda::planRowReduction(func::FuncOp kernel,
                                                   const CudaTarget &target) {
  std::unique_ptr<RowReductionPlan> plan = RowReductionPlan::of(kernel);
  if (!plan || plan->form().isVertical())
    return nullptr;
  return std::make_unique<RowKernelPlan>(kernel, target, std::move(plan));
}
