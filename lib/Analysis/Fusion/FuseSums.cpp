//===- FuseSums.cpp - horizontal fusion of reductions ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Merges sums over the same dimensions of functions of one tensor, and merges
// the small sums at the end of a step with the updates.
//
//===----------------------------------------------------------------------===//

#include "HorizontalFuser.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpc;

/// Maximum elements per sum that a block reduces while other blocks update
/// parameters.
static constexpr int64_t kMostSummed = 512;

/// Returns true if the group only sums over `axes` of tensors of `shape`, with
/// elementwise ops before and after.
static bool isOfSums(FusionGroup *group, ArrayRef<int64_t> shape,
                     ArrayRef<int64_t> axes) {
  return !group->isLoose && !group->isJoint &&
         llvm::all_of(group->ops, [&](Operation *op) {
           if (summedAxes(op) == axes)
             return shapeOf(op->getOperand(0)) == shape;
           return isElementwise(op) &&
                  (shapeOf(op->getResult(0)) == shape ||
                   elementCount(op->getResult(0)) < productOf(shape));
         });
}

/// Fuses sums over the same dimensions of functions of one tensor, which is
/// then read once: the gradients of a batch norm's scale and bias.
void HorizontalFuser::joinEqualSums() {
  for (Operation *op : ops) {
    FusionGroup *group = graph.groupOf(op);
    ArrayRef<int64_t> axes = summedAxes(op);
    if (axes.empty() || group->anchor != op)
      continue;
    ArrayRef<int64_t> shape = shapeOf(op->getOperand(0));
    if (!isOfSums(group, shape, axes))
      continue;
    llvm::SetVector<FusionGroup *> others;
    for (Operation *member : group->ops)
      for (Value operand : member->getOperands())
        if (shapeOf(operand) == shape && graph.groupOf(operand) != group)
          for (Operation *user : operand.getUsers())
            others.insert(graph.groupOf(user));
    for (FusionGroup *other : others)
      if (other && other != group && other->anchor &&
          summedAxes(other->anchor) == axes && isOfSums(other, shape, axes) &&
          !isFull(group, other))
        graph.merge(group, other);
  }
}

/// Short sums that only the updates or the caller read get blocks of their own
/// in the update kernel.
void HorizontalFuser::joinSums() {
  FusionGroup *updates = nullptr;
  for (Operation *op : ops)
    if (FusionGroup *group = graph.groupOf(op);
        group->isJoint && group->kind == FusionKind::update)
      updates = group;
  if (!updates)
    return;
  for (Operation *op : ops) {
    FusionGroup *group = graph.groupOf(op);
    if (group->anchor != op || summedAxes(op).empty())
      continue;
    int64_t summed = elementCount(op->getOperand(0)) /
                     std::max<int64_t>(elementCount(op->getResult(0)), 1);
    bool isLast = llvm::all_of(group->ops, [&](Operation *member) {
      return llvm::all_of(member->getUsers(), [&](Operation *user) {
        FusionGroup *reader = graph.groupOf(user);
        if (reader == updates)
          return shapeOf(user->getResult(0)) == shapeOf(op->getResult(0));
        return reader == group || !reader;
      });
    });
    if (isLast && summed <= kMostSummed)
      graph.merge(updates, group);
  }
}
