//===- JoinPools.cpp - means beside convolutions --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The mean over each image that a squeeze begins with goes to the kernel of the
// depthwise convolution that makes the images: it has every element in
// registers, and a kernel of its own would read all of them again.
//
//===----------------------------------------------------------------------===//

#include "KernelJoiner.h"

#include "mpc/Analysis/Fusion/FusionMovement.h"
#include "mpc/Analysis/OperandSums.h"

using namespace mlir;
using namespace mpc;

/// The depthwise convolution whose kernel makes `value`; null for others.
static ConvOp convolutionOf(const FusionGraph &graph, Value value) {
  FusionGroup *group = graph.groupOf(value);
  if (!group || group->isJoint || group->kind != FusionKind::convolution)
    return {};
  return dyn_cast_or_null<ConvOp>(group->anchor);
}

void KernelJoiner::joinPools() {
  for (Operation *op : ops) {
    FusionGroup *pool = graph.groupOf(op);
    if (pool->anchor != op || pool->isJoint || summedAxes(op).empty())
      continue;
    // What the kernel stores narrow the sum widens again.
    auto wide = op->getOperand(0).getDefiningOp<CastOp>();
    if (wide && graph.groupOf(wide.getOperation()) != pool)
      wide = {};
    auto isPart = [&](Operation *member) {
      return member == op || member == wide ||
             isMadeElementwise(member->getResult(0), op->getResult(0));
    };
    ConvOp conv =
        convolutionOf(graph, wide ? wide.getInput() : op->getOperand(0));
    if (!conv || !llvm::all_of(pool->ops, isPart) || !poolsImages(op, conv))
      continue;
    FusionGroup *group = graph.groupOf(conv.getOperation());
    // A kernel has one sum.
    bool hasSum = llvm::any_of(group->ops, [](Operation *member) {
      return !summedAxes(member).empty();
    });
    if (hasSum || !graph.merge(group, pool))
      continue;
    takeNarrowing(group, op->getResult(0));
  }
}
