//===- AssignPrecision.cpp - carry out a precision policy -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Carries out an Analysis/PrecisionPlan: sets types, inserts casts, rounds
// constants, records decisions. Contract in: static f32 graph after Simplify.
// Contract out: see mpc-verify-stage, stage precision. What decides is in the
// plan.
//
//===----------------------------------------------------------------------===//

#include "NarrowConstant.h"

#include "mpc/Analysis/PrecisionPlan.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_ASSIGNPRECISIONPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

namespace {

/// Rewrites one function by a plan. Values keep their identity: a result that
/// changes type changes it in place, and every later reader asks for the type
/// it wants.
class PlanApplier {
public:
  PlanApplier(const PrecisionPlan &plan, const Policy &policy,
              MLIRContext *context)
      : plan(plan), policy(policy), builder(context),
        wide(Float32Type::get(context)) {}

  void apply(func::FuncOp func);

  int64_t casts = 0, constants = 0, narrowed = 0;

private:
  void applyTo(Operation *op);
  void record(Operation *op, const OpPlan &opPlan);
  /// The value in element type `type`, for a reader `user`.
  Value readAs(Value value, FloatType type, Operation *user);
  /// The one cast of `value` to `type` that all readers share.
  Value sharedCast(Value value, FloatType type);
  Value narrowConstant(ConstantOp op, FloatType type);
  Value makeCast(Location loc, Value value, FloatType type);

  const PrecisionPlan &plan;
  const Policy &policy;
  OpBuilder builder;
  FloatType wide;
  llvm::DenseMap<std::pair<Value, Type>, Value> shared;
};

} // namespace

static Type elementType(Value value) {
  return getElementTypeOrSelf(value.getType());
}

static RankedTensorType withElement(Value value, Type element) {
  return cast<RankedTensorType>(value.getType()).clone(element);
}

Value PlanApplier::makeCast(Location loc, Value value, FloatType type) {
  ++casts;
  return CastOp::create(builder, loc, withElement(value, type), value);
}

Value PlanApplier::sharedCast(Value value, FloatType type) {
  Value &result = shared[{value, type}];
  if (!result) {
    builder.setInsertionPointAfterValue(value);
    result = makeCast(value.getLoc(), value, type);
  }
  return result;
}

Value PlanApplier::narrowConstant(ConstantOp op, FloatType type) {
  Value &result = shared[{op.getResult(), type}];
  if (result)
    return result;
  std::optional<ElementsAttr> value = narrowConstantValue(op, type);
  builder.setInsertionPointAfter(op);
  if (!value) { // data that cannot be read: leave the rounding to run time
    result = makeCast(op.getLoc(), op.getResult(), type);
    return result;
  }
  ++constants;
  ConstantOp narrow = ConstantOp::create(builder, op.getLoc(), *value);
  narrow->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  result = narrow.getResult();
  return result;
}

Value PlanApplier::readAs(Value value, FloatType type, Operation *user) {
  if (!plan.isEligible(value))
    return value;
  if (auto constant = value.getDefiningOp<ConstantOp>())
    return type == wide ? value : narrowConstant(constant, type);
  FloatType storage = plan.getStorage(value);
  bool bornNarrow = elementType(value) != wide;
  Value stored =
      storage == wide || bornNarrow ? value : sharedCast(value, storage);
  if (elementType(stored) == type)
    return stored;
  if (storage == wide)
    return sharedCast(value, type);
  // A widening cast is the reader's own: it is absorbed by its kernel. So is a
  // cast between two narrow types, which only an override asks for.
  builder.setInsertionPoint(user);
  return makeCast(user->getLoc(), stored, type);
}

void PlanApplier::record(Operation *op, const OpPlan &opPlan) {
  MLIRContext *context = op->getContext();
  auto text = [&](StringRef value) {
    return value.empty() ? StringAttr() : StringAttr::get(context, value);
  };
  IntegerAttr cost;
  if (opPlan.cost)
    cost = builder.getI64IntegerAttr(opPlan.cost);
  op->setDiscardableAttr(
      MpcDialect::kDecisionAttr,
      DecisionAttr::get(context, text(opPlan.rule), text(policy.getName()),
                        text(opPlan.override ? opPlan.override->text : ""),
                        opPlan.override ? StringAttr() : text(opPlan.reason),
                        cost));
}

void PlanApplier::applyTo(Operation *op) {
  bool hasPlan = plan.hasPlan(op);
  const OpPlan *opPlan = hasPlan ? &plan.getPlan(op) : nullptr;
  OpPlan::Role role = hasPlan ? opPlan->role : OpPlan::Role::Untouched;
  auto precision = dyn_cast<PrecisionOpInterface>(op);

  // A move takes the type of its first eligible result, or where it has none
  // (argmax) of its input.
  FloatType moved = wide;
  if (role == OpPlan::Role::Move) {
    auto results = llvm::make_filter_range(op->getResults(), [&](Value result) {
      return plan.isEligible(result);
    });
    auto operands =
        llvm::make_filter_range(op->getOperands(), [&](Value operand) {
          return plan.isEligible(operand) &&
                 !operand.getDefiningOp<ConstantOp>();
        });
    if (!results.empty())
      moved = plan.getStorage(*results.begin());
    else if (!operands.empty())
      moved = plan.getStorage(*operands.begin());
  }

  // Two operands that read one value share the reader's cast.
  llvm::SmallDenseMap<std::pair<Value, Type>, Value> read;
  for (OpOperand &operand : op->getOpOperands()) {
    if (!plan.isEligible(operand.get()))
      continue;
    bool takesPart =
        precision && precision.isPrecisionOperand(operand.getOperandNumber());
    FloatType type = wide;
    if (takesPart && role == OpPlan::Role::Move)
      type = moved;
    else if (takesPart && role != OpPlan::Role::Untouched)
      type = opPlan->compute;
    Value &value = read[{operand.get(), type}];
    if (!value)
      value = readAs(operand.get(), type, op);
    operand.set(value);
  }

  FloatType resultType = wide;
  if (role == OpPlan::Role::Move)
    resultType = moved;
  else if (role != OpPlan::Role::Untouched)
    resultType = opPlan->result;
  if (resultType != wide)
    for (Value result : op->getResults())
      if (plan.isEligible(result))
        result.setType(withElement(result, resultType));
  if (role == OpPlan::Role::Multiply && opPlan->compute != wide)
    ++narrowed;
  if (hasPlan)
    record(op, *opPlan);
}

void PlanApplier::apply(func::FuncOp func) {
  Block &body = func.getBody().front();
  SmallVector<Operation *> ops;
  for (Operation &op : body)
    ops.push_back(&op);
  for (Operation *op : ops)
    applyTo(op);
  for (Operation *op : ops)
    if (isa<ConstantOp>(op) && op->use_empty())
      op->erase();
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {

struct AssignPrecisionPass
    : mpc::impl::AssignPrecisionPassBase<AssignPrecisionPass> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    llvm::Expected<Policy> loaded = Policy::load(policy);
    if (!loaded)
      return emitError(UnknownLoc::get(context),
                       llvm::toString(loaded.takeError()));
    for (const std::string &set : sets)
      if (llvm::Error error = loaded->addOverride(set))
        return emitError(UnknownLoc::get(context),
                         llvm::toString(std::move(error)));
    fusionTarget = FusionTarget::parse(target);
    if (!fusionTarget)
      return emitError(UnknownLoc::get(context))
             << "unknown target '" << target
             << "'; use cpu, cpu:avx2 or cpu:avx512";
    chosen = std::move(*loaded);
    return success();
  }

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (func.isDeclaration())
      return;
    if (!func.getBody().hasOneBlock()) {
      func.emitError() << "function '" << func.getName()
                       << "' has more than one block; precision is assigned to "
                          "straight-line "
                          "functions only";
      return signalPassFailure();
    }
    for (Operation &op : func.getBody().front()) {
      auto decision = op.getAttrOfType<DecisionAttr>(MpcDialect::kDecisionAttr);
      if (!decision)
        continue;
      if (decision.getList().getValue() == chosen.getName())
        return markAllAnalysesPreserved();
      op.emitError() << "already has a decision of policy '"
                     << decision.getList().getValue() << "'; policy '"
                     << chosen.getName()
                     << "' must be applied to the graph before Precision";
      return signalPassFailure();
    }
    FailureOr<PrecisionPlan> plan =
        PrecisionPlan::create(func, chosen, *fusionTarget);
    if (failed(plan))
      return signalPassFailure();
    PlanApplier applier(*plan, chosen, &getContext());
    applier.apply(func);
    numCasts += applier.casts;
    numConstants += applier.constants;
    numNarrowed += applier.narrowed;
  }

  Policy chosen;
  std::optional<FusionTarget> fusionTarget;
};

} // namespace
