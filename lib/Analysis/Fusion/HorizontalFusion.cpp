//===- FuseHorizontal.cpp - horizontal fusion of kernels
//---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Merges independent kernels into one launch, mostly for GPUs. In order of
// gain: rows first, which are then read once.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Fusion/HorizontalFusion.h"

#include "HorizontalFuser.h"

#include "mpc/Analysis/CastFusion.h"
#include "mpc/Analysis/Fusion/FusionPredicates.h"

using namespace mlir;
using namespace mpc;

ArrayRef<int64_t> mpc::summedAxes(Operation *op) {
  if (auto sum = dyn_cast_or_null<ReduceSumOp>(op))
    return sum.getAxes();
  if (auto mean = dyn_cast_or_null<ReduceMeanOp>(op))
    return mean.getAxes();
  return {};
}

void HorizontalFuser::widenAtReaders() {
  for (Operation *op : ops) {
    auto cast = dyn_cast<CastOp>(op);
    if (!cast || cast->use_empty() || !isWidening(cast))
      continue;
    OpOperand &use = *cast->getUses().begin();
    FusionGroup *reader = graph.groupOf(use.getOwner());
    if (reader && !reader->isLoose && reader != graph.groupOf(op) &&
        graph.isReadOnlyBy(op, reader) &&
        fusesOperandCast(use.getOwner(), use.getOperandNumber(),
                         CastFusionTarget()))
      graph.move(op, reader);
  }
}

/// Fuses the cast, if any, that widens the group's input from memory.
void HorizontalFuser::takeWidening(FusionGroup *group, CastOp wide) {
  FusionGroup *widened = wide ? graph.groupOf(wide.getOperation()) : group;
  if (widened->ops.size() == 1)
    graph.merge(group, widened);
  else if (widened != group)
    graph.move(wide, group);
}

/// Fuses the cast, if it is a kernel of its own, that narrows the group's
/// `value` and is its only reader.
void HorizontalFuser::takeNarrowing(FusionGroup *group, Value value) {
  auto cast =
      value.hasOneUse() ? dyn_cast<CastOp>(*value.user_begin()) : CastOp();
  FusionGroup *own = cast ? graph.groupOf(cast.getOperation()) : nullptr;
  if (own && own->ops.size() == 1 && !own->isJoint && isNarrowing(cast))
    graph.merge(group, own);
}

void mpc::fuseHorizontal(FusionGraph &graph, Block &block,
                         const TargetInfo &target) {
  HorizontalFuser joiner(graph, block, target);
  // Exposes kernels with a common narrow input.
  joiner.widenAtReaders();
  bool fusesSiblings = target.kernels().fusesSiblings;
  joiner.joinRowMaxima();
  if (fusesSiblings) {
    joiner.joinRows();
    joiner.joinRowNumbers();
    joiner.joinColumns();
    joiner.joinFilters();
    joiner.joinSlices();
    joiner.joinProducts();
    joiner.joinPools();
  }
  joiner.joinEqualSums();
  if (!fusesSiblings)
    return;
  joiner.joinSums();
  joiner.joinConcats();
  joiner.widenAtReaders();
  // Last, so that the inputs of other kernels stay as fused above.
  joiner.joinLoops();
}
