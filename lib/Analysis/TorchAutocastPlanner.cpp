//===- TorchAutocastPlanner.cpp - torch.autocast planner ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// torch.autocast sees one op at a time, in program order: the op's list and the
// types of its operands decide. Rules, for an op of torch (a FrameworkOpGroup):
//
//    (R1) lower_precision_fp: operands are cast to the policy's type, so is the
//         result.
//    (R2) fp32: operands are cast to f32, the result is f32.
//    (R3) fp32_set_opt_dtype, fp32_append_dtype: the result is f32; operands
//         are not cast.
//    (R4) promote: f32 if any operand is f32, else the policy's type.
//    (R5) banned: an error.
//    (R6) Any other op runs in the type to which torch promotes its operands.
//         Zero-dimensional operands promote only each other, and
//         zero-dimensional constants (Python numbers) nothing.
//    (R7) A norm in no list takes the type of its input; statistics, scale and
//         bias are not cast.
//    (R8) Data movement in no list keeps the type of its input.
//    (R9) An override precedes the lists. f64, integers and the model's own
//         16-bit values keep their types.
//
// Operands that are neither f32 nor 16-bit floats are ignored. An op that
// computes in 16 bits rounds once, when it stores its result: the ops inside a
// group compute in f32 on operands rounded to 16 bits. A contraction that
// stores 16 bits accumulates in f32.
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include "mpc/Analysis/FrameworkOps.h"
#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Support/EscapedText.h"

using namespace mlir;
using namespace mpc;

namespace {

class TorchPlanner {
public:
  explicit TorchPlanner(PlanBuilder &builder) : builder(builder) {}

  LogicalResult run();

private:
  /// Plans ops whose types the model or an override fixes.
  LogicalResult settle(Operation *op);
  LogicalResult plan(const FrameworkOpGroup &group);
  PrecisionClass classOf(const FrameworkOpGroup &group) const;
  LogicalResult reportBan(const FrameworkOpGroup &group) const;

  /// Returns the type of a float operand: f32 or the policy's 16-bit type; null
  /// if it is ignored.
  FloatType arrivalOf(Value value, const FrameworkOpGroup &group) const;
  /// (R4) Widest operand type.
  FloatType widestArrival(const FrameworkOpGroup &group) const;
  /// (R6) Result of torch's type promotion.
  FloatType promotedArrival(const FrameworkOpGroup &group) const;
  /// Type of `group` by the rule of its class.
  FloatType typeOf(const FrameworkOpGroup &group, PrecisionClass cls) const;

  void planSingle(Operation *op, FloatType type);
  void planMember(Operation *op, const FrameworkOpGroup &group, FloatType type);
  void planNorm(Operation *op, FloatType type);
  /// Stores `value` in `type` for all readers.
  void store(Value value, FloatType type) {
    if (builder.isEligible(value) && type != builder.wide)
      builder.setStorage(value, type);
  }

  PlanBuilder &builder;
  /// Ops whose types the model or an override fixes.
  llvm::DenseSet<Operation *> fixed;
};

} // namespace

//===----------------------------------------------------------------------===//
// Operand types
//===----------------------------------------------------------------------===//

/// Returns true if autocast ignores the parameters of `op` (R7).
static bool isNorm(Operation *op) { return op->hasTrait<Normalizes>(); }

FloatType TorchPlanner::arrivalOf(Value value,
                                  const FrameworkOpGroup &group) const {
  // Exporters write the promotion of a 16-bit operand as a cast of the op's
  // own: torch sees the operand of the cast.
  if (auto cast = value.getDefiningOp<CastOp>();
      cast && group.contains(cast) && group.op != "_to_copy" &&
      getElementTypeOrSelf(cast.getInput().getType()) == builder.low)
    return builder.low;
  if (!builder.isEligible(value))
    return getElementTypeOrSelf(value.getType()) == builder.low ? builder.low
                                                                : FloatType();
  return builder.getStorage(value);
}

/// Calls `visit` with each float operand defined outside the group, or by a
/// promotion cast of the group.
static void forEachArrival(const FrameworkOpGroup &group,
                           llvm::function_ref<void(OpOperand &operand)> visit) {
  for (Operation *op : group.members) {
    if (isa<CastOp>(op) && group.members.size() > 1)
      continue;
    for (OpOperand &operand : op->getOpOperands())
      if (isFloatTensor(operand.get()) &&
          (group.isExternal(operand) || operand.get().getDefiningOp<CastOp>()))
        visit(operand);
  }
}

FloatType TorchPlanner::widestArrival(const FrameworkOpGroup &group) const {
  bool anyWide = false, anyLow = false;
  forEachArrival(group, [&](OpOperand &operand) {
    if (operand.get().getDefiningOp<ConstantOp>() &&
        cast<RankedTensorType>(operand.get().getType()).getRank() == 0)
      return; // a Python number, not a tensor
    FloatType type = arrivalOf(operand.get(), group);
    anyWide |= type == builder.wide;
    anyLow |= type == builder.low;
  });
  return anyLow && !anyWide ? builder.low : builder.wide;
}

FloatType TorchPlanner::promotedArrival(const FrameworkOpGroup &group) const {
  if (isNorm(group.members.back())) {
    FloatType type = arrivalOf(group.members.back()->getOperand(0), group);
    return type ? type : builder.wide;
  }
  // Tensors with dimensions decide; zero-dimensional ones if there is none.
  bool wide[2] = {}, low[2] = {};
  forEachArrival(group, [&](OpOperand &operand) {
    int64_t rank = cast<RankedTensorType>(operand.get().getType()).getRank();
    if (rank == 0 && operand.get().getDefiningOp<ConstantOp>())
      return;
    FloatType type = arrivalOf(operand.get(), group);
    wide[rank == 0] |= type == builder.wide;
    low[rank == 0] |= type == builder.low;
  });
  for (int dimensionless : {0, 1})
    if (wide[dimensionless] || low[dimensionless])
      return wide[dimensionless] ? builder.wide : builder.low;
  return builder.wide;
}

//===----------------------------------------------------------------------===//
// Types fixed by the model and overrides
//===----------------------------------------------------------------------===//

LogicalResult TorchPlanner::settle(Operation *op) {
  if (!isa<PrecisionOpInterface>(op))
    return success();
  FailureOr<bool> isFixed = planFixed(builder, op);
  if (failed(isFixed))
    return failure();
  if (!*isFixed)
    return success();
  fixed.insert(op);
  const OpPlan *plan = builder.findPlan(op);
  if (plan && plan->isForced())
    for (Value result : op->getResults())
      store(result, plan->compute);
  return success();
}

PrecisionClass TorchPlanner::classOf(const FrameworkOpGroup &group) const {
  // A user's own list names kinds and precedes torch's.
  const Policy &policy = builder.policy;
  Operation *first = group.members.front();
  auto kind = dyn_cast<PrecisionOpInterface>(first);
  if (kind && group.members.size() == 1)
    if (auto it = policy.getClasses().find(kind.getPrecisionKind().str());
        it != policy.getClasses().end())
      return it->second;
  return policy.classOfSystemOp(group.op).value_or(policy.getDefaultClass());
}

LogicalResult TorchPlanner::reportBan(const FrameworkOpGroup &group) const {
  Operation *op = group.members.back();
  InFlightDiagnostic diag = op->emitError();
  diag << "'" << group.op << "' is banned by policy '"
       << builder.policy.getName() << "': its results are outside the range of "
       << builder.low << "; ";
  if (group.op == "binary_cross_entropy")
    diag << "use binary_cross_entropy_with_logits, which takes the input of "
            "the sigmoid, or ";
  // The nodes of one torch op share its name.
  SmallVector<StringRef> names = opNames(op);
  diag << "keep it in float32 with --set "
       << shellWord((names.empty() ? "op:" + op->getName().stripDialect().str()
                                   : "name:" + names.front().str()) +
                    "=float32");
  return diag;
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

FloatType TorchPlanner::typeOf(const FrameworkOpGroup &group,
                               PrecisionClass cls) const {
  switch (cls) {
  case PrecisionClass::Low:
    return builder.low;
  case PrecisionClass::High:
  case PrecisionClass::HighResult:
  case PrecisionClass::Ban:
    return builder.wide;
  case PrecisionClass::Widest:
    return widestArrival(group);
  case PrecisionClass::Follow:
  case PrecisionClass::Clear:
    return promotedArrival(group);
  }
  return builder.wide;
}

void TorchPlanner::planSingle(Operation *op, FloatType type) {
  OpPlan &plan = builder.planOf(op);
  plan.compute = plan.result = type;
  plan.role = OpPlan::Role::Compute;
  if (isContraction(op)) {
    plan.role = OpPlan::Role::Multiply;
    plan.result = builder.wide;
    for (OpOperand &operand : op->getOpOperands())
      if (type != builder.wide && builder.isEligible(operand.get()) &&
          !isPrecisionOperand(op, operand.getOperandNumber()))
        builder.setRounding(op, operand.getOperandNumber(), type);
  } else if (movesElements(op)) {
    plan.role = OpPlan::Role::Move;
  }
  for (Value result : op->getResults())
    store(result, type);
}

void TorchPlanner::planMember(Operation *op, const FrameworkOpGroup &group,
                              FloatType type) {
  OpPlan &plan = builder.planOf(op);
  plan.compute = plan.result = builder.wide;
  plan.role = OpPlan::Role::Compute;
  bool multiplies = isContraction(op);
  if (multiplies) {
    plan.role = OpPlan::Role::Multiply;
    plan.compute = type;
  } else if (movesElements(op)) {
    plan.role = OpPlan::Role::Move;
  }
  for (Value result : op->getResults())
    if (group.isResult(result))
      store(result, type);
  if (type == builder.wide)
    return;
  if (plan.role == OpPlan::Role::Move) {
    // Inside the group a view of 16-bit data keeps its type.
    Value source = op->getOperand(0);
    if (!group.isExternal(op->getOpOperand(0)) && builder.isEligible(source))
      store(op->getResult(0), builder.getStorage(source));
    else
      store(op->getResult(0), type);
    return;
  }
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    bool isRead = multiplies && isPrecisionOperand(op, index);
    if (!isRead && group.isExternal(operand) &&
        builder.isEligible(operand.get()) &&
        builder.getStorage(operand.get()) == builder.wide)
      builder.setRounding(op, index, type);
  }
}

void TorchPlanner::planNorm(Operation *op, FloatType type) {
  OpPlan &plan = builder.planOf(op);
  plan.role = OpPlan::Role::Compute;
  plan.compute = plan.result = builder.wide;
  store(op->getResult(0), type);
}

LogicalResult TorchPlanner::plan(const FrameworkOpGroup &group) {
  PrecisionClass cls = classOf(group);
  bool overridden = llvm::any_of(group.members, [&](Operation *op) {
    const OpPlan *plan = builder.findPlan(op);
    return plan && plan->override;
  });
  if (cls == PrecisionClass::Ban && !overridden)
    return reportBan(group);
  SmallVector<Operation *, 2> open;
  for (Operation *op : group.members)
    if (isa<PrecisionOpInterface>(op) && !fixed.contains(op))
      open.push_back(op);
  if (open.empty())
    return success();

  FloatType type = typeOf(group, cls);
  bool follows = cls == PrecisionClass::Follow || cls == PrecisionClass::Clear;
  // A recurrent op in no list consists of linears on an f32 state.
  bool isCell = follows && open.size() == 1 &&
                fusionClassOf(open.front()) == FusionClass::Recurrent;
  for (Operation *op : open) {
    OpPlan &plan = builder.planOf(op);
    plan.cls = cls;
    plan.rule = stringify(cls).str();
    std::string name =
        group.op.empty() ? op->getName().stripDialect().str() : group.op;
    plan.reason = follows
                      ? "torch's " + name + " runs in the type of its inputs"
                      : "torch's " + name;
    if (isCell) {
      plan.role = OpPlan::Role::Multiply;
      plan.compute = builder.low;
      plan.result = builder.wide;
    } else if (follows && isNorm(op)) {
      planNorm(op, type);
    } else if (open.size() == 1) {
      planSingle(op, type);
    } else {
      planMember(op, group, type);
    }
  }
  return success();
}

LogicalResult TorchPlanner::run() {
  for (Operation &op : builder.body())
    if (failed(settle(&op)))
      return failure();
  // A cast of the model stays in the group whose promotion it is.
  FrameworkOps sources(builder.func, builder.policy, [&](Operation *op) {
    return fixed.contains(op) && !isa<CastOp>(op);
  });
  for (const FrameworkOpGroup *group : sources.getGroups())
    if (failed(plan(*group)))
      return failure();
  return success();
}

LogicalResult mpc::planTorchAutocast(PlanBuilder &builder) {
  return TorchPlanner(builder).run();
}
