//===- Why.cpp - explains the type of a value -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types under a plan, names, and plans of modified policies.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Why.h"

#include "PlanBuilder.h"
#include "WhyBuilder.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Runtime/Suggestions.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Types under a plan
//===----------------------------------------------------------------------===//

OpPlan::Role mpc::roleOf(const PrecisionPlan &plan, Operation *op) {
  return plan.hasPlan(op) ? plan.getPlan(op).role : OpPlan::Role::Untouched;
}

FloatType mpc::movedType(const PrecisionPlan &plan, Operation *op) {
  for (Value result : op->getResults())
    if (plan.isEligible(result))
      return plan.getStorage(result);
  for (Value operand : op->getOperands())
    if (plan.isEligible(operand) && !operand.getDefiningOp<ConstantOp>())
      return plan.getStorage(operand);
  return Float32Type::get(op->getContext());
}

FloatType mpc::typeOfRead(const PrecisionPlan &plan, OpOperand &use) {
  Operation *reader = use.getOwner();
  OpPlan::Role role = roleOf(plan, reader);
  if (role == OpPlan::Role::Untouched ||
      !isPrecisionOperand(reader, use.getOperandNumber()))
    return Float32Type::get(reader->getContext());
  if (FloatType rounding = plan.getRounding(reader, use.getOperandNumber()))
    return rounding;
  return role == OpPlan::Role::Move ? movedType(plan, reader)
                                    : plan.getPlan(reader).compute;
}

Type mpc::storedType(const PrecisionPlan &plan, Value value) {
  Type element = getElementTypeOrSelf(value.getType());
  if (!plan.isEligible(value))
    return element;
  FloatType storage = plan.getStorage(value);
  if (storage != element || value.use_empty())
    return storage;
  FloatType common;
  for (OpOperand &use : value.getUses()) {
    FloatType type = typeOfRead(plan, use);
    if (common && common != type)
      return storage;
    common = type;
  }
  return common;
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

static StringRef nameAttribute(DictionaryAttr attributes) {
  auto name = attributes ? attributes.getAs<StringAttr>(MpcDialect::kNameAttr)
                         : StringAttr();
  return name ? name.getValue() : StringRef();
}

/// Calls `visit` with every name of the function and its value.
static void forEachName(func::FuncOp func,
                        llvm::function_ref<void(StringRef, Value)> visit) {
  Block &body = func.getBody().front();
  for (BlockArgument argument : body.getArguments())
    visit(nameAttribute(func.getArgAttrDict(argument.getArgNumber())),
          argument);
  for (auto [index, value] :
       llvm::enumerate(body.getTerminator()->getOperands()))
    visit(nameAttribute(func.getResultAttrDict(index)), value);
  for (Operation &op : body)
    if (op.getNumResults() > 0)
      for (StringRef name : opNames(&op))
        visit(name, op.getResult(0));
}

Value WhyAnalysis::find(StringRef name) const {
  Value found;
  // An op's displayed name takes precedence over its other names.
  bool isFirst = false;
  forEachName(func, [&](StringRef candidate, Value value) {
    if (candidate != name)
      return;
    Operation *op = value.getDefiningOp();
    bool first = !op || opName(op) == name;
    if (!found || first || !isFirst) {
      found = value;
      isFirst = first;
    }
  });
  return found;
}

std::vector<std::string> WhyAnalysis::nearestNames(StringRef name) const {
  SmallVector<StringRef> known;
  forEachName(func,
              [&](StringRef candidate, Value) { known.push_back(candidate); });
  return mpc::nearestNames(name, known);
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

FailureOr<PrecisionPlan>
WhyAnalysis::planWith(ArrayRef<std::string> overrides) const {
  Policy changed = policy;
  for (const std::string &override : overrides)
    if (llvm::Error error = changed.addOverride(override)) {
      func->emitError(llvm::toString(std::move(error)));
      return failure();
    }
  return PrecisionPlan::create(func, changed, target, placement);
}

FailureOr<WhyAccount> WhyAnalysis::explain(Value value) const {
  Policy chosen = policy;
  for (const std::string &override : sets)
    if (llvm::Error error = chosen.addOverride(override)) {
      func->emitError(llvm::toString(std::move(error)));
      return failure();
    }
  // The plan's labels point into `chosen`.
  FailureOr<PrecisionPlan> plan =
      PrecisionPlan::create(func, chosen, target, placement);
  if (failed(plan))
    return failure();
  return WhyBuilder(*this, *plan, value).build();
}
