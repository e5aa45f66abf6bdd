//===- ClassifyByLists.cpp - op types from policy lists -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Assigns each op the type that follows from overrides, the model's own types
// and the policy's lists (class low, high, ...).
//
//===----------------------------------------------------------------------===//

#include "MeasuredRanges.h"
#include "PlanBuilder.h"

#include "mpc/Analysis/OpNames.h"

using namespace mlir;
using namespace mpc;

/// Returns true if `op` reads or computes an f32 value that carries integers.
static bool carriesIntegers(const PlanBuilder &builder, Operation *op) {
  auto carries = [&](Value value) {
    return builder.isEligible(value) && builder.carriesIntegers(value);
  };
  return llvm::any_of(op->getOperands(), carries) ||
         llvm::any_of(op->getResults(), carries);
}

/// Plans f32 for an op that no list and no layer may narrow.
static void assignWide(PlanBuilder &builder, Operation *op, StringRef reason) {
  OpPlan &plan = builder.planOf(op);
  plan.role = OpPlan::Role::Compute;
  plan.compute = plan.result = builder.wide;
  plan.cls = PrecisionClass::High;
  plan.override = nullptr;
  plan.rule = "high";
  plan.reason = reason.str();
}

static void keepIntegers(PlanBuilder &builder, Operation *op) {
  assignWide(builder, op, "holds integers that 16 bits would round");
}

static LogicalResult classify(PlanBuilder &builder, Operation *op) {
  auto precision = dyn_cast<PrecisionOpInterface>(op);
  if (!precision)
    return success();
  FailureOr<bool> fixed = planFixed(builder, op);
  if (failed(fixed))
    return failure();
  OpPlan &plan = builder.planOf(op);
  if (*fixed) {
    if (plan.pinned ||
        (plan.override && storageBits(plan.override->type) >= 32)) {
      // An op forced to f32 also reads unrounded f32.
      plan.unrounded = OpPlan::Unrounded::All;
      return success();
    }
    if (!plan.override)
      return success();
    const PolicyOverride &override = *plan.override;
    if (std::string overflow =
            samplesOverflow(builder.policy, op, plan.compute);
        !overflow.empty()) {
      --builder.useOf(override).obeyed;
      assignWide(builder, op, overflow);
      return builder.refuse(op, override,
                            "forces " + stringify(override.type) + " on '" +
                                opName(op) + "', but " + overflow +
                                "; drop it, or force bfloat16");
    }
    if (!carriesIntegers(builder, op))
      return success();
    --builder.useOf(override).obeyed;
    keepIntegers(builder, op);
    return builder.refuse(op, override,
                          "forces " + stringify(override.type) + " on '" +
                              opName(op) +
                              "', whose values are integers that 16 bits would "
                              "round; drop it");
  }
  FailureOr<const Policy *> found = layerPolicyOf(builder, op);
  if (failed(found))
    return failure();
  const Policy &policy = **found;
  StringRef kind = precision.getPrecisionKind();
  plan.cls = policy.classOf(kind);
  plan.rule = stringify(plan.cls).str();
  if (&policy != &builder.policy)
    plan.reason =
        ("layer '" + layerPath(op) + "' has policy '" + policy.getName() + "'")
            .str();
  FusionClass family = fusionClassOf(op);
  bool computes = family == FusionClass::Elementwise ||
                  family == FusionClass::Source ||
                  isa<OrderDependentOpInterface>(op);
  bool usesLow = plan.cls == PrecisionClass::Low;
  std::optional<PolicyType> chosen =
      builder.policy.productOf(opNames(op), builder.isBackward(op));
  PolicyType type = chosen.value_or(policy.getCompute());
  if (usesLow && storageBits(type) < 32 && carriesIntegers(builder, op)) {
    keepIntegers(builder, op);
    return success();
  }
  // A layer with an f32 policy reads f32, like an op with an override.
  if (&policy != &builder.policy && storageBits(policy.getCompute()) >= 32)
    plan.unrounded = OpPlan::Unrounded::All;
  switch (plan.cls) {
  case PrecisionClass::Ban:
    return op->emitError() << "op kind '" << kind << "' is banned by policy '"
                           << policy.getName()
                           << "'; replace it or override it with --set op:"
                           << kind << "=float32";
  case PrecisionClass::Low: {
    if (chosen)
      plan.reason = "the policy sets the type of this op by name";
    if (failed(checkComputeType(builder, op, type,
                                "policy '" + policy.getName() + "'",
                                /*aimed=*/false)) ||
        failed(checkSum(builder, op, type)))
      return failure();
    if (std::string overflow = samplesOverflow(
            builder.policy, op, toFloatType(type, builder.context()));
        !overflow.empty()) {
      assignWide(builder, op, overflow);
      return success();
    }
    computeIn(builder, op, type, builder.policy.getAccumulate());
    return success();
  }
  case PrecisionClass::Clear:
  case PrecisionClass::Widest:
    // An elementwise op computes in f32 registers whatever it loads; an op that
    // moves elements has no registers of its own.
    plan.role = computes ? OpPlan::Role::Compute : OpPlan::Role::Move;
    break;
  case PrecisionClass::High:
  case PrecisionClass::HighResult:
  case PrecisionClass::Follow:
    plan.role = OpPlan::Role::Compute;
    break;
  }
  plan.compute = plan.result = builder.wide;
  if (isa<OrderDependentOpInterface>(op) &&
      plan.unrounded == OpPlan::Unrounded::None)
    plan.unrounded = OpPlan::Unrounded::Ordered;
  return success();
}

LogicalResult mpc::classifyByLists(PlanBuilder &builder) {
  int64_t permitted = 0, twoTerms = 0, threeTerms = 0;
  for (Operation &op : builder.body()) {
    if (failed(classify(builder, &op)))
      return failure();
    const OpPlan *plan = builder.findPlan(&op);
    permitted += plan && plan->mode == ComputeMode::tf32;
    twoTerms += plan && plan->mode == ComputeMode::bf16x2;
    threeTerms += plan && plan->mode == ComputeMode::bf16x3;
  }
  if (permitted && !builder.target.roundsToTensorFloat32)
    emitRemark(builder.func.getLoc())
        << "tf32 is permitted in " << permitted
        << " contractions, which this target computes in float32";
  for (auto [mode, terms] : {std::pair(ComputeMode::bf16x2, twoTerms),
                             std::pair(ComputeMode::bf16x3, threeTerms)})
    if (terms && !builder.target.splitsIntoBFloat16)
      emitRemark(builder.func.getLoc())
          << stringifyComputeMode(mode) << " is permitted in " << terms
          << " contractions, which kernels of this target compute in float32";
  return success();
}
