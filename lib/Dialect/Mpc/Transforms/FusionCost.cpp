//===- FusionCost.cpp - the time that a fusion saves ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FusionCost.h"
#include "OpEmitter.h"

#include "mpc/Analysis/Padding.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Rates of a target about which nothing is known; only proportions matter.
static constexpr double kSomeBandwidth = 1e12;

/// A contraction's block of results: what a large kernel keeps in registers.
static constexpr int64_t kBlockRows = 128, kBlockColumns = 256;

/// What is read again soon comes from a cache, which is this much faster.
static constexpr double kCacheSpeed = 3;

FusionCost::FusionCost(const TargetInfo &target, const FusionGraph &graph)
    : graph(graph),
      bytesPerSecond(target.hasCeilings() ? target.bytesPerSecond()
                                          : kSomeBandwidth),
      launchSeconds(target.launchSeconds()) {}

/// The values outside `group` that its ops read, each once.
static llvm::SetVector<Value> inputsOf(const FusionGraph &graph,
                                       FusionGroup *group) {
  llvm::SetVector<Value> inputs;
  for (Operation *op : group->ops)
    for (Value operand : op->getOperands())
      if (graph.groupOf(operand) != group)
        inputs.insert(operand);
  return inputs;
}

/// The value in memory that `value` is, behind views.
static Value behindViews(const FusionGraph &graph, Value value) {
  while (FusionGroup *group = graph.groupOf(value)) {
    auto reshape = value.getDefiningOp<ReshapeOp>();
    if (!reshape || !group->isLoose)
      break;
    value = reshape.getInput();
  }
  return value;
}

FusionSaving FusionCost::ofMerge(FusionGroup *into, FusionGroup *from) const {
  FusionSaving saving;
  saving.launches = !into->isLoose && !from->isLoose;
  // What one makes and the other reads need not be read, and where nothing else
  // reads it, not be written.
  auto addResults = [&](FusionGroup *maker, FusionGroup *reader) {
    for (Value result : graph.resultsOf(maker)) {
      if (!graph.reads(reader, result))
        continue;
      int64_t bytes = byteCount(result.getType());
      saving.bytes += bytes;
      if (graph.isReadOnlyBy(result, maker, reader))
        saving.bytes += bytes;
    }
  };
  addResults(into, from);
  addResults(from, into);
  // What both read is read once.
  llvm::SmallDenseSet<Value> read;
  for (Value input : inputsOf(graph, into))
    read.insert(behindViews(graph, input));
  for (Value input : inputsOf(graph, from)) {
    Value source = behindViews(graph, input);
    FusionGroup *maker = graph.groupOf(source);
    if (maker != into && read.contains(source))
      saving.bytes += byteCount(source.getType());
  }
  saving.seconds = double(saving.bytes) / bytesPerSecond +
                   double(saving.launches) * launchSeconds;
  return saving;
}

/// How often a contraction goes over its operand number `index`.
static double operandPasses(Operation *contraction, unsigned index) {
  ArrayRef<int64_t> result = shapeOf(contraction->getResult(0));
  if (index > 1 || result.size() < 2)
    return 1;
  // The left-hand side meets every block of columns, the right-hand side every
  // block of rows.
  int64_t columns = result.back(), rows = result[result.size() - 2];
  if (auto conv = dyn_cast<ConvOp>(contraction)) {
    columns = conv.getOutputChannels();
    rows = elementCount(conv.getResult()) / std::max<int64_t>(columns, 1);
  }
  return std::max<int64_t>(1, index == 0
                                  ? llvm::divideCeil(columns, kBlockColumns)
                                  : llvm::divideCeil(rows, kBlockRows));
}

/// The largest of what the arithmetic, the memory and the cache need.
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

FusionSaving FusionCost::ofOperand(FusionGroup *into, FusionGroup *from,
                                   unsigned index) const {
  FusionSaving saving = ofMerge(into, from);
  Operation *anchor = into->anchor;
  // No more is loaded of an input than what is made of it has elements.
  int64_t made = 0, loaded = 0, elements = 0;
  for (Value result : graph.resultsOf(from)) {
    made += byteCount(result.getType());
    elements += elementCount(result);
  }
  for (Value input : inputsOf(graph, from))
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
  // The kernel that moved the operand is gone, and this one takes longer.
  saving.seconds = double(made + loaded) / bytesPerSecond -
                   saving.extraSeconds +
                   double(saving.launches) * launchSeconds;
  return saving;
}
