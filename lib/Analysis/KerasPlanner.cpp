//===- KerasPlanner.cpp - Keras dtype policies ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans a function as Keras' dtype policies do. The unit is the layer
// (mpc.layer), the type is its policy's compute type:
// - K1: a layer's policy is the matching entry of the policy's layer map, else
//   the policy itself. An op without a layer is a layer of its own.
// - K2: float operands that enter a layer are cast to its compute type and
//   every op of the layer computes in it. Integers are not touched.
// - K3: parameters are kept in the variable type and cast to the compute type
//   where they are read.
// - K4: a result keeps the compute type: a reader in another layer casts it,
//   and function results are widened to the signature's type.
// - K5: batch_norm and layer_norm round their input to the compute type,
//   compute in at least f32 with parameters of the variable type and round the
//   result. layer_norm with parameters in 16 bits computes in 16 bits.
// - K6: if a layer's autocast is off, operands are not cast; an op computes in
//   the widest type among them and its parameters.
// - K7: overrides and the model's own types precede any layer.
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"

using namespace mlir;
using namespace mpc;

/// Returns the wider of two float types; f32 if they differ in range only.
static FloatType widest(PlanBuilder &builder, FloatType a, FloatType b) {
  if (!a || a == b)
    return b;
  if (a.getWidth() == b.getWidth())
    return builder.wide;
  return a.getWidth() > b.getWidth() ? a : b;
}

/// K6: the common type of the operands of `op`, which are not cast.
static FloatType arrivingType(PlanBuilder &builder, Operation *op,
                              FloatType variable) {
  FloatType type;
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    if (!builder.isEligible(value) ||
        !isPrecisionOperand(op, operand.getOperandNumber()))
      continue;
    if (isParameter(value))
      type = widest(builder, type, variable);
    else if (!value.getDefiningOp<ConstantOp>())
      type = widest(builder, type, builder.getStorage(value));
  }
  return type ? type : builder.wide;
}

static bool upcasts(Operation *op, PolicyType variable) {
  return isa<BatchNormOp, BatchNormTrainingOp>(op) ||
         (isa<LayerNormOp>(op) && storageBits(variable) >= 32);
}

static void computeAs(PlanBuilder &builder, Operation *op, FloatType type) {
  OpPlan &plan = builder.planOf(op);
  plan.compute = plan.result = type;
  plan.role =
      isContraction(op) ? OpPlan::Role::Multiply : OpPlan::Role::Compute;
  if (plan.role == OpPlan::Role::Multiply && type.getWidth() < 32)
    plan.result = builder.wide;
}

/// K5: f32 between two roundings.
static void computeBetweenRoundings(PlanBuilder &builder, Operation *op,
                                    FloatType type) {
  computeAs(builder, op, builder.wide);
  for (OpOperand &operand : op->getOpOperands())
    if (builder.isEligible(operand.get()) && !isParameter(operand.get()))
      builder.setRounding(op, operand.getOperandNumber(), type);
}

static LogicalResult planOp(PlanBuilder &builder, Operation *op) {
  FailureOr<bool> fixed = planFixed(builder, op);
  if (failed(fixed))
    return failure();
  OpPlan &plan = builder.planOf(op);
  FloatType stored = plan.override ? plan.compute : FloatType();
  if (!*fixed) {
    FailureOr<const Policy *> found = layerPolicyOf(builder, op);
    if (failed(found))
      return failure();
    const Policy &policy = **found;
    plan.cls = PrecisionClass::Low;
    plan.rule = "layer";
    plan.reason = ("layer '" + layerPath(op) + "' computes in " +
                   stringify(policy.getCompute()))
                      .str();
    if (layerPath(op).empty())
      plan.reason =
          ("a layer by itself, in " + stringify(policy.getCompute())).str();
    FloatType type = toFloatType(policy.getCompute(), builder.context());
    FloatType variable = toFloatType(policy.getVariable(), builder.context());
    stored = type;
    if (upcasts(op, policy.getVariable()) && type.getWidth() < 32) {
      computeBetweenRoundings(builder, op, type);
    } else if (!policy.getAutocast()) {
      stored = arrivingType(builder, op, variable);
      plan.reason += ", autocast is off";
      computeAs(builder, op, stored);
    } else {
      computeAs(builder, op, type);
      // Bias and states of a recurrent op enter the layer as well.
      if (fusionClassOf(op) == FusionClass::Recurrent && type.getWidth() < 32)
        for (OpOperand &operand : op->getOpOperands())
          if (builder.isEligible(operand.get()) &&
              !isPrecisionOperand(op, operand.getOperandNumber()))
            builder.setRounding(op, operand.getOperandNumber(), type);
    }
  }
  // K4
  if (stored && stored != builder.wide)
    for (Value result : op->getResults())
      if (builder.isEligible(result))
        builder.setStorage(result, stored);
  return success();
}

LogicalResult mpc::planKerasLayers(PlanBuilder &builder) {
  for (Operation &op : builder.body())
    if (isa<PrecisionOpInterface>(op) && failed(planOp(builder, &op)))
      return failure();
  return success();
}
