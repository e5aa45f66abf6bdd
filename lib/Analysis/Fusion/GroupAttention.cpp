//===- GroupAttention.cpp - where gradients of attention go ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// On a GPU one kernel makes the gradients of query, key and value. It stores
// each where and as it is read: narrowed, heads behind positions, and side by
// side where products read them as one. None of that costs the kernel anything,
// so it is decided before any other kernel grows.
//
//===----------------------------------------------------------------------===//

#include "GroupRules.h"
#include "mpc/Analysis/Fusion/FusionMovement.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"

using namespace mlir;
using namespace mpc;

/// Whether the kernel stores `op`, a reader of a gradient, in its place.
static bool storesThrough(Operation *op) {
  auto cast = dyn_cast<CastOp>(op);
  return (cast && isNarrowing(cast)) ||
         (isa<TransposeOp>(op) && keepsLastDimension(op));
}

/// Whether `value` in row-major order is whole runs of `run` elements, each of
/// whole dimensions.
static bool hasRuns(Value value, int64_t run) {
  int64_t elements = 1;
  for (int64_t extent : llvm::reverse(shapeOf(value))) {
    if (elements == run)
      return true;
    elements *= extent;
  }
  return elements == run;
}

/// The gradient of attention that alone `value` is made of, by what its kernel
/// stores through and by reshapes behind that; nothing else reads what stands
/// between.
static AttentionGradientOp gradientBehind(Value value) {
  bool mayReshape = true;
  while (value.hasOneUse()) {
    Operation *producer = value.getDefiningOp();
    if (!producer || isa<AttentionGradientOp>(producer))
      return cast_if_present<AttentionGradientOp>(producer);
    mayReshape &= isa<ReshapeOp>(producer);
    if (!mayReshape && !storesThrough(producer))
      break;
    value = producer->getOperand(0);
  }
  return {};
}

/// Whether the concat joins gradients of one attention. What is read wide and
/// narrow a kernel of its own stores in one pass.
static bool joinsGradients(ConcatOp concat) {
  if (llvm::any_of(concat->getUsers(), [](Operation *user) {
        auto cast = dyn_cast<CastOp>(user);
        return cast && isNarrowing(cast);
      }))
    return false;
  AttentionGradientOp gradient = gradientBehind(concat.getInputs().front());
  return gradient && llvm::all_of(concat.getInputs(), [&](Value input) {
           int64_t run = productOf(shapeOf(input).drop_front(concat.getAxis()));
           return gradientBehind(input) == gradient &&
                  hasRuns(behindReshapes(input), run);
         });
}

/// The same for a concat whose result may be transposed: its inputs have all
/// dimensions that are turned around.
static bool joinsWholeGradients(ConcatOp concat) {
  return joinsGradients(concat) &&
         llvm::none_of(concat.getInputs(), [](Value input) {
           return input.getDefiningOp<ReshapeOp>();
         });
}

bool mpc::isStoredByAttention(Operation *op) {
  if (auto concat = dyn_cast<ConcatOp>(op))
    return joinsGradients(concat);
  if (!isa<TransposeOp>(op) || !keepsLastDimension(op))
    return false;
  Value input = op->getOperand(0);
  auto concat = input.getDefiningOp<ConcatOp>();
  return concat && input.hasOneUse() ? joinsWholeGradients(concat)
                                     : gradientBehind(input) != nullptr;
}

/// Takes `op`, which reads nothing but the group, into it.
void GroupRules::takeReader(FusionGroup *group, Operation *op) {
  FusionGroup *own = graph.groupOf(op);
  graph.closeView(own);
  graph.merge(group, own);
}

void GroupRules::joinAttentionGradients() {
  for (Operation *op : ops) {
    auto gradient = dyn_cast<AttentionGradientOp>(op);
    if (!gradient)
      continue;
    FusionGroup *group = graph.groupOf(op);
    ConcatOp joined;
    for (Value value : gradient.getResults()) {
      while (value.hasOneUse() && storesThrough(*value.user_begin())) {
        takeReader(group, *value.user_begin());
        value = value.user_begin()->getResult(0);
      }
      while (value.hasOneUse() && isa<ReshapeOp>(*value.user_begin()))
        value = value.user_begin()->getResult(0);
      if (value.hasOneUse() && isa<ConcatOp>(*value.user_begin()))
        joined = cast<ConcatOp>(*value.user_begin());
    }
    if (!joined || !joinsGradients(joined))
      continue;
    bool isWhole = joinsWholeGradients(joined);
    for (Value input : joined.getInputs())
      for (; graph.groupOf(input) != group;
           input = input.getDefiningOp()->getOperand(0))
        takeReader(group, input.getDefiningOp());
    takeReader(group, joined);
    if (!isWhole || !joined->hasOneUse())
      continue;
    Operation *reader = *joined->user_begin();
    if (isa<TransposeOp>(reader) && keepsLastDimension(reader))
      takeReader(group, reader);
  }
}
