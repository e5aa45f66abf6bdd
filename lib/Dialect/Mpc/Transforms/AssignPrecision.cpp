//===- AssignPrecision.cpp - apply a precision policy ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Applies an Analysis/PrecisionPlan: sets types, inserts casts, rounds
// constants and records the decisions; the plan makes them. Contract in: static
// f32 graph after Simplify. Contract out: see mpc-verify-stage, stage
// precision.
//
//===----------------------------------------------------------------------===//

#include "PolicyOption.h"
#include "RoundConstant.h"
#include "StaticShapes.h"

#include "mpc/Analysis/GraphDigest.h"
#include "mpc/Analysis/OpNames.h"
#include "mpc/Analysis/PrecisionPlan.h"
#include "mpc/Analysis/TrainingTypes.h"
#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_ASSIGNPRECISIONPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

/// Module attribute: dictionary of the settings that determined the types.
static constexpr StringLiteral kPrecisionAttr = "mpc.precision";

namespace {

/// Rewrites one function according to a plan. Values keep their identity:
/// result types change in place, and each later reader requests the type that
/// it needs.
class PlanApplier {
public:
  PlanApplier(const PrecisionPlan &plan, const Policy &policy,
              const CastFusionTarget &target, MLIRContext *context)
      : plan(plan), policy(policy), target(target), builder(context),
        wide(Float32Type::get(context)) {}

  void apply(func::FuncOp func);

  int64_t casts = 0, constants = 0, narrowed = 0;

private:
  void applyTo(Operation *op);
  void record(Operation *op, const OpPlan &opPlan);
  /// Returns the value read by `use` in element type `type`.
  Value readAs(OpOperand &use, FloatType type);
  /// Returns the cast of `value` to `type` shared by all readers.
  Value sharedCast(Value value, FloatType type);
  Value narrowConstant(ConstantOp op, FloatType type);
  /// If the low-precision copy of a constant is exact, f32 readers upcast it in
  /// their kernels, so that only one copy is stored.
  void shareExactCopy(ConstantOp op);
  Value makeCast(Location loc, Value value, FloatType type);

  const PrecisionPlan &plan;
  const Policy &policy;
  CastFusionTarget target;
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
  std::optional<RoundedConstant> narrowed = roundConstantValue(op, type);
  builder.setInsertionPointAfter(op);
  if (!narrowed) { // data that cannot be read: leave the rounding to run time
    result = makeCast(op.getLoc(), op.getResult(), type);
    return result;
  }
  ++constants;
  ConstantOp narrow = ConstantOp::create(builder, op.getLoc(), narrowed->value);
  narrow->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  narrow->setDiscardableAttr(MpcDialect::kNarrowingAttr, narrowed->losses);
  result = narrow.getResult();
  return result;
}

void PlanApplier::shareExactCopy(ConstantOp op) {
  // A splat stores only one element.
  if (op->use_empty() || splatValue(op.getValue()))
    return;
  Value copy;
  for (FloatType type : {toFloatType(PolicyType::BFloat16, op.getContext()),
                         toFloatType(PolicyType::Float16, op.getContext())}) {
    Value candidate = shared.lookup({op.getResult(), type});
    auto losses = candidate
                      ? candidate.getDefiningOp()->getAttrOfType<NarrowingAttr>(
                            MpcDialect::kNarrowingAttr)
                      : NarrowingAttr();
    if (losses && losses.getOverflowed() == 0 && losses.getFlushed() == 0 &&
        losses.getMaxError().getValue().isZero())
      copy = candidate;
  }
  if (!copy || !llvm::all_of(op->getUses(), [&](OpOperand &use) {
        return fusesOperandCast(use.getOwner(), use.getOperandNumber(), target);
      }))
    return;
  for (OpOperand &use : llvm::make_early_inc_range(op->getUses())) {
    builder.setInsertionPoint(use.getOwner());
    use.set(makeCast(use.getOwner()->getLoc(), copy, wide));
  }
}

Value PlanApplier::readAs(OpOperand &use, FloatType type) {
  Value value = use.get();
  Operation *user = use.getOwner();
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
  if (storage == wide && !plan.hasOwnCasts(value))
    return sharedCast(value, type);
  // A cast that fuses into the reader's kernel is created per reader: upcasts,
  // and casts between two low-precision types (requested by overrides only). A
  // cast that needs its own kernel is shared.
  if (!fusesOperandCast(user, use.getOperandNumber(), target))
    return sharedCast(stored, type);
  builder.setInsertionPoint(user);
  return makeCast(user->getLoc(), stored, type);
}

void PlanApplier::record(Operation *op, const OpPlan &opPlan) {
  MLIRContext *context = op->getContext();
  auto text = [&](StringRef value) {
    return value.empty() ? StringAttr() : StringAttr::get(context, value);
  };
  const PolicyOverride *override =
      opPlan.override ? opPlan.override : opPlan.refused;
  IntegerAttr cost;
  if (opPlan.cost)
    cost = builder.getI64IntegerAttr(opPlan.cost);
  op->setDiscardableAttr(
      MpcDialect::kDecisionAttr,
      DecisionAttr::get(context, text(opPlan.rule), text(policy.getName()),
                        text(override ? override->text : ""),
                        opPlan.refused    ? text(opPlan.refusal)
                        : opPlan.override ? StringAttr()
                                          : text(opPlan.reason),
                        cost));
}

void PlanApplier::applyTo(Operation *op) {
  bool hasPlan = plan.hasPlan(op);
  const OpPlan *opPlan = hasPlan ? &plan.getPlan(op) : nullptr;
  OpPlan::Role role = hasPlan ? opPlan->role : OpPlan::Role::Untouched;
  auto precision = dyn_cast<PrecisionOpInterface>(op);

  // Data movement takes the type of its first eligible result, or of its input
  // if it has none (argmax).
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

  // Operands that read the same value share one cast per reader.
  llvm::SmallDenseMap<std::tuple<Value, Type, Type>, Value> read;
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
    else if (role == OpPlan::Role::Multiply && opPlan->compute.isF64())
      type = opPlan->compute; // bias and states keep up with a wider sum
    FloatType rounding = plan.getRounding(op, operand.getOperandNumber());
    Value &value = read[{operand.get(), type, rounding}];
    if (!value) {
      value = readAs(operand, rounding ? rounding : type);
      if (elementType(value) != type) {
        builder.setInsertionPoint(op);
        value = makeCast(op->getLoc(), value, type);
      }
    }
    operand.set(value);
  }

  FloatType resultType = wide;
  if (role == OpPlan::Role::Move)
    resultType = moved;
  else if (role != OpPlan::Role::Untouched)
    resultType = opPlan->result;
  if (resultType != wide)
    for (Value result : op->getResults())
      if (plan.isEligible(result) && isPrecisionResult(result))
        result.setType(withElement(result, resultType));
  if (role == OpPlan::Role::Multiply && opPlan->compute != wide)
    ++narrowed;
  if (hasPlan && opPlan->mode != ComputeMode::native)
    op->setAttr("compute",
                ComputeModeAttr::get(op->getContext(), opPlan->mode));
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
  for (Operation *op : ops) {
    auto constant = dyn_cast<ConstantOp>(op);
    if (!constant)
      continue;
    shareExactCopy(constant);
    if (op->use_empty())
      op->erase();
  }
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {

struct AssignPrecisionPass
    : mpc::impl::AssignPrecisionPassBase<AssignPrecisionPass> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    FailureOr<Policy> found = policyWith(policy, sets, context);
    if (failed(found))
      return failure();
    chosen = std::move(*found);
    if (castPlacement != "mincut" && castPlacement != "propagate")
      return emitError(UnknownLoc::get(context))
             << "unknown cast placement '" << castPlacement
             << "'; use mincut or propagate";
    placement = castPlacement == "mincut" ? CastPlacement::MinimumCut
                                          : CastPlacement::Propagate;
    return success();
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<TargetInfo> named = exe::targetOf(module, target);
    if (failed(named))
      return signalPassFailure();
    info = *named;
    CastFusionTarget fusionTarget(info);
    fusionTarget.hasProductLibrary = libraryProducts;
    SmallVector<func::FuncOp> funcs;
    for (func::FuncOp func : module.getOps<func::FuncOp>())
      if (!func.isDeclaration())
        funcs.push_back(func);
    if (funcs.empty())
      return markAllAnalysesPreserved();
    Location loc = funcs.front().getLoc();
    if (auto record = module->getAttrOfType<DictionaryAttr>(kPrecisionAttr)) {
      if (record == makeRecord())
        return markAllAnalysesPreserved();
      reportOtherRecord(loc, record);
      return signalPassFailure();
    }
    bool anyBad = false;
    for (func::FuncOp func : funcs)
      anyBad |= failed(checkInput(func));
    if (anyBad || failed(checkKinds(loc, chosen)))
      return signalPassFailure();

    warnOfOtherModel(funcs.front());
    warnOfUnknownNames(loc, chosen, funcs);
    // Overrides apply to the whole module: plan every function before changing
    // any.
    std::vector<PrecisionPlan> plans;
    for (func::FuncOp func : funcs) {
      FailureOr<PrecisionPlan> plan =
          PrecisionPlan::create(func, chosen, fusionTarget, placement);
      if (succeeded(plan))
        plans.push_back(std::move(*plan));
    }
    if (plans.size() != funcs.size())
      return signalPassFailure();
    SmallVector<const PrecisionPlan *> pointers;
    for (const PrecisionPlan &plan : plans)
      pointers.push_back(&plan);
    if (failed(checkOverrides(loc, chosen, pointers, funcs, partOfModel)))
      return signalPassFailure();
    for (auto [func, plan] : llvm::zip_equal(funcs, plans))
      assign(func, plan);
    module->setAttr(kPrecisionAttr, makeRecord());
  }

  /// Returns success if `func` is a graph without assigned types; else emits an
  /// error.
  LogicalResult checkInput(func::FuncOp func) {
    if (!func.getBody().hasOneBlock())
      return func.emitError() << "function '" << func.getName()
                              << "' has more than one block; precision is "
                                 "assigned to straight-line functions only";
    if (failed(checkStaticShapes(func)))
      return failure();
    for (Operation &op : func.getBody().front())
      if (auto decision =
              op.getAttrOfType<DecisionAttr>(MpcDialect::kDecisionAttr))
        return op.emitError()
               << "already has a decision of policy '"
               << decision.getList().getValue() << "'; policy '"
               << chosen.getName()
               << "' must be applied to the graph before Precision";
    return success();
  }

  /// Returns true if the graph updates state in place (a decoder step) and
  /// contains most of the calibrated names: the graph was derived from the
  /// calibrated model, so its digest differs.
  bool isMadeOfModel(func::FuncOp func) {
    unsigned results = func.getNumResults();
    if (llvm::none_of(llvm::seq(results), [&](unsigned i) {
          return func.getResultAttr(i, MpcDialect::kAliasAttr);
        }))
      return false;
    llvm::StringSet<> names;
    for (Operation &op : func.getBody().front())
      for (StringRef name : opNames(&op))
        names.insert(name);
    int64_t known = llvm::count_if(chosen.getRanges(), [&](const auto &range) {
      return names.contains(range.first);
    });
    return known > 0 && 2 * known >= int64_t(chosen.getRanges().size());
  }

  /// Warns if the policy's names and ranges belong to another model.
  void warnOfOtherModel(func::FuncOp func) {
    if (!chosen.getModel().empty() && chosen.getModel() != graphDigest(func) &&
        !isMadeOfModel(func))
      emitWarning(func.getLoc())
          << "policy '" << chosen.getName()
          << "' has names and ranges of another model or of an older version "
             "of this one, so they may not apply; tune or calibrate again";
  }

  /// Reports the setting that differs from the one that assigned the module's
  /// types.
  void reportOtherRecord(Location loc, DictionaryAttr record) {
    DictionaryAttr asked = makeRecord();
    InFlightDiagnostic diag =
        emitError(loc)
        << "the types of the graph are already assigned, by a different ";
    StringRef fields[] = {"policy", "set", "target", "placement", "library"};
    auto *differs = llvm::find_if(fields, [&](StringRef field) {
      return record.get(field) != asked.get(field);
    });
    if (differs != std::end(fields) && *differs == "library")
      diag << "setting of library GEMMs";
    else if (differs == std::end(fields))
      diag << "version of policy '" << chosen.getName() << "'";
    else
      diag << *differs << " (" << record.get(*differs) << ", not "
           << asked.get(*differs) << ")";
    diag << "; apply it to the graph before Precision";
  }

  /// Returns the settings that determine the types of a module.
  DictionaryAttr makeRecord() {
    Builder builder(&getContext());
    // The order of overrides is irrelevant.
    SmallVector<StringRef> overrides;
    for (const PolicyOverride &override : chosen.getOverrides())
      if (override.source == PolicyOverride::Source::CommandLine)
        overrides.push_back(override.text);
    llvm::sort(overrides);
    SmallVector<NamedAttribute> fields = {
        builder.getNamedAttr("policy", builder.getStringAttr(chosen.getName())),
        builder.getNamedAttr("digest", builder.getStringAttr(chosen.digest())),
        builder.getNamedAttr("target", builder.getStringAttr(info.name())),
        builder.getNamedAttr("placement", builder.getStringAttr(castPlacement)),
        builder.getNamedAttr("set", builder.getStrArrayAttr(overrides)),
        builder.getNamedAttr("library", builder.getBoolAttr(libraryProducts))};
    if (!libraryProducts)
      fields.pop_back();
    return builder.getDictionaryAttr(fields);
  }

  void assign(func::FuncOp func, const PrecisionPlan &plan) {
    if (remarks)
      for (Operation &op : func.getBody().front())
        remark(&op, plan);
    PlanApplier applier(plan, chosen, CastFusionTarget(info), &getContext());
    applier.apply(func);
    numCasts += applier.casts;
    numConstants += applier.constants;
    numNarrowed += applier.narrowed;
  }

  /// Emits the plan's decision for an op as a remark.
  void remark(Operation *op, const PrecisionPlan &plan) {
    if (!plan.hasPlan(op))
      return;
    const OpPlan &opPlan = plan.getPlan(op);
    InFlightDiagnostic diag = op->emitRemark();
    diag << "rule '" << opPlan.rule << "' of policy '" << chosen.getName()
         << "'";
    if (opPlan.override)
      diag << ", override '" << opPlan.override->text << "'";
    if (opPlan.refused)
      diag << ", though override '" << opPlan.refused->text << "' "
           << opPlan.refusal;
    if (opPlan.role == OpPlan::Role::Move)
      diag << ": takes the type of its input";
    else if (opPlan.role != OpPlan::Role::Untouched)
      diag << ": computes in " << opPlan.compute;
    for (Value result : op->getResults())
      if (plan.isEligible(result) && !isa<ConstantOp>(op))
        diag << "; result " << cast<OpResult>(result).getResultNumber()
             << " is stored in " << plan.getStorage(result) << ": "
             << plan.getReason(result).text;
  }

  Policy chosen;
  CastPlacement placement = CastPlacement::MinimumCut;
  TargetInfo info;
};

} // namespace
