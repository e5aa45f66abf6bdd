//===- MergeContractions.cpp - merge matmuls that share an operand --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// QKV-style merging: concatenates the weights of matmuls with a common
// left-hand side whose results are only moved afterwards. Legal because the
// columns of a matmul are independent. Runs before mpc-assign-layout, which
// sinks the slices, and, with parameters instead of constants, before
// mpc-differentiate.
//
//===----------------------------------------------------------------------===//

#include "MergedMatmuls.h"
#include "OpEmitter.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Dialect/Mpc/Transforms/ConstantTransforms.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include "llvm/ADT/MapVector.h"

namespace mpc {
#define GEN_PASS_DEF_MERGECONTRACTIONSPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

/// A matmul and the chain of elementwise ops that are its only users.
struct Branch {
  MatmulOp matmul;
  SmallVector<Operation *> chain;
  Value end() {
    return chain.empty() ? Value(matmul.getResult())
                         : chain.back()->getResult(0);
  }
};

/// Returns true if two ops differ only in their operands.
bool isSameOp(Operation *a, Operation *b) {
  return a->getName() == b->getName() &&
         a->getNumOperands() == b->getNumOperands() &&
         a->getPropertiesAsAttribute() == b->getPropertiesAsAttribute() &&
         getElementTypeOrSelf(a->getResult(0)) ==
             getElementTypeOrSelf(b->getResult(0));
}

/// Returns true if the operand has one value per column, so branches can
/// concatenate it.
bool isPerColumn(Value operand, Value result) {
  return !shapeOf(operand).empty() &&
         shapeOf(operand).back() == shapeOf(result).back() &&
         productOf(shapeOf(operand).drop_back()) == 1;
}

/// Returns true if `value` can be concatenated in this run: a constant, or a
/// parameter of a training step.
bool isWeight(Value value, bool parameters) {
  if (!parameters)
    return constantOf(value) != nullptr;
  auto argument = dyn_cast<BlockArgument>(value);
  auto function =
      argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp())
               : func::FuncOp();
  if (!function)
    return false;
  RoleAttr role = StepFunction(function).argumentRole(argument.getArgNumber());
  return role && role.getKind() == RoleKind::parameter;
}

/// Returns true if the next op of every branch is the same elementwise op with
/// concatenable operands.
bool canExtend(MutableArrayRef<Branch> branches, bool parameters) {
  Operation *first = nullptr;
  for (Branch &branch : branches) {
    Value value = branch.end();
    if (!value.hasOneUse())
      return false;
    Operation *user = *value.user_begin();
    if (!isa<ElementwiseOpInterface>(user) ||
        shapeOf(user->getResult(0)) != shapeOf(value) ||
        (first && !isSameOp(first, user)))
      return false;
    first = first ? first : user;
    for (auto [index, operand] : llvm::enumerate(user->getOperands())) {
      bool isChain = operand == value;
      if (isChain != (first->getOperand(index) == branches.front().end()))
        return false;
      if (isChain ||
          (isPerColumn(operand, value) && isWeight(operand, parameters)))
        continue;
      // A scalar must be equal in all branches.
      ElementsAttr constant = constantOf(operand);
      if (!constant || constant != constantOf(first->getOperand(index)) ||
          elementCount(operand) != 1)
        return false;
    }
  }
  return true;
}

/// Returns true if `value` is read only by ops that can read a slice for free.
/// `mayConvert` allows casts: the readers then convert.
bool onlyMoves(Value value, bool mayConvert) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    return isa<ReshapeOp, TransposeOp, SliceOp, AttentionOp>(user) ||
           (mayConvert && isa<CastOp>(user) &&
            onlyMoves(user->getResult(0), /*mayConvert=*/false));
  });
}

bool onlyMove(MutableArrayRef<Branch> branches) {
  return llvm::all_of(branches, [](Branch &branch) {
    return onlyMoves(branch.end(), /*mayConvert=*/true);
  });
}

/// Returns the constant bias add that is the only user of the branch; null if
/// none.
AddOp biasOf(Branch &branch) {
  Value value = branch.end();
  auto add = value.hasOneUse() ? dyn_cast<AddOp>(*value.user_begin()) : AddOp();
  if (!add || shapeOf(add) != shapeOf(value))
    return {};
  Value bias = add.getLhs() == value ? add.getRhs() : add.getLhs();
  return isPerColumn(bias, value) && constantOf(bias) ? add : AddOp();
}

/// Adds zero biases to branches without one if others have one, so that all can
/// be concatenated. Returns the added ops.
SmallVector<AddOp> addMissingBiases(MutableArrayRef<Branch> branches) {
  AddOp model;
  for (Branch &branch : branches)
    model = model ? model : biasOf(branch);
  SmallVector<AddOp> added;
  if (!model)
    return added;
  bool isFirst = !isa<mpc::ConstantOp>(model.getRhs().getDefiningOp());
  for (Branch &branch : branches) {
    Value value = branch.end();
    if (biasOf(branch) || value.use_empty())
      continue;
    OpBuilder builder(model.getContext());
    builder.setInsertionPointAfterValue(value);
    OpEmitter emit(builder, value.getDefiningOp());
    Type element = getElementTypeOrSelf(value);
    Value zeros = emit.splat({shapeOf(value).back()}, element, 0);
    auto add = cast<AddOp>(builder.clone(*model));
    add->setLoc(value.getLoc());
    add.getResult().setType(cast<RankedTensorType>(value.getType()));
    value.replaceAllUsesWith(add.getResult());
    add->setOperands(isFirst ? ValueRange{zeros, value}
                             : ValueRange{value, zeros});
    added.push_back(add);
  }
  return added;
}

/// Concatenates weights along `axis`; null if the data is unavailable.
Value joinWeights(OpEmitter &emit, ArrayRef<Value> weights, int64_t axis) {
  SmallVector<ElementsAttr> constants;
  for (Value weight : weights)
    if (ElementsAttr constant = constantOf(weight))
      constants.push_back(constant);
  if (constants.size() != weights.size())
    return emit.concat(weights, axis);
  FailureOr<ElementsAttr> joined = concatConstants(constants, axis);
  return succeeded(joined) ? emit.constant(*joined) : Value();
}

struct MergeContractionsPass
    : mpc::impl::MergeContractionsPassBase<MergeContractionsPass> {
  using Base::Base;

  void runOnOperation() override {
    for (Block &block : getOperation().getBody()) {
      using Key = std::tuple<Value, Attribute, Type, Type>;
      llvm::MapVector<Key, SmallVector<Branch>> groups;
      for (auto matmul : block.getOps<MatmulOp>())
        if (!matmul.getPacked() && isWeight(matmul.getRhs(), parameters) &&
            shapeOf(matmul.getRhs()).size() == 2)
          groups[{matmul.getLhs(), matmul->getPropertiesAsAttribute(),
                  getElementTypeOrSelf(matmul.getRhs()),
                  getElementTypeOrSelf(matmul.getResult())}]
              .push_back({matmul, {}});
      for (auto &[key, branches] : groups)
        if (branches.size() > 1)
          merge(branches);
    }
  }

private:
  void merge(MutableArrayRef<Branch> branches) {
    SmallVector<AddOp> biases;
    if (!parameters)
      biases = addMissingBiases(branches);
    while (canExtend(branches, parameters))
      for (Branch &branch : branches)
        branch.chain.push_back(*branch.end().user_begin());
    if (!onlyMove(branches)) {
      for (AddOp add : biases) {
        bool isFirst = isa<MatmulOp>(add.getLhs().getDefiningOp());
        add.getResult().replaceAllUsesWith(isFirst ? add.getLhs()
                                                   : add.getRhs());
        add.erase();
      }
      return;
    }

    MatmulOp first = branches.front().matmul;
    OpBuilder builder(first);
    OpEmitter emit(builder, first);
    SmallVector<Location> locations;
    for (Branch &branch : branches)
      locations.push_back(branch.matmul.getLoc());
    emit.loc = FusedLoc::get(&getContext(), locations);

    SmallVector<Value> weights;
    for (Branch &branch : branches)
      weights.push_back(branch.matmul.getRhs());
    Value weight = joinWeights(emit, weights, first.getTransposeRhs() ? 0 : 1);
    if (!weight)
      return;
    int64_t columns = shapeOf(weight)[first.getTransposeRhs() ? 0 : 1];
    SmallVector<Operation *> made;
    auto append = [&](Operation *model, ArrayRef<Value> operands, Value like) {
      Operation *copy = builder.clone(*model);
      copy->setOperands(operands);
      copy->setLoc(emit.loc);
      SmallVector<int64_t> shape(shapeOf(like));
      shape.back() = columns;
      copy->getResult(0).setType(RankedTensorType::get(
          shape, getElementTypeOrSelf(copy->getResult(0))));
      made.push_back(copy);
      return copy->getResult(0);
    };
    Value value = append(first, {first.getLhs(), weight}, first.getResult());
    SmallVector<MatmulOp> products;
    for (Branch &branch : branches)
      products.push_back(branch.matmul);
    setMergedAttributes(value.getDefiningOp<MatmulOp>(), products);
    for (size_t step = 0; step < branches.front().chain.size(); ++step) {
      Operation *model = branches.front().chain[step];
      locations.clear();
      for (Branch &branch : branches)
        locations.push_back(branch.chain[step]->getLoc());
      emit.loc = FusedLoc::get(&getContext(), locations);
      Value chained = step == 0
                          ? Value(first.getResult())
                          : branches.front().chain[step - 1]->getResult(0);
      SmallVector<Value> operands;
      for (auto [index, operand] : llvm::enumerate(model->getOperands())) {
        if (operand == chained) {
          operands.push_back(value);
        } else if (!isPerColumn(operand, chained)) {
          operands.push_back(emit.constant(constantOf(operand)));
        } else {
          SmallVector<Value> parts;
          for (Branch &branch : branches) {
            Value part = branch.chain[step]->getOperand(index);
            SmallVector<int64_t> flat = {shapeOf(part).back()};
            parts.push_back(emit.reshape(part, flat));
          }
          operands.push_back(joinWeights(emit, parts, 0));
        }
      }
      if (llvm::is_contained(operands, Value())) {
        for (Operation *op : llvm::reverse(made))
          op->erase();
        return;
      }
      value = append(model, operands, value);
    }
    StringAttr layer = commonLayer(products);
    for (Operation *op : ArrayRef<Operation *>(made).drop_front()) {
      op->removeDiscardableAttr(MpcDialect::kLayerAttr);
      if (layer)
        op->setDiscardableAttr(MpcDialect::kLayerAttr, layer);
    }

    int64_t begin = 0;
    for (Branch &branch : branches) {
      int64_t width = shapeOf(branch.end()).back();
      OpEmitter part(builder, branch.matmul);
      branch.end().replaceAllUsesWith(
          part.sliceAxis(value, shapeOf(value).size() - 1, begin, width));
      begin += width;
    }
    // Erase the first matmul last: it is the insertion point.
    for (Branch &branch : branches) {
      for (Operation *op : llvm::reverse(branch.chain))
        op->erase();
      branch.matmul.erase();
      ++numMerged;
    }
  }
};

} // namespace
