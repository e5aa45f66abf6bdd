//===- LibraryTypes.cpp - types that a product library asks for -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// cuBLASLt adds a bias in the type of its result and sums the bias's gradient
// in that of the product beside it. Where products are the library's and that
// type has 16 bits, a bias is a parameter as its weight is: read in 16 bits,
// with its gradient in 16 bits. The sums of the product stay in f32 up to the
// last rounding, the bias is widened to them.
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include "mpc/Analysis/Fusion/FusionMovement.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

using namespace mlir;
using namespace mpc;

/// Whether lists decide, so that a rounding more is the compiler's choice:
/// presets that imitate a system round as that does.
static bool choosesTypes(const PlanBuilder &builder) {
  return builder.target.hasProductLibrary &&
         builder.policy.getAlgorithm() == PolicyAlgorithm::MinimumCut;
}

static bool isSixteenBits(FloatType type) {
  return type && type.getWidth() == 16;
}

/// Whether `value` is a parameter, or parameters side by side.
static bool holdsParameters(Value value) {
  if (auto concat = value.getDefiningOp<ConcatOp>())
    return llvm::all_of(concat.getInputs(), isParameter);
  return isParameter(value);
}

/// The 16-bit type of the operands of the product that `use` adds a row to;
/// null where it is no bias or the types are not the policy's choice.
static FloatType multipliedType(const PlanBuilder &builder, OpOperand &use) {
  auto add = dyn_cast<AddOp>(use.getOwner());
  if (!add)
    return {};
  Value row = use.get(), sums = add->getOperand(1 - use.getOperandNumber());
  auto product = behindReshapes(sums).getDefiningOp<MatmulOp>();
  const OpPlan *addPlan = builder.findPlan(add),
               *plan = product ? builder.findPlan(product) : nullptr;
  if (!plan || plan->role != OpPlan::Role::Multiply || !addPlan ||
      addPlan->role == OpPlan::Role::Untouched || addPlan->isForced())
    return {};
  ArrayRef<int64_t> shape = cast<RankedTensorType>(row.getType()).getShape(),
                    result = cast<RankedTensorType>(sums.getType()).getShape();
  bool isRow = !shape.empty() && shape.back() == result.back() &&
               elementCount(row) == shape.back();
  return isRow && isSixteenBits(plan->compute) ? plan->compute : FloatType();
}

/// The type in which the result of the product around `add` is stored, through
/// what the library has behind a bias.
static FloatType resultType(const PlanBuilder &builder, AddOp add) {
  Value value = add.getResult();
  while (!isSixteenBits(builder.getStorage(value)) && value.hasOneUse()) {
    Operation *user = *value.user_begin();
    auto gelu = dyn_cast<GeluOp>(user);
    if (!isa<ReluOp, AddOp, ReshapeOp>(user) &&
        !(gelu && gelu.getForm() == GeluForm::tanh))
      break;
    value = user->getResult(0);
  }
  return builder.getStorage(value);
}

FloatType mpc::libraryGradientType(const PlanBuilder &builder,
                                   Value parameter) {
  if (!choosesTypes(builder))
    return {};
  FloatType type;
  SmallVector<Value> pending = {parameter};
  while (!pending.empty())
    for (OpOperand &use : pending.pop_back_val().getUses()) {
      Operation *reader = use.getOwner();
      if (isa<OptimizerOpInterface>(reader))
        continue;
      if (auto concat = dyn_cast<ConcatOp>(reader)) {
        pending.push_back(concat.getResult());
        continue;
      }
      FloatType here = multipliedType(builder, use);
      if (!here || (type && here != type))
        return {};
      type = here;
    }
  return type;
}

void mpc::roundLibraryBiases(PlanBuilder &builder) {
  if (!choosesTypes(builder))
    return;
  for (auto add : builder.body().getOps<AddOp>())
    for (OpOperand &use : add->getOpOperands()) {
      if (!holdsParameters(use.get()) || !builder.isEligible(use.get()) ||
          !multipliedType(builder, use))
        continue;
      FloatType type = resultType(builder, add);
      if (isSixteenBits(type) && !builder.carriesIntegers(use.get()))
        builder.setRounding(add, use.getOperandNumber(), type);
    }
}
