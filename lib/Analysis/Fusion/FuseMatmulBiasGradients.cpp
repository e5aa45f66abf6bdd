//===- FuseMatmulBiasGradients.cpp - bias gradients and slices in GEMM kernels
//-------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fuses the gradient of a bias into the GEMM of the weight's gradient, which
// reads the same values; stores gradients of concatenated weights separately.
//
//===----------------------------------------------------------------------===//

#include "HorizontalFuser.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Analysis/OperandSums.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpc;

/// The GEMMs that multiply `value` or reshapes and concats of it, in order.
static void addProductsOf(Value value, llvm::SetVector<Operation *> &products) {
  for (Operation *user : value.getUsers()) {
    if (isa<MatmulOp>(user))
      products.insert(user);
    else if (isa<ReshapeOp, ConcatOp>(user))
      addProductsOf(user->getResult(0), products);
  }
}

/// Returns true if everything between an operand of the GEMM and `part`, from
/// which it is computed, is inside the group.
static bool reachesInside(const FusionGraph &graph, FusionGroup *group,
                          Value operand, Value part) {
  if (operand == part)
    return true;
  Operation *maker = operand.getDefiningOp();
  return isa_and_present<ReshapeOp, ConcatOp>(maker) &&
         graph.groupOf(maker) == group &&
         llvm::any_of(maker->getOperands(), [&](Value input) {
           return reachesInside(graph, group, input, part);
         });
}

/// Returns true if the kernel of `product` can also compute `sum`.
bool HorizontalFuser::takesSum(MatmulOp product, ReduceSumOp sum) const {
  FusionGroup *group = graph.groupOf(product.getOperation());
  std::optional<OperandSum> part = operandSumOf(sum, product);
  if (!part || group->anchor != product || group->isJoint ||
      isFull(group, graph.groupOf(sum.getOperation())))
    return false;
  // A GEMM with a norm prologue does not support sums.
  if (llvm::any_of(group->ops, [](Operation *member) {
        return member->hasTrait<MapsRows>();
      }))
    return false;
  // Sums of one operand only.
  bool sumsOther = llvm::any_of(group->ops, [&](Operation *member) {
    auto other = dyn_cast<ReduceSumOp>(member);
    std::optional<OperandSum> with =
        other ? operandSumOf(other, product) : std::nullopt;
    return other && (!with || with->isLeft != part->isLeft);
  });
  Value operand = part->isLeft ? product.getLhs() : product.getRhs();
  return !sumsOther && reachesInside(graph, group, operand, summedValue(sum));
}

/// Fuses the index maps and casts before the operands of a kernel that has
/// become their only reader.
void HorizontalFuser::loadThroughMovement(FusionGroup *group) {
  for (bool grows = true; grows;) {
    SmallVector<FusionCandidate> candidates = rules.operandsOf(group);
    grows = llvm::any_of(candidates, [&](const FusionCandidate &candidate) {
      return candidate.saving.seconds >= 0 && rules.apply(candidate);
    });
  }
}

/// A GEMM that contracts all rows reads every row of its operands, so it can
/// also sum one operand over them. It narrows the sum if only that is read.
void HorizontalFuser::joinProducts() {
  for (Operation *op : ops) {
    auto sum = dyn_cast<ReduceSumOp>(op);
    FusionGroup *sums = graph.groupOf(op);
    if (!sum || sums->anchor != op || sums->isJoint)
      continue;
    Value summed = summedValue(sum);
    auto wide = summed == sum.getInput()
                    ? CastOp()
                    : sum.getInput().getDefiningOp<CastOp>();
    auto isPart = [&](Operation *member) {
      auto cast = dyn_cast<CastOp>(member);
      return member == op || member == wide ||
             (cast && cast.getInput() == sum.getResult() && isNarrowing(cast));
    };
    if ((wide && !wide->hasOneUse()) || !llvm::all_of(sums->ops, isPart))
      continue;
    llvm::SetVector<Operation *> products;
    addProductsOf(summed, products);
    for (Operation *product : products) {
      FusionGroup *group = graph.groupOf(product);
      if (!takesSum(cast<MatmulOp>(product), sum) || !graph.merge(group, sums))
        continue;
      takeWidening(group, wide);
      takeNarrowing(group, sum.getResult());
      loadThroughMovement(group);
      break;
    }
  }
}

/// Values that are only read in slices are stored in parts by the GEMM's
/// kernel: the gradients of concatenated weights.
void HorizontalFuser::joinSlices() {
  for (Operation *op : ops) {
    FusionGroup *slice = graph.groupOf(op);
    if (!isPartOfProduct(op) || slice->anchor || slice->isLoose ||
        slice->ops.size() != 1)
      continue;
    FusionGroup *product = graph.groupOf(op->getOperand(0));
    if (product && product->anchor && !product->isJoint)
      graph.merge(product, slice);
  }
}
