//===- ForcedTypes.cpp - types fixed by the model or the user -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types fixed by the model's own types and the user's overrides, and
// diagnostics for forced types that cannot be honored. Every planner checks
// these first.
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include "mpc/Analysis/BackwardOps.h"
#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Support/StepNames.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mpc;

FailureOr<const PolicyOverride *> PlanBuilder::findOverride(Operation *op) {
  StringRef kind = cast<PrecisionOpInterface>(op).getPrecisionKind();
  StringRef layer = layerPath(op);
  SmallVector<StringRef> names = opNames(op);
  bool isBackward = this->isBackward(op);
  for (const PolicyOverride &override : policy.getOverrides())
    useOf(override).matched += override.fits(kind, layer, names, isBackward);
  llvm::Expected<const PolicyOverride *> found =
      policy.findOverride(kind, layer, names, isBackward);
  if (!found) {
    op->emitError(llvm::toString(found.takeError()));
    return failure();
  }
  return *found;
}

const PolicyOverride *PlanBuilder::findInputs(Operation *op) const {
  return policy.findInputs(cast<PrecisionOpInterface>(op).getPrecisionKind(),
                           layerPath(op), opNames(op), isBackward(op));
}

bool PlanBuilder::isBackward(Operation *op) const {
  // Computed on demand: few policies need it.
  if (!backward)
    backward = policy.hasBackwardEntries() ? findBackward(func)
                                           : llvm::DenseSet<Operation *>();
  return backward->contains(op);
}

//===----------------------------------------------------------------------===//
// The model's own types
//===----------------------------------------------------------------------===//

namespace {
/// Float types among an op's operands and results.
struct FloatValues {
  bool hasWide = false;
  /// A float type that is not f32; null where there is none.
  Type foreign;
};
} // namespace

static FloatValues floatValuesOf(const PlanBuilder &builder, Operation *op) {
  FloatValues found;
  auto note = [&](Value value) {
    if (!isFloatTensor(value))
      return;
    if (builder.isEligible(value))
      found.hasWide = true;
    else
      found.foreign = getElementTypeOrSelf(value.getType());
  };
  for (OpOperand &operand : op->getOpOperands())
    if (isPrecisionOperand(op, operand.getOperandNumber()))
      note(operand.get());
  llvm::for_each(op->getResults(), note);
  return found;
}

/// Checks the override of `op`, whose types the model fixes, for agreement. An
/// override by kind or layer skips ops without a type to set; one by name
/// applies to its op.
static LogicalResult checkAgainstModel(PlanBuilder &builder, Operation *op,
                                       const PolicyOverride &override,
                                       const FloatValues &values) {
  std::string name = opName(op).str();
  FloatType asked = toFloatType(override.type, op->getContext());
  bool isCast = isa<CastOp>(op);
  bool isByName = override.key == PolicyOverride::Key::Name;
  OverrideUse &use = builder.useOf(override);
  if (!isByName && (isCast || !values.foreign)) {
    ++use.idle;
    return success();
  }
  if (values.foreign && asked == values.foreign &&
      !isComputeMode(override.type)) {
    ++use.obeyed;
    return success();
  }
  if (values.foreign) {
    std::string type;
    llvm::raw_string_ostream(type) << values.foreign;
    return builder.refuse(
        op, override,
        "contradicts the model, where '" + name + "' " +
            (isCast ? "casts to or from '" : "computes in '") + type +
            "'; drop the override or change the model");
  }
  if (override.type == PolicyType::Float32) {
    ++use.obeyed;
    return success();
  }
  std::string forces =
      ("forces " + stringify(override.type) + " on '" + name + "', ").str();
  if (!values.hasWide)
    return builder.refuse(op, override,
                          forces + "which has no float32 value; drop it");
  return builder.refuse(op, override,
                        forces + "a cast of the model, whose types are fixed; "
                                 "override the ops that read it");
}

FailureOr<bool> PlanBuilder::keepModelTypes(Operation *op,
                                            const PolicyOverride *override) {
  FloatValues values = floatValuesOf(*this, op);
  bool isCast = isa<CastOp>(op);
  if (!values.foreign && values.hasWide && !isCast)
    return false;
  OpPlan &plan = planOf(op);
  bool isPin = isCast && cast<CastOp>(op).getPinned() && values.foreign &&
               values.hasWide;
  plan.rule = isPin ? "pin" : "untouched";
  plan.reason = isPin             ? "a cast of the model"
                : values.foreign  ? "the model's own type"
                : !values.hasWide ? "no f32 value"
                                  : "converts from another type";
  if (override && failed(checkAgainstModel(*this, op, *override, values)))
    return failure();
  return true;
}

//===----------------------------------------------------------------------===//
// Forced types
//===----------------------------------------------------------------------===//

bool mpc::hasComputeMode(Operation *op) {
  return isa<ContractionOpInterface>(op);
}

static ComputeMode toComputeMode(PolicyType type) {
  switch (type) {
  case PolicyType::TensorFloat32:
    return ComputeMode::tf32;
  case PolicyType::BFloat16x2:
    return ComputeMode::bf16x2;
  case PolicyType::BFloat16x3:
    return ComputeMode::bf16x3;
  default:
    return ComputeMode::native;
  }
}

LogicalResult mpc::checkComputeType(PlanBuilder &builder, Operation *op,
                                    PolicyType type, const Twine &source,
                                    bool aimed) {
  StringRef name = opName(op);
  StringRef kind = cast<PrecisionOpInterface>(op).getPrecisionKind();
  if (isFloat8(type))
    return op->emitError() << source << " forces " << stringify(type) << " on '"
                           << name << "', but " << kind
                           << " has no kernel in 8 bits yet; use float16 or "
                              "bfloat16";
  if (!isComputeMode(type))
    return success();
  // An override by layer or policy applies to contractions only.
  if (!hasComputeMode(op)) {
    if (!aimed)
      return success();
    return op->emitError() << source << " forces " << stringify(type) << " on '"
                           << name << "', but " << kind
                           << " has no compute mode; tf32, bf16x2 and bf16x3 "
                              "are for contractions";
  }
  int64_t fewest = builder.target.minBFloat16SplitValues;
  int64_t terms = type == PolicyType::BFloat16x3 ? 3 : 2;
  bool isPermitted =
      type == PolicyType::TensorFloat32 || (fewest && terms >= fewest);
  if (!isPermitted && !builder.target.splitsIntoBFloat16)
    return op->emitError() << source << " forces " << stringify(type) << " on '"
                           << name
                           << "', but the target has no kernel for it "
                              "yet; use tf32 or float32";
  return success();
}

void mpc::computeIn(PlanBuilder &builder, Operation *op, PolicyType type,
                    PolicyType accumulate) {
  OpPlan &plan = builder.planOf(op);
  FloatType compute = toFloatType(type, builder.context());
  plan.role =
      isContraction(op) ? OpPlan::Role::Multiply : OpPlan::Role::Compute;
  plan.compute = plan.result = compute;
  if (plan.role == OpPlan::Role::Multiply && storageBits(type) < 32)
    // The accumulator type of another compute type does not apply.
    plan.result = accumulate == type ? compute : builder.wide;
  if (isComputeMode(type) && hasComputeMode(op))
    plan.mode = toComputeMode(type);
}

LogicalResult mpc::checkSum(PlanBuilder &builder, Operation *op,
                            PolicyType type) {
  if (!isContraction(op) || storageBits(type) >= 32 ||
      builder.policy.getAccumulate() != type ||
      builder.target.accumulatesNarrow)
    return success();
  StringRef kind = cast<PrecisionOpInterface>(op).getPrecisionKind();
  return op->emitError()
         << "policy '" << builder.policy.getName() << "' accumulates in "
         << stringify(type) << ", but the target's " << kind
         << " accumulates in float32; set accumulate to float32";
}

/// Compute mode that the model itself specifies for `op`, as a policy type.
static std::optional<PolicyType> modeOfModel(Operation *op) {
  auto contraction = dyn_cast<ContractionOpInterface>(op);
  if (!contraction)
    return std::nullopt;
  switch (contraction.getComputeMode()) {
  case ComputeMode::native:
    return std::nullopt;
  case ComputeMode::tf32:
    return PolicyType::TensorFloat32;
  case ComputeMode::bf16x2:
    return PolicyType::BFloat16x2;
  case ComputeMode::bf16x3:
    return PolicyType::BFloat16x3;
  }
  llvm_unreachable("a compute mode without a type");
}

/// Keeps the compute mode of the model, whatever the lists say; an override has
/// to agree with it.
static LogicalResult planPinnedMode(PlanBuilder &builder, Operation *op,
                                    PolicyType mode,
                                    const PolicyOverride *override) {
  if (override && override->type == mode)
    ++builder.useOf(*override).obeyed;
  else if (override && failed(builder.refuse(
                           op, *override,
                           "contradicts the model, where '" + opName(op) +
                               "' computes in '" + stringify(mode) +
                               "'; drop the override or change the model")))
    return failure();
  if (failed(checkComputeType(builder, op, mode, "the model", /*aimed=*/true)))
    return failure();
  OpPlan &plan = builder.planOf(op);
  plan.pinned = true;
  plan.rule = "pin";
  plan.reason = ("the model computes it in " + stringify(mode)).str();
  plan.cls = PrecisionClass::Low;
  computeIn(builder, op, mode, builder.policy.getAccumulate());
  return success();
}

/// Keeps the operands of `op` in f32 if an override says so, and leaves the
/// result's type to its readers. Returns true if such an override decides.
static FailureOr<bool> protectInputs(PlanBuilder &builder, Operation *op,
                                     const PolicyOverride *override) {
  const PolicyOverride *inputs = builder.findInputs(op);
  if (!inputs)
    return false;
  if (override && storageBits(override->type) < 32) {
    if (failed(builder.refuse(
            op, *inputs,
            "keeps the inputs of '" + opName(op) +
                "' in float32, but override '" + override->text + "' forces " +
                stringify(override->type) + " on it; drop one of them")))
      return failure();
    return false;
  }
  ++builder.useOf(*inputs).obeyed;
  if (override)
    return false;
  OpPlan &plan = builder.planOf(op);
  plan.rule = "override";
  plan.reason = inputs->text;
  plan.cls = PrecisionClass::Widest;
  plan.unrounded = OpPlan::Unrounded::All;
  computeIn(builder, op, PolicyType::Float32, PolicyType::Float32);
  return true;
}

FailureOr<bool> mpc::planFixed(PlanBuilder &builder, Operation *op) {
  FailureOr<const PolicyOverride *> found = builder.findOverride(op);
  if (failed(found))
    return failure();
  const PolicyOverride *override = *found;
  FailureOr<bool> kept = builder.keepModelTypes(op, override);
  if (failed(kept))
    return kept;
  if (*kept) {
    if (const PolicyOverride *inputs = builder.findInputs(op))
      ++builder.useOf(*inputs).idle;
    return kept;
  }
  if (std::optional<PolicyType> mode = modeOfModel(op)) {
    if (failed(planPinnedMode(builder, op, *mode, override)))
      return failure();
    return true;
  }
  FailureOr<bool> isProtected = protectInputs(builder, op, override);
  if (failed(isProtected) || *isProtected)
    return isProtected;
  if (!override)
    return false;
  StringRef type = stringify(override->type);
  if (isBookkeepingOp(op) &&
      toFloatType(override->type, builder.context()) != builder.wide) {
    if (failed(builder.refuse(op, *override,
                              "forces " + type + " on '" + opName(op) +
                                  "', which does the bookkeeping of a training "
                                  "step in float32; drop it")))
      return failure();
    return false;
  }
  bool aimed = override->key != PolicyOverride::Key::Layer;
  if (failed(checkComputeType(builder, op, override->type,
                              "override '" + override->text + "'", aimed)) ||
      failed(checkSum(builder, op, override->type)))
    return failure();
  OpPlan &plan = builder.planOf(op);
  ++builder.useOf(*override).obeyed;
  plan.override = override;
  plan.rule = "override";
  plan.reason = override->text;
  plan.cls = toFloatType(override->type, builder.context()) == builder.wide &&
                     !isComputeMode(override->type)
                 ? PrecisionClass::High
                 : PrecisionClass::Low;
  computeIn(builder, op, override->type, builder.policy.getAccumulate());
  return true;
}

//===----------------------------------------------------------------------===//
// Variables and outputs
//===----------------------------------------------------------------------===//

bool mpc::isParameter(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto func = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
    RoleAttr role =
        func ? StepFunction(func).argumentRole(argument.getArgNumber())
             : RoleAttr();
    return role && (role.getKind() == RoleKind::parameter ||
                    role.getKind() == RoleKind::statistics);
  }
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant && elementCount(value) > 1 &&
         cast<RankedTensorType>(value.getType()).getRank() > 0;
}

FailureOr<const Policy *> mpc::layerPolicyOf(PlanBuilder &builder,
                                             Operation *op) {
  StringRef layer = layerPath(op);
  if (layer.empty())
    return &builder.policy;
  llvm::Expected<const Policy *> policy = builder.policy.policyOfLayer(layer);
  if (!policy)
    return op->emitError(llvm::toString(policy.takeError()));
  return *policy;
}

/// Losses, gradients and new states are no outputs of the model.
static bool isModelOutput(const StepFunction &step, unsigned result) {
  RoleAttr role = step.resultRole(result);
  return !role || (role.getKind() == RoleKind::output &&
                   !step.resultName(result).ends_with(kGradientSuffix));
}

void mpc::roundVariablesAndModelOutputs(PlanBuilder &builder) {
  StepFunction step(builder.func);
  FloatType output = toFloatType(builder.policy.getOutput(), builder.context());
  auto holdsIntegers = [&](Value value) {
    return builder.carriesIntegers(value) || isIntegerTable(value);
  };
  for (Operation &op : builder.body()) {
    bool isReturn = isa<func::ReturnOp>(op);
    // The planner has already reported ambiguous layers.
    FailureOr<const Policy *> policy = layerPolicyOf(builder, &op);
    if (failed(policy))
      return;
    FloatType variable =
        toFloatType((*policy)->getVariable(), builder.context());
    for (OpOperand &operand : op.getOpOperands()) {
      Value value = operand.get();
      if (!builder.isEligible(value))
        continue;
      // Updates read and return master weights.
      bool keepsMaster = isa<BlockArgument>(value) &&
                         isa<OptimizerOpInterface, func::ReturnOp>(op);
      FloatType type;
      if (variable.getWidth() < 32 && isParameter(value) && !keepsMaster)
        type = variable;
      else if (isReturn && output.getWidth() < 32 &&
               isModelOutput(step, operand.getOperandNumber()))
        type = output;
      if (type && !holdsIntegers(value))
        builder.setRounding(&op, operand.getOperandNumber(), type);
    }
  }
}
