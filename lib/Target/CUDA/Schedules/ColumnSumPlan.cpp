//===- ColumnSumPlan.cpp - column sums of row kernels --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds sums over rows (as in the gradient of a norm's scale and bias) and
// replaces them by their summands in the row form; schedules such kernels.
//
//===----------------------------------------------------------------------===//

#include "RowReductionPlan.h"
#include "ThreadGroupLowering.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

/// Returns the number of leading dimensions of its operand that a reducing op
/// preserves if it reduces all others; else 0.
static int64_t rowDimensions(Operation *op) {
  auto reduction = dyn_cast<ReductionOpInterface>(op);
  if (!reduction || isa<GroupNormOp, InstanceNormOp>(op))
    return 0;
  SmallVector<int64_t> axes = reduction.getReductionAxes();
  auto rank = static_cast<int64_t>(shapeOf(op->getOperand(0)).size());
  int64_t first = rank - static_cast<int64_t>(axes.size());
  return !axes.empty() && axes.front() == first ? first : 0;
}

/// Returns true if `op` sums a tensor of `shape` over its first `rows`
/// dimensions, or over all.
static bool isSumOverRows(Operation *op, ArrayRef<int64_t> shape,
                          int64_t rows) {
  if (!isa<ReduceSumOp, ReduceMeanOp>(op) ||
      shapeOf(op->getOperand(0)) != shape)
    return false;
  Type type = accumulatorType(op);
  if (!type.isF32() && !type.isF64())
    return false;
  SmallVector<int64_t> axes = cast<ReductionOpInterface>(op).getReductionAxes();
  return (axes.size() == static_cast<size_t>(rows) ||
          axes.size() == shape.size()) &&
         axes.back() == static_cast<int64_t>(axes.size()) - 1;
}

/// Returns the backward slice of `value`, including itself, up to `stops`.
static llvm::SetVector<Operation *>
madeFrom(Value value, const llvm::SmallPtrSetImpl<Operation *> &stops) {
  llvm::SetVector<Operation *> ops;
  if (Operation *op = value.getDefiningOp())
    ops.insert(op);
  for (size_t i = 0; i < ops.size(); ++i)
    if (!stops.contains(ops[i]))
      for (Value operand : ops[i]->getOperands())
        if (Operation *op = operand.getDefiningOp())
          ops.insert(op);
  return ops;
}

/// Returns false if the sums are used other than for results.
bool RowReductionPlan::findColumnSums(func::FuncOp kernel) {
  Block &block = kernel.getBody().front();
  ArrayRef<int64_t> shape;
  int64_t rows = 0;
  for (Operation &op : block)
    if (rows == 0 && (rows = rowDimensions(&op)))
      shape = shapeOf(op.getOperand(0));
  if (rows == 0)
    return true;
  llvm::SmallPtrSet<Operation *, 8> sums;
  for (Operation &op : block)
    if (isSumOverRows(&op, shape, rows))
      sums.insert(&op);
  if (sums.empty())
    return true;

  auto isSum = [&](Operation *op) { return sums.contains(op); };
  for (auto [number, value] :
       llvm::enumerate(block.getTerminator()->getOperands())) {
    llvm::SetVector<Operation *> ops = madeFrom(value, sums);
    auto found = llvm::find_if(ops, isSum);
    if (found == ops.end())
      continue;
    // A single sum, and elementwise ops on it.
    Operation *sum = *found;
    int64_t count = elementCount(sum->getResult(0));
    bool isPlain = llvm::all_of(ops, [&](Operation *op) {
      return op == sum || isa<ConstantOp, ReshapeOp>(op) ||
             (!isSum(op) && isa<ElementwiseOpInterface>(op));
    });
    if (!isPlain || elementCount(value) != count)
      return false;
    auto *known = llvm::find_if(sumsOverRows, [&](const RowColumnSum &other) {
      return other.op == sum;
    });
    if (known == sumsOverRows.end()) {
      if (llvm::any_of(madeFrom(sum->getOperand(0), sums), isSum))
        return false;
      bool isPerColumn =
          cast<ReductionOpInterface>(sum).getReductionAxes().size() !=
          shape.size();
      sumsOverRows.push_back({sum, {}, isPerColumn, Value()});
      known = &sumsOverRows.back();
    }
    known->results.push_back(number);
  }
  return true;
}

/// Replaces column sums among the copy's results by their summands, after the
/// other results.
void RowReductionPlan::takeColumnSums(func::FuncOp kernel, IRMapping &mapping) {
  if (columnSums().empty())
    return;
  Block &block = copy->getBody().front();
  Operation *terminator = block.getTerminator();
  SmallVector<Value> values;
  for (auto [number, value] : llvm::enumerate(terminator->getOperands()))
    if (llvm::none_of(columnSums(), [&](const RowColumnSum &sum) {
          return llvm::is_contained(sum.results, number);
        }))
      values.push_back(value);
  for (const RowColumnSum &sum : columnSums())
    values.push_back(mapping.lookup(sum.op->getOperand(0)));
  terminator->setOperands(values);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (&op != terminator && op.use_empty())
      op.erase();
  copy->setFunctionType(FunctionType::get(kernel.getContext(),
                                          block.getArgumentTypes(),
                                          TypeRange(ValueRange(values))));
}

//===----------------------------------------------------------------------===//
// Schedule
//===----------------------------------------------------------------------===//

/// Warp size, maximum threads per block, and threads per block for short rows:
/// large blocks reduce their column sums in shared memory and leave few partial
/// rows.
static constexpr int64_t kWarp = 32, kMostThreads = 1024, kBlockThreads = 512;
/// Threads per multiprocessor for full utilization, and the minimum to use one
/// at all.
static constexpr int64_t kThreadsPerProcessor = 1024, kLeastBusy = 64;
/// Maximum 4-byte values of a row that a thread buffers.
static constexpr int64_t kMostKept = 32;
/// Maximum 4-byte values of a row and of accumulators per thread with one warp
/// per row, and threads per block for that case: no block barrier, at the price
/// of lower occupancy.
static constexpr int64_t kHeldByWarps = 120, kThreadsOfWarps = 256;
/// Maximum unrolled steps without buffered values.
static constexpr int64_t kUnrolledSteps = 8;
/// Number of blocks whose sums are reduced in a single stage.
static constexpr int64_t kLeastTeam = 16;
/// Shared memory for reductions across warps, and the maximum for the rows of a
/// block, in bytes.
static constexpr int64_t kReserved = 2048, kJoinBytes = 32 * 1024;

/// Returns the number of 4-byte row values and accumulators for which a thread
/// has registers, with at least `group` threads per block.
static int64_t mostHeld(int64_t group) {
  return group <= kBlockThreads ? 48 : 24;
}

Schedule mpc::scheduleColumnSums(const RowReductionPlan &plan,
                                 const CudaTarget &target) {
  auto words = [](int64_t bytes) -> int64_t {
    return llvm::divideCeil(bytes, int64_t{4});
  };
  int64_t kept = words(plan.keptBytes()), summed = 0, widest = 4;
  for (const RowColumnSum &sum : plan.columnSums()) {
    int64_t bytes = bytesPerElement(carriedType(accumulatorType(sum.op)));
    widest = std::max(widest, bytes);
    if (sum.isPerColumn)
      summed += words(bytes);
  }

  RowThreadMapping geometry;
  geometry.vector = plan.lanes();
  auto isTooMuch = [&](int64_t share, int64_t group) {
    return share * kept > kMostKept ||
           share * (kept + summed) > mostHeld(group);
  };
  while (geometry.vector > 1 && isTooMuch(geometry.vector, kBlockThreads))
    geometry.vector /= 2;
  auto vectors =
      static_cast<int64_t>(llvm::divideCeil(plan.length(), geometry.vector));
  auto share = [&](int64_t group) -> int64_t {
    return llvm::divideCeil(vectors, group) * geometry.vector;
  };
  int64_t group = 1, wanted = target.multiprocessors() * kThreadsPerProcessor;
  while (group < kMostThreads && group < vectors &&
         (group < 4 || isTooMuch(share(group), group) ||
          plan.rowCount() * group < wanted))
    group *= 2;
  bool isByWarps =
      group > kWarp && share(kWarp) * (kept + summed) <= kHeldByWarps &&
      plan.rowCount() * kWarp >= target.multiprocessors() * kThreadsOfWarps;
  if (isByWarps)
    group = kWarp;
  geometry.steps = llvm::divideCeil(vectors, group);

  if (kept && (isByWarps || share(group) * kept <= kMostKept)) {
    geometry.keep = tile::Place::registers;
  } else if (kept) {
    int64_t vector = std::min(geometry.vector, 16 / plan.carriedBytes()),
            steps = llvm::divideCeil(plan.length(), group * vector),
            bytes = plan.keptBytes() * std::max(group, kWarp) * vector * steps;
    if (bytes + kReserved <= target.sharedBytesPerBlock()) {
      geometry.keep = tile::Place::shared;
      geometry.vector = vector;
      geometry.steps = steps;
    }
  }
  bool isUnrolled = geometry.keep == tile::Place::registers ||
                    geometry.steps <= kUnrolledSteps;
  if (!isUnrolled || (!isByWarps && share(group) * summed > mostHeld(group))) {
    // A block accumulates one row at a time in scratch memory.
    geometry.sums = tile::Place::nowhere;
    group = std::max(group, kWarp);
    geometry.steps = llvm::divideCeil(plan.length(), group * geometry.vector);
  }
  geometry.group = group;

  bool isAlone = geometry.sums == tile::Place::nowhere ||
                 geometry.keep == tile::Place::shared || group >= kBlockThreads;
  int64_t together = isByWarps ? kThreadsOfWarps : kBlockThreads;
  geometry.items =
      isAlone ? std::max<int64_t>(1, kWarp / group) : together / group;
  // Enough blocks to fill the device; for small kernels as few as a single
  // reduction stage needs.
  int64_t least =
      plan.rowCount() * group < target.multiprocessors() * kLeastBusy
          ? kLeastTeam
          : target.multiprocessors();
  while (geometry.items > 1 && geometry.items * group > kWarp &&
         (plan.rowCount() < least * geometry.items ||
          geometry.items * plan.length() * widest > kJoinBytes))
    geometry.items /= 2;
  Schedule schedule;
  if (geometry.keep == tile::Place::shared)
    schedule.sharedBytes = plan.keptBytes() * group * geometry.items *
                           geometry.vector * geometry.steps;

  int64_t turns = llvm::divideCeil(plan.rowCount(), geometry.items);
  int64_t most = target.multiprocessors() *
                 std::max<int64_t>(1, (isByWarps ? 2 * kThreadsOfWarps
                                                 : kThreadsPerProcessor) /
                                          (group * geometry.items));
  geometry.rounds = llvm::divideCeil(turns, most);
  int64_t blocks = llvm::divideCeil(turns, geometry.rounds);
  geometry.groups = blocks;
  if (blocks > kLeastTeam) {
    geometry.groups =
        std::llround(std::ceil(std::sqrt(static_cast<double>(blocks))));
    blocks = llvm::divideCeil(blocks, geometry.groups) * geometry.groups;
  }
  schedule.threads = geometry.group * geometry.items;
  schedule.team = geometry.team(plan);
  schedule.blocks[0] = blocks;
  schedule.scratchBytes =
      ColumnSumScratch(plan.sumTypes(), schedule.team, blocks).bytes;
  return schedule;
}
