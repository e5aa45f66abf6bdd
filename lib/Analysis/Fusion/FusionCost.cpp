//===- FusionCost.cpp - cost model of fusion ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The only part of the fuser that counts bytes and seconds.
//
//===----------------------------------------------------------------------===//

#include "FusionCost.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Analysis/Padding.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Bandwidth of an unknown target; only proportions matter.
static constexpr double kSomeBandwidth = 1e12;

/// Output tile of a large GEMM kernel.
static constexpr int64_t kBlockRows = 128, kBlockColumns = 256;

/// Tile for few rows: narrow tiles fill the machine.
static constexpr int64_t kLeastRows = 16, kFewColumns = 64;

/// Shared memory of a block that buffers whole rows: bytes for the right-hand
/// side and the results, and the factor for row padding.
static constexpr int64_t kOtherBytes = 32 * 1024;
static constexpr double kWithEnds = 1.25;

/// Seconds per step along the contracted dimension, latency-bound with some
/// pipelining; seconds of a split-K reduction; minimum number of steps per
/// split.
static constexpr double kStepSeconds = 0.17e-6, kMeetSeconds = 1.4e-6;
static constexpr int64_t kStepsOfShare = 8;
/// Bytes per row and step of a matrix unit, and elements per step without one:
/// two steps of the actual kernel, which favors fusion when it is close.
static constexpr int64_t kStepBytes = 128, kPlainStep = 32;

/// Latency of a step with scalar loads, which are not pipelined, in seconds.
static constexpr double kWaitSeconds = 0.5e-6;

/// Speed of a cache relative to memory, for data read again soon.
static constexpr double kCacheSpeed = 3;

/// Size of a cache sector, in bytes.
static constexpr int64_t kSectorBytes = 32;

FusionCost::FusionCost(const TargetInfo &target, const FusionGraph &graph)
    : graph(graph), target(target),
      bytesPerSecond(target.hasCeilings() ? target.bytesPerSecond()
                                          : kSomeBandwidth),
      launchSeconds(target.launchSeconds()), borders(graph.getNumGroups()) {}

/// Returns the stored value that `value` is a view of.
static Value behindViews(const FusionGraph &graph, Value value) {
  while (FusionGroup *group = graph.groupOf(value)) {
    auto reshape = value.getDefiningOp<ReshapeOp>();
    if (!reshape || !group->isLoose)
      break;
    value = reshape.getInput();
  }
  return value;
}

FusionCost::Border FusionCost::makeBorder(FusionGroup *group) const {
  Border border;
  border.results = graph.resultsOf(group);
  SmallVector<Value> pending;
  llvm::SmallDenseSet<Value> seen;
  for (Operation *op : group->ops)
    for (Value operand : op->getOperands()) {
      pending.push_back(operand);
      if (graph.groupOf(operand) == group || !seen.insert(operand).second)
        continue;
      Value source = behindViews(graph, operand);
      border.inputs.push_back({operand, source});
      border.sources.insert(source);
    }
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    if (!border.reads.insert(value).second)
      continue;
    if (FusionGroup *view = graph.groupOf(value); view && view->isLoose)
      llvm::append_range(pending, value.getDefiningOp()->getOperands());
  }
  return border;
}

const FusionCost::Border &FusionCost::borderOf(FusionGroup *group) const {
  std::unique_ptr<Border> &border = borders[group->number];
  if (!border || border->version != group->version ||
      border->viewVersion != graph.getViewVersion()) {
    ++made;
    border = std::make_unique<Border>(makeBorder(group));
    border->version = group->version;
    border->viewVersion = graph.getViewVersion();
  }
  return *border;
}

/// Returns the bytes saved: the consumer need not read the producer's results,
/// and results without another reader need not be written.
int64_t FusionCost::bytesBetween(FusionGroup *maker,
                                 FusionGroup *reader) const {
  int64_t bytes = 0;
  auto add = [&](Value result) {
    bool isOnlyReader = graph.isReadOnlyBy(result, maker, reader);
    bytes += (isOnlyReader ? 2 : 1) * byteCount(result.getType());
  };
  const Border &made = borderOf(maker), &read = borderOf(reader);
  if (made.results.size() <= read.reads.size()) {
    for (Value result : made.results)
      if (read.reads.contains(result))
        add(result);
  } else {
    for (Value value : read.reads)
      if (graph.groupOf(value) == maker)
        add(value);
  }
  return bytes;
}

FusionSaving FusionCost::ofMerge(FusionGroup *into, FusionGroup *from) const {
  FusionSaving saving;
  saving.launches = !into->isLoose && !from->isLoose;
  saving.bytes = bytesBetween(into, from) + bytesBetween(from, into);
  // Common inputs are read once.
  const llvm::SmallDenseSet<Value> &read = borderOf(into).sources;
  for (auto [input, source] : borderOf(from).inputs)
    if (graph.groupOf(source) != into && read.contains(source))
      saving.bytes += byteCount(source.getType());
  saving.seconds = double(saving.bytes) / bytesPerSecond +
                   double(saving.launches) * launchSeconds;
  return saving;
}

/// Each element is a cache transaction of its own.
FusionSaving FusionCost::ofScatter(FusionGroup *into, FusionGroup *from) const {
  FusionSaving saving = ofMerge(into, from);
  int64_t elements = 0;
  for (Value result : borderOf(from).results)
    elements += elementCount(result);
  saving.extraSeconds =
      double(elements * kSectorBytes) / (kCacheSpeed * bytesPerSecond);
  saving.seconds -= saving.extraSeconds;
  return saving;
}

double FusionCost::operandPasses(Operation *contraction, unsigned index) {
  ArrayRef<int64_t> result = shapeOf(contraction->getResult(0));
  if (index > 1 || result.size() < 2)
    return 1;
  // The left-hand side is read once per tile of columns, the right-hand side
  // once per tile of rows.
  int64_t columns = result.back(), rows = result[result.size() - 2];
  if (auto conv = dyn_cast<ConvOp>(contraction)) {
    columns = conv.getOutputChannels();
    rows = elementCount(conv.getResult()) / std::max<int64_t>(columns, 1);
  }
  return std::max<int64_t>(1, index == 0
                                  ? llvm::divideCeil(columns, kBlockColumns)
                                  : llvm::divideCeil(rows, kBlockRows));
}

/// Roofline: the maximum of compute, memory and cache time.
double FusionCost::contractionSeconds(Operation *op,
                                      ArrayRef<double> operandBytes) const {
  double memory = byteCount(op->getResult(0).getType()), cache = memory;
  for (auto [index, bytes] : llvm::enumerate(operandBytes)) {
    memory += bytes;
    cache += bytes * operandPasses(op, index);
  }
  double arithmetic = 0;
  if (std::optional<MathType> type = mathTypeOf(op);
      type && target.hasCeilings())
    arithmetic = cast<CostOpInterface>(op).getFlops() /
                 target.flopsPerSecond(*type, /*aligned=*/true);
  return std::max({arithmetic, memory / bytesPerSecond,
                   cache / (kCacheSpeed * bytesPerSecond)});
}

/// Latency of a convolution's steps if it loads an image whose vectors `from`
/// splits into elements.
static double secondsOfElements(Operation *anchor, FusionGroup *from) {
  auto conv = dyn_cast<ConvOp>(anchor);
  if (!conv || !isLastDimensionMoved(from->ops) ||
      hasShortRows(conv.getInput()))
    return 0;
  int64_t bytes = shapeOf(conv.getInput()).back() *
                  bytesPerElement(getElementTypeOrSelf(conv.getInput()));
  return double(llvm::divideCeil(bytes, kStepBytes)) * kWaitSeconds;
}

FusionSaving FusionCost::ofOperand(FusionGroup *into, FusionGroup *from,
                                   unsigned index) const {
  FusionSaving saving = ofMerge(into, from);
  Operation *anchor = into->anchor;
  // At most one element of an input is loaded per element of the result.
  int64_t made = 0, loaded = 0, elements = 0;
  for (Value result : borderOf(from).results) {
    made += byteCount(result.getType());
    elements += elementCount(result);
  }
  for (auto [input, source] : borderOf(from).inputs)
    loaded += std::min(elements, elementCount(input)) *
              bytesPerElement(getElementTypeOrSelf(input));
  SmallVector<double> before;
  for (Value operand : anchor->getOperands())
    before.push_back(byteCount(operand.getType()));
  before[index] = made;
  SmallVector<double> after = before;
  after[index] = loaded;
  saving.extraSeconds = std::max(0.0, contractionSeconds(anchor, after) -
                                          contractionSeconds(anchor, before));
  saving.extraSeconds += secondsOfElements(anchor, from);
  // The kernel that moved the operand is saved; this one takes longer.
  saving.seconds = double(made + loaded) / bytesPerSecond -
                   saving.extraSeconds +
                   double(saving.launches) * launchSeconds;
  return saving;
}

/// Returns true if a matrix unit multiplies the stored operands of `product`.
static bool hasUnit(MatmulOp product, const TargetInfo &target) {
  std::optional<MathType> type = mathTypeOf(product);
  return type && target.unit(*type);
}

/// Bytes per element of the left side in shared memory.
static int64_t bytesInBlock(MatmulOp product, const TargetInfo &target) {
  return hasUnit(product, target)
             ? bytesPerElement(getElementTypeOrSelf(product.getLhs()))
             : int64_t(sizeof(float));
}

int64_t FusionCost::rowsOfBlock(MatmulOp product) const {
  int64_t room = target.facts().sharedBytesPerBlock - kOtherBytes;
  double row = kWithEnds * double(shapeOf(product.getLhs()).back() *
                                  bytesInBlock(product, target));
  int64_t rows = kBlockRows;
  while (rows >= kLeastRows && double(rows) * row > double(room))
    rows /= 2;
  return rows >= kLeastRows ? rows : 0;
}

/// Returns the additional latency of a GEMM of `rows` rows with at most
/// `rowsOfBlock` per block and without split-K. Repeated reads for further
/// columns are counted in bytes.
static double secondsOfSteps(MatmulOp product, int64_t rows,
                             int64_t rowsOfBlock, const TargetInfo &target) {
  int64_t processors = std::max<int64_t>(target.facts().multiprocessors, 1),
          step = hasUnit(product, target)
                     ? kStepBytes / bytesInBlock(product, target)
                     : kPlainStep,
          steps = llvm::divideCeil(shapeOf(product.getLhs()).back(), step),
          columns = shapeOf(product.getResult()).back(),
          blocks = llvm::divideCeil(rows, kLeastRows) *
                   llvm::divideCeil(columns, kFewColumns),
          shares =
              std::clamp<int64_t>(processors / blocks, 1,
                                  std::max<int64_t>(steps / kStepsOfShare, 1)),
          turns =
              llvm::divideCeil(llvm::divideCeil(rows, rowsOfBlock), processors);
  // Row buffers leave room for one resident block.
  double seconds = double(steps) * kStepSeconds,
         shared = seconds / double(shares) + (shares > 1 ? kMeetSeconds : 0);
  return std::max(seconds * double(turns) - shared, 0.0);
}

/// Concurrent blocks all read the rows, from the cache except for the first
/// one. Their redundant reductions are hidden behind loads of the right side.
/// If few rows fit, the whole right side is read more often.
FusionSaving FusionCost::ofRows(FusionGroup *into, FusionGroup *from) const {
  FusionSaving saving = ofMerge(into, from);
  auto product = cast<MatmulOp>(into->anchor);
  int64_t columns = shapeOf(product.getResult()).back(),
          rows = elementCount(product.getResult()) / columns,
          most = std::max(rowsOfBlock(product), kLeastRows);
  int64_t loaded = 0;
  for (auto [input, source] : borderOf(from).inputs)
    loaded += byteCount(input.getType());
  int64_t again = llvm::divideCeil(columns, kFewColumns) - 1,
          rhsAgain =
              llvm::divideCeil(rows, most) - llvm::divideCeil(rows, kBlockRows);
  double bytes =
      double(again) * double(loaded) +
      double(rhsAgain) * double(byteCount(product.getRhs().getType()));
  saving.extraSeconds = bytes / (kCacheSpeed * bytesPerSecond) +
                        secondsOfSteps(product, rows, most, target);
  saving.seconds -= saving.extraSeconds;
  return saving;
}
