//===- RowReduction.cpp - row and column reductions -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Softmax, norms and reductions along the last dimension: short rows are shared
// by lanes of a warp, long ones by a block. Values that are used more than once
// are held in registers, for longer rows in shared memory, and are loaded again
// for the longest rows.
//
// Reductions over other dimensions: adjacent threads process adjacent columns,
// so that loads are coalesced; several rows of threads split the elements of a
// column and combine their partial results.
//
//===----------------------------------------------------------------------===//

#include "../Plan/KernelPlan.h"
#include "RowReductionPlan.h"
#include "ThreadGroupLowering.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Maximum 4-byte values of a row that a thread holds in registers, in general
/// and within a warp. Several 16-byte loads in flight per thread hide memory
/// latency better than more threads with one each.
static constexpr int64_t kMostRowElements = 32, kKeptInWarp = 16;
static constexpr int64_t kMostRowThreads = 1024, kMostColumnThreads = 512;
/// Rows split over blocks: threads per block, minimum vectors per thread, and
/// blocks per multiprocessor for full utilization.
static constexpr int64_t kSplitThreads = 256, kLeastSteps = 4,
                         kBlocksPerProcessor = 4;
/// Columns: minimum elements per row of threads, and per block.
static constexpr int64_t kLeastShare = 4, kLeastColumnSteps = 8;
/// Shared memory for reductions across the warps of a block, and the maximum
/// for columns or the rows of a block, in bytes.
static constexpr int64_t kReserved = 2048, kJoinBytes = 32 * 1024;

//===----------------------------------------------------------------------===//
// Column sums of row kernels
//===----------------------------------------------------------------------===//

/// Threads per block for short rows: large blocks reduce their column sums in
/// shared memory and leave few partial rows.
static constexpr int64_t kBlockThreads = 512;
/// Minimum threads for a multiprocessor to be used at all.
static constexpr int64_t kLeastBusy = 64;
/// Maximum 4-byte values of a row and of accumulators per thread with one warp
/// per row, and threads per block for that case: no block barrier, at the price
/// of lower occupancy.
static constexpr int64_t kHeldByWarps = 120, kThreadsOfWarps = 256;
/// Maximum unrolled steps without buffered values.
static constexpr int64_t kUnrolledPlanSteps = 8;
/// Number of blocks whose sums are reduced in a single stage.
static constexpr int64_t kLeastTeam = 16;

/// Returns the number of 4-byte row values and accumulators for which a thread
/// has registers, with at least `group` threads per block.
static int64_t mostHeld(int64_t group) {
  return group <= kBlockThreads ? 48 : 24;
}

namespace {
class RowReductionKernelPlan : public KernelPlan {
public:
  RowReductionKernelPlan(func::FuncOp kernel, const CudaTarget &target,
                         std::unique_ptr<RowReductionPlan> plan)
      : KernelPlan(kernel, target), plan(std::move(plan)),
        kept(llvm::divideCeil(this->plan->keptBytes(), int64_t{4})),
        wanted(target.multiprocessors() * kThreadsPerProcessor) {}

  std::optional<Schedule> schedule() const override;
  std::optional<Schedule> scheduleAs(const Schedule &given) const override {
    return withTeamOf(given, *schedule());
  }
  LogicalResult emit(GpuKernel &gpuKernel) const override {
    return emitRows(gpuKernel, *plan, gpuKernel.schedule.team);
  }

private:
  /// Returns the number of steps of `group` threads by `vector` elements each.
  int64_t stepsOf(int64_t group, int64_t vector) const {
    return llvm::divideCeil(plan->length(), group * vector);
  }
  /// Returns the number of blocks per item, for few long items with a single
  /// pass: up to `most`.
  int64_t splitsOf(int64_t blocks, int64_t most) const {
    if (!plan->isOneWalk() || blocks == 0)
      return 1;
    int64_t full = kBlocksPerProcessor * target.multiprocessors();
    return std::max<int64_t>(
        1, std::min<int64_t>(llvm::divideCeil(full, blocks), most));
  }
  int64_t chooseRowGroup(int64_t vector) const;
  RowThreadMapping mapRows(int64_t &sharedBytes) const;
  RowThreadMapping mapColumns() const;
  Schedule scheduleColumnSums() const;

  std::unique_ptr<RowReductionPlan> plan;
  /// Buffered 4-byte values per position; threads for full utilization.
  int64_t kept, wanted;
};
} // namespace

std::optional<Schedule> RowReductionKernelPlan::schedule() const {
  if (!plan->columnSums().empty())
    return scheduleColumnSums();
  Schedule schedule;
  RowThreadMapping mapping =
      plan->form().isVertical() ? mapColumns() : mapRows(schedule.sharedBytes);
  schedule.threads = mapping.group * mapping.items;
  schedule.team = mapping.team(*plan);
  int64_t items = plan->items(mapping.vector);
  schedule.blocks = {
      std::max<int64_t>(1, llvm::divideCeil(items, mapping.items)),
      mapping.splits, 1};
  if (mapping.splits > 1)
    schedule.scratchBytes =
        SplitScratch(items, schedule.team, plan->partials()).bytes;
  return schedule;
}

/// Returns the number of threads per row.
int64_t RowReductionKernelPlan::chooseRowGroup(int64_t vector) const {
  int64_t vectors = stepsOf(1, vector), group = 1;
  auto share = [&] { return stepsOf(group, vector) * vector; };
  // Load at least whole sectors of a row.
  while (group < vectors && group < 4)
    group *= 2;
  // Reductions within a warp are cheap; larger groups need a barrier.
  while (group < kMostRowThreads &&
         share() * std::max<int64_t>(1, kept) >
             (group < kWarp ? kKeptInWarp : kMostRowElements))
    group *= 2;
  // For few rows use more threads per row.
  while (group < kMostRowThreads && group < vectors &&
         plan->rowCount() * group < wanted && share() > vector)
    group *= 2;
  return group;
}

RowThreadMapping RowReductionKernelPlan::mapRows(int64_t &sharedBytes) const {
  RowThreadMapping mapping;
  mapping.vector = plan->lanes();
  mapping.group = chooseRowGroup(mapping.vector);
  auto share = [&] {
    return stepsOf(mapping.group, mapping.vector) * mapping.vector;
  };
  auto bytes = [&] { return plan->keptBytes() * mapping.group * share(); };
  if (kept && share() * kept <= kMostRowElements) {
    mapping.keep = tile::Place::registers;
  } else if (kept && bytes() + kReserved <= target.sharedBytesPerBlock()) {
    mapping.keep = tile::Place::shared;
    mapping.vector = std::min(mapping.vector, 16 / plan->carriedBytes());
    sharedBytes = bytes();
  }
  mapping.splits =
      splitsOf(plan->rowCount(),
               plan->length() / mapping.vector / (kSplitThreads * kLeastSteps));
  if (mapping.splits > 1)
    mapping.group = kSplitThreads;
  mapping.steps =
      llvm::divideCeil(stepsOf(mapping.group, mapping.vector), mapping.splits);
  if (mapping.group <= kWarp)
    for (mapping.items = 4 * kWarp / mapping.group;
         mapping.items * mapping.group > kWarp &&
         plan->rowCount() < 2 * target.multiprocessors() * mapping.items;)
      mapping.items /= 2;
  return mapping;
}

RowThreadMapping RowReductionKernelPlan::mapColumns() const {
  RowThreadMapping mapping;
  mapping.vector = plan->lanes();
  int64_t items = std::max<int64_t>(plan->items(mapping.vector), 1),
          wide = llvm::PowerOf2Ceil(static_cast<uint64_t>(items));
  mapping.items = std::min(kWarp, wide);
  auto share = [&] { return stepsOf(mapping.group, 1); };
  // Each op may carry two values per column.
  auto joins = [&] {
    return 2 * static_cast<int64_t>(plan->form().ops.size()) * 2 *
           mapping.group * mapping.items * mapping.vector *
           plan->carriedBytes();
  };
  while (mapping.items * mapping.group < kMostColumnThreads &&
         joins() <= kJoinBytes && share() > kLeastShare &&
         (items * mapping.group < wanted ||
          share() * mapping.vector * kept > kMostRowElements))
    mapping.group *= 2;
  if (mapping.group == 1)
    mapping.items = std::min(4 * kWarp, wide);
  mapping.splits =
      splitsOf(llvm::divideCeil(items, mapping.items),
               plan->length() / (mapping.group * kLeastColumnSteps));
  mapping.steps = stepsOf(mapping.group, mapping.splits);
  if (kept && mapping.steps * mapping.vector * kept <= kMostRowElements)
    mapping.keep = tile::Place::registers;
  return mapping;
}

Schedule RowReductionKernelPlan::scheduleColumnSums() const {
  int64_t summed = 0, widest = 4;
  for (const RowColumnSum &sum : plan->columnSums()) {
    int64_t bytes = bytesPerElement(carriedType(accumulatorType(sum.op)));
    widest = std::max(widest, bytes);
    if (sum.isPerColumn)
      summed += llvm::divideCeil(bytes, int64_t{4});
  }

  RowThreadMapping mapping;
  mapping.vector = plan->lanes();
  auto isTooMuch = [&](int64_t share, int64_t group) {
    return share * kept > kMostRowElements ||
           share * (kept + summed) > mostHeld(group);
  };
  while (mapping.vector > 1 && isTooMuch(mapping.vector, kBlockThreads))
    mapping.vector /= 2;
  int64_t vector = mapping.vector, vectors = stepsOf(1, vector), group = 1;
  auto share = [&](int64_t group) { return stepsOf(group, vector) * vector; };
  while (group < kMostRowThreads && group < vectors &&
         (group < 4 || isTooMuch(share(group), group) ||
          plan->rowCount() * group < wanted))
    group *= 2;
  bool isByWarps =
      group > kWarp && share(kWarp) * (kept + summed) <= kHeldByWarps &&
      plan->rowCount() * kWarp >= target.multiprocessors() * kThreadsOfWarps;
  if (isByWarps)
    group = kWarp;

  if (kept && (isByWarps || share(group) * kept <= kMostRowElements)) {
    mapping.keep = tile::Place::registers;
  } else if (kept) {
    int64_t narrow = std::min(vector, 16 / plan->carriedBytes()),
            bytes = plan->keptBytes() * std::max(group, kWarp) * narrow *
                    stepsOf(group, narrow);
    if (bytes + kReserved <= target.sharedBytesPerBlock()) {
      mapping.keep = tile::Place::shared;
      mapping.vector = narrow;
    }
  }
  bool isUnrolled = mapping.keep == tile::Place::registers ||
                    stepsOf(group, mapping.vector) <= kUnrolledPlanSteps;
  if (!isUnrolled || (!isByWarps && share(group) * summed > mostHeld(group))) {
    // A block accumulates one row at a time in scratch memory.
    mapping.sums = tile::Place::nowhere;
    group = std::max(group, kWarp);
  }
  mapping.group = group;
  mapping.steps = stepsOf(group, mapping.vector);

  bool isAlone = mapping.sums == tile::Place::nowhere ||
                 mapping.keep == tile::Place::shared || group >= kBlockThreads;
  int64_t together = isByWarps ? kThreadsOfWarps : kBlockThreads;
  mapping.items =
      isAlone ? std::max<int64_t>(1, kWarp / group) : together / group;
  // Enough blocks to fill the device; for small kernels as few as a single
  // reduction stage needs.
  int64_t least =
      plan->rowCount() * group < target.multiprocessors() * kLeastBusy
          ? kLeastTeam
          : target.multiprocessors();
  while (mapping.items > 1 && mapping.items * group > kWarp &&
         (plan->rowCount() < least * mapping.items ||
          mapping.items * plan->length() * widest > kJoinBytes))
    mapping.items /= 2;
  Schedule schedule;
  if (mapping.keep == tile::Place::shared)
    schedule.sharedBytes = plan->keptBytes() * group * mapping.items *
                           mapping.vector * mapping.steps;

  schedule.threads = group * mapping.items;
  int64_t turns = llvm::divideCeil(plan->rowCount(), mapping.items),
          perProcessor = isByWarps ? 2 * kThreadsOfWarps : kThreadsPerProcessor,
          most = target.multiprocessors() *
                 std::max<int64_t>(1, perProcessor / schedule.threads);
  mapping.rounds = llvm::divideCeil(turns, most);
  int64_t blocks = llvm::divideCeil(turns, mapping.rounds);
  mapping.groups = blocks;
  if (blocks > kLeastTeam) {
    mapping.groups =
        std::llround(std::ceil(std::sqrt(static_cast<double>(blocks))));
    blocks = llvm::divideCeil(blocks, mapping.groups) * mapping.groups;
  }
  schedule.team = mapping.team(*plan);
  schedule.blocks[0] = blocks;
  schedule.scratchBytes =
      ColumnSumScratch(plan->sumTypes(), schedule.team, blocks).bytes;
  return schedule;
}

static std::unique_ptr<KernelPlan>
planReduction(func::FuncOp kernel, const CudaTarget &target, bool isVertical) {
  std::unique_ptr<RowReductionPlan> plan = RowReductionPlan::of(kernel);
  if (!plan || plan->form().isVertical() != isVertical)
    return nullptr;
  return std::make_unique<RowReductionKernelPlan>(kernel, target,
                                                  std::move(plan));
}

std::unique_ptr<KernelPlan> cuda::planRowReduction(func::FuncOp kernel,
                                                   const CudaTarget &target) {
  return planReduction(kernel, target, /*isVertical=*/false);
}

std::unique_ptr<KernelPlan>
cuda::planColumnReduction(func::FuncOp kernel, const CudaTarget &target) {
  return planReduction(kernel, target, /*isVertical=*/true);
}
