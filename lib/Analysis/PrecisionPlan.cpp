//===- PrecisionPlan.cpp - which type every value gets --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Picks the planners that the policy's algorithm asks for.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/PrecisionPlan.h"

#include "PlanBuilder.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/MpcOps.h"

using namespace mlir;
using namespace mpc;

FloatType mpc::toFloatType(PolicyType type, MLIRContext *context) {
  switch (type) {
  case PolicyType::Float32:
  case PolicyType::TensorFloat32:
  case PolicyType::BFloat16x2:
  case PolicyType::BFloat16x3:
    return Float32Type::get(context);
  case PolicyType::Float64:
    return Float64Type::get(context);
  case PolicyType::Float8E4M3FN:
    return Float8E4M3FNType::get(context);
  case PolicyType::Float8E5M2:
    return Float8E5M2Type::get(context);
  case PolicyType::Float16:
    return Float16Type::get(context);
  case PolicyType::BFloat16:
    return BFloat16Type::get(context);
  }
  return {};
}

bool mpc::isFloatTensor(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

FusionClass mpc::fusionClassOf(Operation *op) {
  auto fusible = dyn_cast<FusionOpInterface>(op);
  return fusible ? fusible.getFusionClass() : FusionClass::Opaque;
}

bool mpc::isPrecisionOperand(Operation *op, unsigned index) {
  auto precision = dyn_cast<PrecisionOpInterface>(op);
  return precision ? precision.isPrecisionOperand(index)
                   : isFloatTensor(op->getOperand(index));
}

bool mpc::isContraction(Operation *op) {
  return isa<ContractionOpInterface>(op) ||
         fusionClassOf(op) == FusionClass::Recurrent;
}

FloatType PrecisionPlan::getStorage(Value value) const {
  auto it = storage.find(value);
  return it == storage.end() ? wide : it->second;
}

const ValueReason &PrecisionPlan::getReason(Value value) const {
  static const ValueReason none;
  auto it = reasons.find(value);
  return it == reasons.end() ? none : it->second;
}

/// What a planner without a cut says of a value: its op's rule.
static ValueReason reasonByRule(const PlanBuilder &builder, Value value) {
  ValueReason reason;
  Operation *op = value.getDefiningOp();
  const OpPlan *plan = op ? builder.findPlan(op) : nullptr;
  reason.because = op;
  if (!op)
    reason.text = "the function's signature never changes";
  else if (!plan || plan->role == OpPlan::Role::Untouched)
    reason.text = "the policy does not reach its op";
  else
    reason.text = ("rule '" + llvm::Twine(plan->rule) + "' of policy '" +
                   builder.policy.getName() + "'" +
                   (plan->reason.empty() ? "" : "; ") + plan->reason)
                      .str();
  return reason;
}

/// Checks the kinds that the policy names against the dialect's ops.
static LogicalResult checkKinds(func::FuncOp func, const Policy &policy) {
  llvm::SmallVector<StringRef> known;
  for (RegisteredOperationName name :
       func.getContext()->getRegisteredOperations())
    if (name.getDialectNamespace() == MpcDialect::getDialectNamespace())
      known.push_back(name.stripDialect());
  auto check = [&](StringRef kind, const Twine &what) -> LogicalResult {
    if (llvm::is_contained(known, kind))
      return success();
    StringRef nearest;
    unsigned best = 3;
    for (StringRef candidate : known) {
      unsigned distance =
          kind.edit_distance(candidate, /*AllowReplacements=*/true, best);
      if (distance < best) {
        best = distance;
        nearest = candidate;
      }
    }
    InFlightDiagnostic diag = emitError(func.getLoc())
                              << what << " names the unknown op kind '" << kind
                              << "'";
    if (!nearest.empty())
      diag << "; did you mean '" << nearest << "'";
    return diag;
  };
  for (auto &[kind, cls] : policy.getClasses())
    if (failed(check(kind, "policy '" + policy.getName() + "'")))
      return failure();
  for (auto &[kind, op] : policy.getSystemKinds())
    if (failed(check(kind, "policy '" + policy.getName() + "'")))
      return failure();
  for (const PolicyOverride &override : policy.getOverrides())
    if (override.key == PolicyOverride::Key::Kind &&
        failed(check(override.pattern, "override '" + override.text + "'")))
      return failure();
  return success();
}

/// Whether `override` speaks of an op of `body`.
static bool fitsSomeOp(Block &body, const PolicyOverride &override) {
  return llvm::any_of(body, [&](Operation &op) {
    auto precision = dyn_cast<PrecisionOpInterface>(op);
    return precision && override.fits(precision.getPrecisionKind(),
                                      layerPath(&op), opNames(&op));
  });
}

FailureOr<PrecisionPlan> PrecisionPlan::create(func::FuncOp func,
                                               const Policy &policy,
                                               const FusionTarget &target,
                                               CastPlacement placement) {
  PrecisionPlan plan(Float32Type::get(func.getContext()));
  if (failed(checkKinds(func, policy)))
    return failure();
  auto note = [&](Value value) {
    if (getElementTypeOrSelf(value.getType()) == plan.wide)
      plan.eligible.insert(value);
  };
  Block &body = func.getBody().front();
  llvm::for_each(body.getArguments(), note);
  for (Operation &op : body)
    llvm::for_each(op.getResults(), note);

  PlanBuilder builder(plan, func, policy, target);
  LogicalResult planned = success();
  switch (policy.getAlgorithm()) {
  case PolicyAlgorithm::MinimumCut:
    planned = classifyByLists(builder);
    if (succeeded(planned)) {
      // What updates read weighs in the cut.
      settleTraining(builder);
      if (placement == CastPlacement::MinimumCut)
        placeByMinimumCut(builder);
      else
        placeByPropagation(builder);
    }
    break;
  case PolicyAlgorithm::TorchAutocast:
    planned = planTorchAutocast(builder);
    break;
  case PolicyAlgorithm::TensorFlowPainting:
    planned = planTensorFlowPainting(builder);
    break;
  case PolicyAlgorithm::KerasLayers:
    planned = planKerasLayers(builder);
    break;
  }
  if (failed(planned))
    return failure();
  if (policy.getAlgorithm() != PolicyAlgorithm::MinimumCut)
    settleTraining(builder);
  roundVariablesAndOutputs(builder);
  for (Value value : plan.eligible)
    if (!value.getDefiningOp<ConstantOp>() && !plan.reasons.contains(value))
      builder.setReason(value, reasonByRule(builder, value));
  // A policy file serves many models; what stands on the command line is meant
  // for this one. A kind may be absent from a model, a name is a mistake.
  for (const PolicyOverride &override : policy.getOverrides()) {
    if (override.source != PolicyOverride::Source::CommandLine ||
        fitsSomeOp(body, override))
      continue;
    if (override.key == PolicyOverride::Key::Kind) {
      emitWarning(func.getLoc())
          << "override '" << override.text << "' matches no op";
      continue;
    }
    return emitError(func.getLoc())
           << "override '" << override.text
           << "' matches no op; mpc explain lists the names "
              "and layers of a model";
  }
  return plan;
}
