//===- JoinLoops.cpp - loops of one launch --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops that one kernel reads run as one, whatever shapes they have: the turned
// query, the caches that new keys and values join, inputs that are narrowed. A
// loop that others read as well is computed anew inside each where that takes
// less time than a launch: the angles of rotary positions and their cosines.
//
//===----------------------------------------------------------------------===//

#include "KernelJoiner.h"

#include "mpc/Analysis/Fusion/FusionMovement.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpc;

/// A flop of a loop costs as much as so many of a product: nothing is fused
/// into it, and functions take more than they count.
static constexpr double kLoopFlop = 4;

/// The share of a launch that computing something anew may take.
static constexpr double kShareOfLaunch = 0.5;

/// Whether each element of what the group makes is computed where it is asked
/// for, in any order.
static bool isLoop(FusionGroup *group) {
  return group && !group->anchor && !group->isLoose && !group->isJoint &&
         !group->ops.empty() && !isLastDimensionMoved(group->ops) &&
         llvm::all_of(group->ops, [](Operation *op) {
           return isElementwise(op) || isFreeToRepeat(op) ||
                  isa<MovementOpInterface, ReshapeOp>(op);
         });
}

/// How often elements of an operand are asked for where those of `op` are
/// `count` times: of what is joined or padded a share each.
static double countOf(Operation *op, Value operand, double count) {
  double made = elementCount(op->getResult(0));
  return isa<ConcatOp, PadOp>(op) && made > 0
             ? count * std::min(1.0, elementCount(operand) / made)
             : count;
}

/// The time that `reader` takes longer where it computes what it reads of
/// `maker` instead of loading it.
double KernelJoiner::secondsAnew(FusionGroup *maker,
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

/// The reshapes through which `reader` reads what `maker` makes; nullopt where
/// something else reads one of them as well.
std::optional<llvm::SmallVector<FusionGroup *>>
KernelJoiner::viewsBetween(FusionGroup *maker, FusionGroup *reader) const {
  SmallVector<FusionGroup *> views;
  for (Operation *op : reader->ops)
    for (Value value : op->getOperands()) {
      if (graph.groupOf(behindReshapes(value)) != maker)
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

/// Whether one of the reader's ops reads what `maker` makes, behind views too.
bool KernelJoiner::readsLoop(FusionGroup *reader, FusionGroup *maker) const {
  return llvm::any_of(graph.resultsOf(maker), [&](Value result) {
    return llvm::is_contained(graph.readersOf(result), reader);
  });
}

/// What may run as one with the group: loops that read it, and those that a
/// kernel reads as well that reads it.
llvm::SmallVector<FusionGroup *>
KernelJoiner::loopsBeside(FusionGroup *group) const {
  llvm::SmallSetVector<FusionGroup *, 8> found;
  for (Value result : graph.resultsOf(group))
    for (FusionGroup *reader : graph.readersOf(result)) {
      if (!reader)
        continue;
      if (isLoop(reader))
        found.insert(reader);
      for (Operation *op : reader->ops)
        for (Value operand : op->getOperands())
          if (FusionGroup *source = graph.groupOf(behindReshapes(operand));
              isLoop(source))
            found.insert(source);
    }
  found.remove(group);
  return found.takeVector();
}

void KernelJoiner::joinLoops() {
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
      // In the kernel that alone reads it, a reshape costs nothing.
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
