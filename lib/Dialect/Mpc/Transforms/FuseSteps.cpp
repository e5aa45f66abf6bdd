//===- FuseSteps.cpp - take the steps that the rules allow ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FuseMovement.h"
#include "FuseRules.h"
#include "OpEmitter.h"

#include "mpc/Analysis/Fusibility.h"

using namespace mlir;
using namespace mpc;

bool FuseRules::apply(const FusionCandidate &candidate) {
  switch (candidate.step) {
  case FusionStep::Operand:
  case FusionStep::Loop:
    return mergeThrough(candidate.into, candidate.operand, candidate.from);
  case FusionStep::Store:
    return takeStore(candidate.into);
  default:
    return graph.merge(candidate.into, candidate.from);
  }
}

/// Merges `source`, which computes `operand` or the input of the reshape that
/// does.
bool FuseRules::mergeThrough(FusionGroup *group, Value operand,
                             FusionGroup *source) {
  FusionGroup *between = graph.groupOf(operand);
  if (between == source)
    return graph.merge(group, source);
  // Only the source stands before the reshape and only the group behind it.
  graph.closeView(between);
  if (graph.merge(between, source) && graph.merge(group, between))
    return true;
  // The pair stays a kernel of its own, a plain loop that ends in the reshape.
  return false;
}

/// Takes the movement that alone reads the group's result.
bool FuseRules::takeStore(FusionGroup *group) {
  for (Operation *op : storeChain(group)) {
    // It reads nothing else, so that nothing can lie between.
    FusionGroup *owner = graph.groupOf(op);
    graph.closeView(owner);
    if (!graph.merge(group, owner))
      return false;
    group->shape = shapeOf(op->getResult(0));
  }
  return true;
}

/// Gives a widening cast to the kernel that reads it: the one that makes its
/// input then stores 16 bits.
void FuseRules::widenAtReaders() {
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

void FuseRules::finish() {
  if (kernels.joinsSiblings) {
    // Kernels that read one narrow value are seen to read the same.
    widenAtReaders();
    joinRows();
    joinRowSums();
    joinColumns();
    joinFilters();
    joinSlices();
    joinProducts();
    joinEqualSums();
    joinSums();
  }
  widenAtReaders();
  for (Operation *op : ops) {
    FusionGroup *group = graph.groupOf(op);
    if (group->anchor || group->isLoose || group->isJoint)
      continue;
    bool moves = llvm::any_of(
        group->ops, [](Operation *member) { return isa<TransposeOp>(member); });
    group->kind = moves ? FusionKind::transpose : FusionKind::elementwise;
  }
}
