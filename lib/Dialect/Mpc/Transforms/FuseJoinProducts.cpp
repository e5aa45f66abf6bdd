//===- FuseJoinProducts.cpp - sums beside the products of their input -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The gradient of a bias goes to the kernel that multiplies the same values for
// the gradient of the weight, so that they are read once.
//
//===----------------------------------------------------------------------===//

#include "FuseMovement.h"
#include "FusePrepare.h"
#include "FuseRules.h"
#include "OpEmitter.h"

#include "mpc/Analysis/OperandSums.h"

using namespace mlir;
using namespace mpc;

/// The products that multiply `value`, or what reshapes and concats make of it,
/// in block order.
static void addProductsOf(Value value, llvm::SetVector<Operation *> &products) {
  for (Operation *user : value.getUsers()) {
    if (isa<MatmulOp>(user))
      products.insert(user);
    else if (isa<ReshapeOp, ConcatOp>(user))
      addProductsOf(user->getResult(0), products);
  }
}

//===----------------------------------------------------------------------===//
// Before ops are grouped
//===----------------------------------------------------------------------===//

/// A matrix of the rows of `value` that a product or a concat reads; null where
/// there is none.
static Value matrixOf(Value value) {
  Value root = value;
  for (auto reshape = root.getDefiningOp<ReshapeOp>();
       reshape && keepsLastDimension(reshape);
       reshape = root.getDefiningOp<ReshapeOp>())
    root = reshape.getInput();
  SmallVector<Value> candidates = {value, root};
  for (Operation *user : root.getUsers())
    if (auto reshape = dyn_cast<ReshapeOp>(user);
        reshape && keepsLastDimension(reshape))
      candidates.push_back(reshape.getResult());
  for (Value candidate : candidates)
    if (shapeOf(candidate).size() == 2 &&
        llvm::any_of(candidate.getUsers(), [](Operation *user) {
          return isa<MatmulOp, ConcatOp>(user);
        }))
      return candidate;
  return {};
}

/// Whether a product, or a concat of what one multiplies, reads the value or a
/// reshape of it.
static bool isMultiplied(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return isa<MatmulOp, ConcatOp>(user) ||
           (isa<ReshapeOp>(user) && isMultiplied(user->getResult(0)));
  });
}

/// `value` where each reader has its own copy of the movement that makes it:
/// the copy of a product, brought to where this one stands. Else `value`.
static Value copyOfProduct(Value value) {
  Operation *maker = value.getDefiningOp();
  if (!maker || !isCopiedForReaders(maker) || isMultiplied(value))
    return value;
  for (Operation *copy : maker->getOperand(0).getUsers())
    if (copy != maker &&
        OperationEquivalence::isEquivalentTo(
            copy, maker, OperationEquivalence::IgnoreLocations) &&
        isMultiplied(copy->getResult(0))) {
      if (!copy->isBeforeInBlock(maker))
        copy->moveBefore(maker);
      return copy->getResult(0);
    }
  return value;
}

void mpc::sumMatrices(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto sum = dyn_cast<ReduceSumOp>(op);
    if (!sum || !sumsInFloat32(sum))
      continue;
    Value summed = summedValue(sum);
    size_t rank = shapeOf(summed).size();
    if (rank < 2 || sum.getAxes() != ArrayRef<int64_t>(llvm::to_vector(
                                         llvm::seq<int64_t>(rank - 1))))
      continue;
    Value matrix = copyOfProduct(summed);
    if (rank > 2)
      if (Value flat = matrixOf(matrix))
        matrix = flat;
    if (matrix == summed)
      continue;
    // A view of what the sum reads can stand right before its readers.
    if (Operation *view = matrix.getDefiningOp();
        view && !view->isBeforeInBlock(sum)) {
      Operation *first = view->getOperand(0).getDefiningOp();
      first ? view->moveAfter(first) : view->moveBefore(&block.front());
    }
    OpBuilder builder(sum);
    Value input = matrix;
    if (auto cast = sum.getInput().getDefiningOp<CastOp>();
        cast && summed != sum.getInput()) {
      input = OpEmitter::castLike(builder, cast, matrix);
    }
    sum.getInputMutable().assign(input);
    SmallVector<int64_t> rows =
        llvm::to_vector(llvm::seq<int64_t>(shapeOf(matrix).size() - 1));
    sum.setAxes(rows);
  }
}

//===----------------------------------------------------------------------===//
// Once all groups have grown
//===----------------------------------------------------------------------===//

/// Whether what lies between an operand of the product and `part`, which it is
/// made of, is computed in the group.
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

/// Whether the kernel around `product` can add `sum` to what it computes.
bool FuseRules::takesSum(MatmulOp product, ReduceSumOp sum) const {
  FusionGroup *group = graph.groupOf(product.getOperation());
  std::optional<OperandSum> part = operandSumOf(sum, product);
  if (!part || group->anchor != product || group->isJoint ||
      isFull(group, graph.groupOf(sum.getOperation())))
    return false;
  // One operand's sums are kept.
  bool sumsOther = llvm::any_of(group->ops, [&](Operation *member) {
    auto other = dyn_cast<ReduceSumOp>(member);
    std::optional<OperandSum> with =
        other ? operandSumOf(other, product) : std::nullopt;
    return other && (!with || with->isLeft != part->isLeft);
  });
  Value operand = part->isLeft ? product.getLhs() : product.getRhs();
  return !sumsOther && reachesInside(graph, group, operand, summedValue(sum));
}

/// Takes the index maps and casts behind the operands of a kernel that has
/// become their only reader.
void FuseRules::loadThroughMovement(FusionGroup *group) {
  for (bool grows = true; grows;) {
    Candidates candidates;
    addOperands(group, /*only=*/nullptr, candidates);
    grows = llvm::any_of(candidates, [&](const FusionCandidate &candidate) {
      return candidate.saving.seconds >= 0 && apply(candidate);
    });
  }
}

/// A product over all rows reads every row of its operands, so it sums one of
/// them over these as well. It narrows the sum where that alone is read.
void FuseRules::joinProducts() {
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
