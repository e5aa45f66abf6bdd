//===- FuseImageMeans.cpp - image means in convolution kernels
//-----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fuses the mean over each image of a squeeze-and-excitation block into the
// kernel of the depthwise convolution that computes the image: it has every
// element in registers, and a separate kernel would read all of them again.
//
//===----------------------------------------------------------------------===//

#include "HorizontalFuser.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Analysis/OperandSums.h"

using namespace mlir;
using namespace mpc;

/// Returns the depthwise convolution that computes `value`, or null.
static ConvOp convolutionOf(const FusionGraph &graph, Value value) {
  FusionGroup *group = graph.groupOf(value);
  if (!group || group->isJoint || group->kind != FusionKind::convolution)
    return {};
  return dyn_cast_or_null<ConvOp>(group->anchor);
}

void HorizontalFuser::joinPools() {
  for (Operation *op : ops) {
    FusionGroup *pool = graph.groupOf(op);
    if (pool->anchor != op || pool->isJoint || summedAxes(op).empty())
      continue;
    // The sum widens the results that the kernel stores narrow.
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
    // A kernel supports one sum.
    bool hasSum = llvm::any_of(group->ops, [](Operation *member) {
      return !summedAxes(member).empty();
    });
    if (hasSum || !graph.merge(group, pool))
      continue;
    takeNarrowing(group, op->getResult(0));
  }
}
