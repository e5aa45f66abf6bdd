//===- FuseLoops.cpp - horizontal fusion of elementwise loops -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops that one kernel reads run in one launch, whatever their shapes: the
// transposed query, KV caches with new rows appended, narrowed inputs. A loop
// with several readers is recomputed in each if that takes less time than a
// launch, for example the sines and cosines of rotary embeddings.
//
//===----------------------------------------------------------------------===//

#include "HorizontalFuser.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpc;

/// Cost of a loop's flop relative to a GEMM's: no FMA, and functions take more
/// flops than they count.
static constexpr double kLoopFlop = 4;

/// Maximum time of recomputation, as a share of a launch.
static constexpr double kShareOfLaunch = 0.5;

/// Returns true if the group can compute any element of its result on demand.
static bool isLoop(FusionGroup *group) {
  return group && !group->anchor && !group->isLoose && !group->isJoint &&
         !group->ops.empty() && !isLastDimensionMoved(group->ops) &&
         llvm::all_of(group->ops, [](Operation *op) {
           return isElementwise(op) || isFreeToRepeat(op) ||
                  isa<MovementOpInterface, ReshapeOp>(op);
         });
}

/// Returns how often elements of an operand are read if each result of `op` is
/// read `count` times: an operand of a concat or pad has a share.
static double countOf(Operation *op, Value operand, double count) {
  double made = elementCount(op->getResult(0));
  return isa<ConcatOp, PadOp>(op) && made > 0
             ? count * std::min(1.0, elementCount(operand) / made)
             : count;
}

/// Returns the additional time of `reader`, in seconds, if it recomputes the
/// results of `maker` instead of loading them.
double HorizontalFuser::secondsAnew(FusionGroup *maker,
                                    FusionGroup *reader) const {
  llvm::DenseMap<Operation *, double> counts;
  for (Value result : graph.resultsOf(reader)) {
    double &count = counts[result.getDefiningOp()];
    count = std::max<double>(count, elementCount(result));
  }
  double flops = 0, bytes = 0;
  auto visit = [&](FusionGroup *group) {
    for (Operation *op : llvm::reverse(group->ops)) {
      auto entry = counts.find(op);
      if (entry == counts.end())
        continue;
      double count = entry->second, made = elementCount(op->getResult(0));
      if (group == maker && made > 0)
        flops += cast<CostOpInterface>(op).getFlops() * count / made;
      for (Value operand : op->getOperands()) {
        double asked = countOf(op, operand, count);
        double size = bytesPerElement(getElementTypeOrSelf(operand));
        if (FusionGroup *source = graph.groupOf(operand);
            source == maker || source == group) {
          counts[operand.getDefiningOp()] += asked;
          if (source != group)
            bytes -= std::min<double>(asked, elementCount(operand)) * size;
        } else if (group == maker) {
          bytes += std::min<double>(asked, elementCount(operand)) * size;
        }
      }
    }
  };
  visit(reader);
  visit(maker);
  return flops * kLoopFlop /
             target.flopsPerSecond(MathType::Float32, /*aligned=*/true) +
         std::max(bytes, 0.0) / target.bytesPerSecond();
}

/// Returns the reshapes through which `reader` reads results of `maker`;
/// nullopt if one of them has another reader.
std::optional<llvm::SmallVector<FusionGroup *>>
HorizontalFuser::viewsBetween(FusionGroup *maker, FusionGroup *reader) const {
  SmallVector<FusionGroup *> views;
  for (Operation *op : reader->ops)
    for (Value value : op->getOperands()) {
      if (graph.groupOf(sourceOfReshapes(value)) != maker)
        continue;
      for (; graph.groupOf(value) != maker && graph.groupOf(value) != reader;
           value = value.getDefiningOp()->getOperand(0)) {
        FusionGroup *view = graph.groupOf(value);
        if (!view->isLoose || !graph.isReadOnlyBy(value, view, reader))
          return std::nullopt;
        views.push_back(view);
      }
    }
  return views;
}

/// Returns true if `reader` reads `maker`, directly or through views.
bool HorizontalFuser::readsLoop(FusionGroup *reader, FusionGroup *maker) const {
  return llvm::any_of(graph.resultsOf(maker), [&](Value result) {
    return llvm::is_contained(graph.readersOf(result), reader);
  });
}

/// Fusion candidates: consumers, and siblings that share a consumer.
llvm::SmallVector<FusionGroup *>
HorizontalFuser::loopsBeside(FusionGroup *group) const {
  llvm::SmallSetVector<FusionGroup *, 8> found;
  for (Value result : graph.resultsOf(group))
    for (FusionGroup *reader : graph.readersOf(result)) {
      if (!reader)
        continue;
      if (isLoop(reader))
        found.insert(reader);
      for (Operation *op : reader->ops)
        for (Value operand : op->getOperands())
          if (FusionGroup *source = graph.groupOf(sourceOfReshapes(operand));
              isLoop(source))
            found.insert(source);
    }
  found.remove(group);
  return found.takeVector();
}

void HorizontalFuser::joinLoops() {
  if (!target.hasCeilings())
    return;
  double most = kShareOfLaunch * target.launchSeconds();
  auto join = [&](FusionGroup *group, FusionGroup *other) {
    if (isFull(group, other))
      return false;
    if (readsLoop(group, other))
      std::swap(group, other);
    if (readsLoop(other, group)) {
      std::optional<SmallVector<FusionGroup *>> views =
          viewsBetween(group, other);
      if (!views || secondsAnew(group, other) > most)
        return false;
      // Inside the kernel of its only reader, a reshape is free.
      for (FusionGroup *view : *views) {
        graph.closeView(view);
        graph.merge(other, view);
      }
    }
    return graph.merge(group, other);
  };
  for (bool grows = true; grows;) {
    grows = false;
    for (Operation *op : ops) {
      FusionGroup *group = graph.groupOf(op);
      if (group->ops.front() != op || !isLoop(group))
        continue;
      for (FusionGroup *other : loopsBeside(group))
        if (join(group, other)) {
          grows = true;
          break;
        }
    }
  }
}
