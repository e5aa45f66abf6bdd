//===- PrecisionPlan.cpp - which type every value gets --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Three steps: classify ops by overrides and lists; find the values that must
// keep f32; give every other value the narrow type where that shrinks what
// reaches memory. Values inside a kernel stay f32, which costs nothing there.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/PrecisionPlan.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/MpcOps.h"

using namespace mlir;
using namespace mpc;

/// A value of fewer bytes than this (in f32) is never stored narrow for the
/// sake of memory alone: the bytes do not show, the lost bits do.
static constexpr int64_t kMinStoredBytes = 4096;

FloatType mpc::toFloatType(PolicyType type, MLIRContext *context) {
  switch (type) {
  case PolicyType::Float32:
    return Float32Type::get(context);
  case PolicyType::Float16:
    return Float16Type::get(context);
  case PolicyType::BFloat16:
    return BFloat16Type::get(context);
  }
  return {};
}

static bool isFloatTensor(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

static FusionClass fusionClass(Operation *op) {
  auto fusible = dyn_cast<FusionOpInterface>(op);
  return fusible ? fusible.getFusionClass() : FusionClass::Opaque;
}

static bool isPrecisionOperand(Operation *op, unsigned index) {
  auto precision = dyn_cast<PrecisionOpInterface>(op);
  return precision ? precision.isPrecisionOperand(index)
                   : isFloatTensor(op->getOperand(index));
}

//===----------------------------------------------------------------------===//
// Classification
//===----------------------------------------------------------------------===//

PrecisionPlan::PrecisionPlan(func::FuncOp func, const Policy &policy,
                             const FusionTarget &target)
    : func(func), policy(policy), target(target),
      wide(Float32Type::get(func.getContext())),
      store(toFloatType(policy.getStore(), func.getContext())) {}

/// Whether `op` multiplies its precision operands and sums the products.
static bool isContraction(Operation *op) {
  return isa<ContractionOpInterface>(op) ||
         fusionClass(op) == FusionClass::Recurrent;
}

LogicalResult PrecisionPlan::classify(Operation *op) {
  auto precision = dyn_cast<PrecisionOpInterface>(op);
  if (!precision)
    return success();
  OpPlan &plan = plans[op];
  SmallVector<StringRef> names = opNames(op);
  StringRef kind = precision.getPrecisionKind();
  llvm::Expected<const PolicyOverride *> found =
      policy.findOverride(kind, layerPath(op), names);
  if (!found)
    return op->emitError(llvm::toString(found.takeError()));
  const PolicyOverride *override = *found;
  if (override)
    usedOverrides.insert(override);

  // The model's own choice: types other than f32 and casts that stand in it.
  bool hasWide = false;
  Type foreign;
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isPrecisionOperand(op, operand.getOperandNumber()) ||
        !isFloatTensor(operand.get()))
      continue;
    if (eligible.contains(operand.get()))
      hasWide = true;
    else
      foreign = getElementTypeOrSelf(operand.get().getType());
  }
  for (Value result : op->getResults()) {
    if (!isFloatTensor(result))
      continue;
    if (eligible.contains(result))
      hasWide = true;
    else
      foreign = getElementTypeOrSelf(result.getType());
  }
  bool isCast = isa<CastOp>(op);
  bool isPin = isCast && cast<CastOp>(op).getPinned() && foreign && hasWide;
  if (isPin || foreign || !hasWide || isCast) {
    plan.rule = isPin ? "pin" : "untouched";
    plan.reason = isPin      ? "the cast stands in the model"
                  : foreign  ? "the model's own type"
                  : !hasWide ? "no f32 value"
                             : "converts from another type";
    bool aimed = override && override->key == PolicyOverride::Key::Name;
    if (aimed && foreign &&
        toFloatType(override->type, op->getContext()) != foreign) {
      InFlightDiagnostic diag =
          op->emitError() << "override '" << override->text
                          << "' contradicts the model, where '" << opName(op)
                          << "' "
                          << (isCast ? "casts to or from " : "computes in ")
                          << foreign
                          << "; drop the override or change the model";
      return diag;
    }
    return success();
  }

  plan.cls = policy.classOf(kind);
  plan.rule = stringify(plan.cls).str();
  PolicyType low = policy.getCompute();
  if (override) {
    plan.override = override;
    plan.rule = "override";
    plan.reason = override->text;
    low = override->type;
    plan.cls =
        low == PolicyType::Float32 ? PrecisionClass::High : PrecisionClass::Low;
  }
  FusionClass family = fusionClass(op);
  bool elementwise =
      family == FusionClass::Elementwise || family == FusionClass::Source;
  switch (plan.cls) {
  case PrecisionClass::Ban:
    return op->emitError() << "op kind '" << kind << "' is banned by policy '"
                           << policy.getName()
                           << "'; replace it or override it with --set op:"
                           << kind << "=float32";
  case PrecisionClass::Low: {
    FloatType type = toFloatType(low, op->getContext());
    plan.compute = type;
    plan.role =
        isContraction(op) ? OpPlan::Role::Multiply : OpPlan::Role::Compute;
    plan.result = type;
    if (plan.role == OpPlan::Role::Multiply)
      plan.result = type == wide
                        ? wide
                        : toFloatType(policy.getAccumulate(), op->getContext());
    return success();
  }
  case PrecisionClass::Clear:
  case PrecisionClass::Widest:
    // An elementwise op computes in f32 registers whatever it loads; an op that
    // moves elements has no registers of its own.
    plan.role = elementwise ? OpPlan::Role::Compute : OpPlan::Role::Move;
    break;
  case PrecisionClass::High:
  case PrecisionClass::HighResult:
  case PrecisionClass::Follow:
    plan.role = OpPlan::Role::Compute;
    break;
  }
  plan.compute = plan.result = wide;
  return success();
}

//===----------------------------------------------------------------------===//
// Storage
//===----------------------------------------------------------------------===//

void PrecisionPlan::markUnrounded() {
  for (Operation &op : llvm::reverse(func.getBody().front())) {
    auto it = plans.find(&op);
    OpPlan::Role role =
        it == plans.end() ? OpPlan::Role::Untouched : it->second.role;
    bool movesUnrounded = role == OpPlan::Role::Move &&
                          llvm::any_of(op.getResults(), [&](Value result) {
                            return unrounded.contains(result);
                          });
    for (OpOperand &operand : op.getOpOperands()) {
      if (!eligible.contains(operand.get()))
        continue;
      if (role == OpPlan::Role::Untouched || movesUnrounded ||
          !isPrecisionOperand(&op, operand.getOperandNumber()))
        unrounded.insert(operand.get());
    }
  }
}

void PrecisionPlan::collectDemand(
    Value value, Demand &demand,
    llvm::SmallPtrSetImpl<Operation *> &seen) const {
  SmallVector<Value> pending = {value};
  while (!pending.empty()) {
    Value current = pending.pop_back_val();
    for (OpOperand &use : current.getUses()) {
      Operation *user = use.getOwner();
      auto it = plans.find(user);
      if (it == plans.end() || it->second.role == OpPlan::Role::Untouched ||
          !isPrecisionOperand(user, use.getOperandNumber())) {
        demand.wide = true;
        continue;
      }
      const OpPlan &plan = it->second;
      if (plan.role == OpPlan::Role::Move) {
        if (seen.insert(user).second)
          for (Value result : user->getResults())
            if (eligible.contains(result))
              pending.push_back(result);
        continue;
      }
      if (plan.compute == wide)
        demand.wide = true;
      else
        demand.narrow.insert(plan.compute);
    }
  }
}

/// Whether row kernels alone read `value`: they subtract a mean or maximum,
/// which turns the rounding of a large sum into an error of small differences,
/// and what they make is stored narrow anyway.
static bool onlyNormsRead(Value value) {
  return llvm::all_of(value.getUsers(), [](Operation *user) {
    return fusionClass(user) == FusionClass::RowWise;
  });
}

void PrecisionPlan::assignStorage(Operation *op,
                                  const KernelPrediction &kernels) {
  auto it = plans.find(op);
  if (it == plans.end() || it->second.role == OpPlan::Role::Untouched)
    return;
  OpPlan &plan = it->second;
  for (Value result : op->getResults()) {
    if (!eligible.contains(result))
      continue;
    if (plan.role != OpPlan::Role::Move && plan.result != wide) {
      storage[result] = plan.result;
      continue;
    }
    if (unrounded.contains(result)) {
      if (plan.reason.empty() && store != wide)
        plan.reason = "a reader needs the unrounded value";
      continue;
    }
    Demand demand;
    llvm::SmallPtrSet<Operation *, 8> seen;
    collectDemand(result, demand, seen);
    if (demand.narrow.size() > 1)
      continue;
    FloatType narrow = demand.narrow.empty() ? store : demand.narrow.front();

    if (plan.role == OpPlan::Role::Move) {
      // Take the type that all inputs have; constants have any.
      std::optional<FloatType> common;
      bool agree = true;
      for (Value operand : op->getOperands()) {
        if (!eligible.contains(operand) || operand.getDefiningOp<ConstantOp>())
          continue;
        FloatType type = getStorage(operand);
        agree &= !common || *common == type;
        common = type;
      }
      // Constants alone: what the readers want, or what memory wants.
      bool tiny = demand.wide && byteCount(result.getType()) < kMinStoredBytes;
      FloatType type = !agree ? wide : common.value_or(tiny ? wide : narrow);
      if (type != wide)
        storage[result] = type;
      continue;
    }
    if (narrow == wide)
      continue;

    int64_t bytes = byteCount(result.getType());
    int64_t saved = bytes - elementCount(result) * (narrow.getWidth() / 8);
    // Every reader narrows: one cast at the producer serves them all.
    if (!demand.wide) {
      if (demand.narrow.empty())
        continue;
      storage[result] = narrow;
      plan.cost = saved;
      continue;
    }
    // A free value: narrow where it reaches memory and the cast rides along.
    bool sensitive = plan.cls == PrecisionClass::High &&
                     fusionClass(op) != FusionClass::RowWise;
    if (sensitive || plan.override || store == wide ||
        bytes < kMinStoredBytes || !absorbsResultCast(op, target) ||
        kernels.isInternal(result))
      continue;
    if (onlyNormsRead(result)) {
      if (plan.reason.empty())
        plan.reason = "only norms and softmax read it";
      continue;
    }
    storage[result] = narrow;
    plan.cost = saved;
    if (plan.reason.empty())
      plan.reason = "stored narrow between kernels";
  }
}

FloatType PrecisionPlan::getStorage(Value value) const {
  auto it = storage.find(value);
  return it == storage.end() ? wide : it->second;
}

//===----------------------------------------------------------------------===//
// Entry
//===----------------------------------------------------------------------===//

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
    InFlightDiagnostic diag = func.emitError()
                              << what << " names the unknown op kind '" << kind
                              << "'";
    if (!nearest.empty())
      diag << "; did you mean '" << nearest << "'";
    return diag;
  };
  for (auto &[kind, cls] : policy.getClasses())
    if (failed(check(kind, "policy '" + policy.getName() + "'")))
      return failure();
  for (const PolicyOverride &override : policy.getOverrides())
    if (override.key == PolicyOverride::Key::Kind &&
        failed(check(override.pattern, "override '" + override.text + "'")))
      return failure();
  return success();
}

FailureOr<PrecisionPlan> PrecisionPlan::create(func::FuncOp func,
                                               const Policy &policy,
                                               const FusionTarget &target) {
  PrecisionPlan plan(func, policy, target);
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

  for (Operation &op : body)
    if (failed(plan.classify(&op)))
      return failure();
  // A policy file serves many models; what stands on the command line is meant
  // for this one.
  for (const PolicyOverride &override : policy.getOverrides())
    if (override.source == PolicyOverride::Source::CommandLine &&
        !plan.usedOverrides.contains(&override))
      func.emitWarning() << "override '" << override.text << "' matches no op";

  plan.markUnrounded();
  KernelPrediction kernels(func);
  for (Operation &op : body)
    plan.assignStorage(&op, kernels);
  return plan;
}
