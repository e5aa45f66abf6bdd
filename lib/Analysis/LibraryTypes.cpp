//===- LibraryTypes.cpp - bias types of library GEMMs ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// cuBLASLt adds a bias in the type of its result and sums the bias's gradient
// in the type of the weight's gradient. If the library computes GEMMs and that
// type has 16 bits, a bias is treated like its weight: read in 16 bits, with a
// 16-bit gradient. The GEMM accumulates in f32 up to the final rounding; the
// bias is widened and added before it.
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

using namespace mlir;
using namespace mpc;

/// Returns true if the compiler may add a rounding: presets that imitate a
/// framework round exactly as it does.
static bool choosesTypes(const PlanBuilder &builder) {
  return builder.target.hasProductLibrary &&
         builder.policy.getAlgorithm() == PolicyAlgorithm::MinimumCut;
}

static bool isSixteenBits(FloatType type) {
  return type && type.getWidth() == 16;
}

/// Returns true if `value` is a parameter, or a concat of parameters.
static bool holdsParameters(Value value) {
  if (auto concat = value.getDefiningOp<ConcatOp>())
    return llvm::all_of(concat.getInputs(), isParameter);
  return isParameter(value);
}

/// Returns the 16-bit operand type of the GEMM to which `use` adds a row; null
/// if it is no bias or the types are not the policy's choice.
static FloatType multipliedType(const PlanBuilder &builder, OpOperand &use) {
  auto add = dyn_cast<AddOp>(use.getOwner());
  if (!add)
    return {};
  Value row = use.get(), sums = add->getOperand(1 - use.getOperandNumber());
  auto product = sourceOfReshapes(sums).getDefiningOp<MatmulOp>();
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

/// Returns the storage type of the GEMM's result after `add`, through the
/// epilogues that the library supports after a bias.
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
