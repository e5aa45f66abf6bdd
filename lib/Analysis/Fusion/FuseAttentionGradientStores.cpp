//===- FuseAttentionGradientStores.cpp - stores of attention gradients ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// On a GPU, one kernel computes the gradients of query, key and value. It
// stores each in the layout and type of its readers at no extra cost: narrowed,
// with heads after positions, and concatenated for GEMMs that read all three.
// This is decided before any other kernel grows.
//
//===----------------------------------------------------------------------===//

#include "FusionRules.h"
#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

using namespace mlir;
using namespace mpc;

/// Returns true if `op`, a reader of a gradient, can be folded into the store.
static bool storesThrough(Operation *op) {
  auto cast = dyn_cast<CastOp>(op);
  return (cast && isNarrowing(cast)) ||
         (isa<TransposeOp>(op) && keepsLastDimension(op));
}

/// Returns true if `value` in row-major order consists of whole runs of `run`
/// elements, each of whole dimensions.
static bool hasRuns(Value value, int64_t run) {
  int64_t elements = 1;
  for (int64_t extent : llvm::reverse(shapeOf(value))) {
    if (elements == run)
      return true;
    elements *= extent;
  }
  return elements == run;
}

/// Returns the attention gradient from which `value` is computed only through
/// foldable ops followed by reshapes, without other readers in between.
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

/// Returns true if the concat joins gradients of one attention. If it is read
/// both wide and narrow, a separate kernel stores both in one pass.
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
                  hasRuns(sourceOfReshapes(input), run);
         });
}

/// The same for a concat whose result may be transposed: its inputs have all of
/// the permuted dimensions.
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

/// Fuses `op`, which reads only the group, into it.
void FusionRules::fuseReader(FusionGroup *group, Operation *op) {
  FusionGroup *own = graph.groupOf(op);
  graph.closeView(own);
  graph.merge(group, own);
}

void FusionRules::joinAttentionGradients() {
  for (Operation *op : ops) {
    auto gradient = dyn_cast<AttentionGradientOp>(op);
    if (!gradient)
      continue;
    FusionGroup *group = graph.groupOf(op);
    ConcatOp joined;
    for (Value value : gradient.getResults()) {
      while (value.hasOneUse() && storesThrough(*value.user_begin())) {
        fuseReader(group, *value.user_begin());
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
        fuseReader(group, input.getDefiningOp());
    fuseReader(group, joined);
    if (!isWhole || !joined->hasOneUse())
      continue;
    Operation *reader = *joined->user_begin();
    if (isa<TransposeOp>(reader) && keepsLastDimension(reader))
      fuseReader(group, reader);
  }
}
