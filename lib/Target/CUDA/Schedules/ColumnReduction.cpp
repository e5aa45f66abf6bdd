//===- ColumnReduction.cpp - column reductions ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions over dimensions other than the last. Adjacent threads process
// adjacent columns, so that loads are coalesced; several rows of threads split
// the elements of a column and combine their partial results.
//
//===----------------------------------------------------------------------===//

#include "KernelPlan.h"
#include "RowReductionPlan.h"
#include "ThreadGroupLowering.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

static constexpr int64_t kMostColumnElements = 32;
static constexpr int64_t kMostColumnThreads = 512;
/// Minimum elements per row of threads, and per block.
static constexpr int64_t kLeastShare = 4, kLeastSteps = 8;
/// Blocks per multiprocessor for full utilization.
static constexpr int64_t kColumnBlocksPerProcessor = 4;
/// Static shared memory for reducing columns, in bytes.
static constexpr int64_t kJoinBytes = 32 * 1024;

namespace {
class ColumnKernelPlan : public KernelPlan {
public:
  ColumnKernelPlan(func::FuncOp kernel, const CudaTarget &target,
                   std::unique_ptr<RowReductionPlan> plan)
      : KernelPlan(kernel, target), plan(std::move(plan)) {}

  std::optional<Schedule> schedule() const override {
    RowThreadMapping geometry;
    geometry.vector = plan->lanes();
    int64_t items = std::max<int64_t>(plan->items(geometry.vector), 1);
    geometry.items = std::min<int64_t>(
        kWarp, llvm::PowerOf2Ceil(static_cast<uint64_t>(items)));
    geometry.group = chooseGroup(*plan, geometry, items, target);
    if (geometry.group == 1)
      geometry.items = std::min<int64_t>(
          4 * kWarp, llvm::PowerOf2Ceil(static_cast<uint64_t>(items)));
    int64_t blocks = llvm::divideCeil(items, geometry.items);
    if (plan->isOneWalk())
      geometry.splits = std::max<int64_t>(
          1,
          std::min<int64_t>(llvm::divideCeil(kColumnBlocksPerProcessor *
                                                 target.multiprocessors(),
                                             blocks),
                            plan->length() / (geometry.group * kLeastSteps)));
    geometry.steps =
        llvm::divideCeil(plan->length(), geometry.group * geometry.splits);
    int64_t kept = llvm::divideCeil(plan->keptBytes(), int64_t{4});
    if (kept && geometry.steps * geometry.vector * kept <= kMostColumnElements)
      geometry.keep = tile::Place::registers;
    Schedule schedule;
    schedule.threads = geometry.group * geometry.items;
    schedule.team = geometry.team(*plan);
    schedule.blocks[0] = blocks;
    if (geometry.splits > 1) {
      schedule.blocks[1] = geometry.splits;
      schedule.scratchBytes = SplitScratch(plan->items(geometry.vector),
                                           schedule.team, plan->partials())
                                  .bytes;
    }
    return schedule;
  }

  std::optional<Schedule> scheduleAs(const Schedule &given) const override {
    return withTeamOf(given, *schedule());
  }
  LogicalResult emit(GpuKernel &gpuKernel) const override {
    return emitRows(gpuKernel, *plan, gpuKernel.schedule.team);
  }

private:
  static int64_t chooseGroup(const RowReductionPlan &plan,
                             const RowThreadMapping &geometry, int64_t items,
                             const CudaTarget &target) {
    int64_t wanted = target.multiprocessors() * kThreadsPerProcessor;
    int64_t kept = llvm::divideCeil(plan.keptBytes(), int64_t{4});
    int64_t group = 1;
    auto share = [&] { return llvm::divideCeil(plan.length(), group); };
    // Each op may carry two values per column.
    auto joins = [&] {
      return 2 * static_cast<int64_t>(plan.form().ops.size()) * 2 * group *
             geometry.items * geometry.vector * plan.carriedBytes();
    };
    while (geometry.items * group < kMostColumnThreads &&
           joins() <= kJoinBytes && share() > kLeastShare &&
           (items * group < wanted ||
            share() * geometry.vector * kept > kMostColumnElements))
      group *= 2;
    return group;
  }

  std::unique_ptr<RowReductionPlan> plan;
};
} // namespace

std::unique_ptr<KernelPlan>
cuda::planColumnReduction(func::FuncOp kernel, const CudaTarget &target) {
  std::unique_ptr<RowReductionPlan> plan = RowReductionPlan::of(kernel);
  if (!plan || !plan->form().isVertical())
    return nullptr;
  return std::make_unique<ColumnKernelPlan>(kernel, target, std::move(plan));
}
