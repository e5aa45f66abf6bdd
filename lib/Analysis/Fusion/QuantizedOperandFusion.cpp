//===- QuantizedOperandFusion.cpp - fusion of quantized operands ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "QuantizedOperandFusion.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Analysis/OperandSums.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

using namespace mlir;
using namespace mpc;

/// If only `group` reads the reshape `value`, replaces it by its input and
/// returns its group, else null.
static FusionGroup *viewOnlyOf(const FusionGraph &graph, FusionGroup *group,
                               Value &value) {
  FusionGroup *view = graph.groupOf(value);
  if (!view || !view->isLoose || !value.getDefiningOp<ReshapeOp>() ||
      !graph.isReadOnlyBy(view, group))
    return nullptr;
  value = value.getDefiningOp()->getOperand(0);
  return view;
}

static void mergeView(FusionGraph &graph, FusionGroup *group,
                      FusionGroup *view) {
  if (!view)
    return;
  graph.closeView(view);
  graph.merge(group, view);
}

void mpc::fuseTransposedCopies(FusionGraph &graph, const FusionRules &rules) {
  for (Operation *op : rules.operations()) {
    FusionGroup *group = graph.groupOf(op);
    if (!isa<TransposeOp>(op) || keepsLastDimension(op) ||
        group->ops.size() != 1)
      continue;
    Value input = op->getOperand(0);
    FusionGroup *view = viewOnlyOf(graph, group, input),
                *maker = graph.groupOf(input);
    if (!maker || maker->anchor || maker->isLoose || maker->isJoint ||
        maker->shape != shapeOf(input) ||
        !llvm::all_of(maker->ops, isElementwise) || rules.isFull(maker, group))
      continue;
    mergeView(graph, group, view);
    graph.merge(group, maker);
  }
}

/// Returns the value outside of the group, from which the group computes the
/// largest magnitude `reduce` and scalars only; null if there is more.
static Value reducedTensor(const FusionGraph &graph, FusionGroup *group,
                           ReduceMaxOp reduce) {
  Value tensor = reduce.getInput();
  SmallPtrSet<Operation *, 4> before = {reduce};
  while (graph.groupOf(tensor) == group) {
    Operation *op = tensor.getDefiningOp();
    if (!isa<AbsOp>(op) && !keepsMagnitudes(op))
      return {};
    before.insert(op);
    tensor = op->getOperand(0);
  }
  bool isWhole = llvm::all_of(group->ops, [&](Operation *op) {
    return before.contains(op) ||
           (isElementwise(op) && elementCount(op->getResult(0)) == 1);
  });
  return isWhole ? tensor : Value();
}

void mpc::fuseLargestMagnitudes(FusionGraph &graph, const FusionRules &rules) {
  for (Operation *op : rules.operations()) {
    auto reduce = dyn_cast<ReduceMaxOp>(op);
    FusionGroup *group = graph.groupOf(op);
    if (!reduce || group->anchor != op || group->isJoint ||
        !isLargestMagnitude(reduce))
      continue;
    Value tensor = reducedTensor(graph, group, reduce);
    if (!tensor)
      continue;
    FusionGroup *view = viewOnlyOf(graph, group, tensor),
                *maker = graph.groupOf(tensor);
    if (!maker || maker == group || maker->isLoose || maker->isJoint ||
        maker->kind == FusionKind::library ||
        maker->kind == FusionKind::recurrence || elementCount(tensor) == 1)
      continue;
    // Otherwise the kernel has the tensor in registers only.
    bool isStored = !graph.isReadOnlyBy(tensor, maker, group);
    if (!isStored && llvm::none_of(graph.resultsOf(maker), [&](Value result) {
          return result != tensor && shapeOf(result) == shapeOf(tensor);
        }))
      continue;
    mergeView(graph, group, view);
    graph.merge(maker, group);
  }
}
