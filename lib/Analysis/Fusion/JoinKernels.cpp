//===- JoinKernels.cpp - kernels that run as one --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Some kernels that stand side by side become one launch, most of them on a GPU
// alone. The order is that of what they gain: rows first, which are read once.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Fusion/JoinKernels.h"

#include "KernelJoiner.h"

#include "mpc/Analysis/Fusibility.h"
#include "mpc/Analysis/Fusion/FusionMovement.h"

using namespace mlir;
using namespace mpc;

ArrayRef<int64_t> mpc::summedAxes(Operation *op) {
  if (auto sum = dyn_cast_or_null<ReduceSumOp>(op))
    return sum.getAxes();
  if (auto mean = dyn_cast_or_null<ReduceMeanOp>(op))
    return mean.getAxes();
  return {};
}

void KernelJoiner::widenAtReaders() {
  for (Operation *op : ops) {
    auto cast = dyn_cast<CastOp>(op);
    if (!cast || cast->use_empty() || !isWidening(cast))
      continue;
    OpOperand &use = *cast->getUses().begin();
    FusionGroup *reader = graph.groupOf(use.getOwner());
    if (reader && !reader->isLoose && reader != graph.groupOf(op) &&
        graph.isReadOnlyBy(op, reader) &&
        absorbsCast(use.getOwner(), use.getOperandNumber(), FusionTarget()))
      graph.move(op, reader);
  }
}

/// Takes the cast, where there is one, that widens what the group reads through
/// memory.
void KernelJoiner::takeWidening(FusionGroup *group, CastOp wide) {
  FusionGroup *widened = wide ? graph.groupOf(wide.getOperation()) : group;
  if (widened->ops.size() == 1)
    graph.merge(group, widened);
  else if (widened != group)
    graph.move(wide, group);
}

/// Takes the cast, where it is a kernel of its own, that alone reads the
/// group's `value` and narrows it.
void KernelJoiner::takeNarrowing(FusionGroup *group, Value value) {
  auto cast =
      value.hasOneUse() ? dyn_cast<CastOp>(*value.user_begin()) : CastOp();
  FusionGroup *own = cast ? graph.groupOf(cast.getOperation()) : nullptr;
  if (own && own->ops.size() == 1 && !own->isJoint && isNarrowing(cast))
    graph.merge(group, own);
}

void mpc::joinKernels(FusionGraph &graph, Block &block,
                      const TargetInfo &target) {
  KernelJoiner joiner(graph, block, target);
  // Kernels that read one narrow value are seen to read the same.
  joiner.widenAtReaders();
  bool joinsSiblings = target.kernels().joinsSiblings;
  joiner.joinRowMaxima();
  if (joinsSiblings) {
    joiner.joinRows();
    joiner.joinRowNumbers();
    joiner.joinColumns();
    joiner.joinFilters();
    joiner.joinSlices();
    joiner.joinProducts();
    joiner.joinPools();
  }
  joiner.joinEqualSums();
  if (!joinsSiblings)
    return;
  joiner.joinSums();
  joiner.joinConcats();
  joiner.widenAtReaders();
  // What stands before other kernels stays as these have left it.
  joiner.joinLoops();
}
