//===- TrainingTypes.cpp - types fixed by training ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Losses, their gradients, learning rates, gradient norms and updates compute
// in f32 whatever the policy; master weights, states and running statistics
// stay f32.
//
// A gradient has the type of its primal: if every reader takes a parameter in
// 16 bits, the chain rule passes through a cast to 16 bits, whose cotangent has
// 16 bits. So the gradient is rounded before it reaches the update or leaves
// the function.
//
//===----------------------------------------------------------------------===//

#include "CastPlacementModel.h"
#include "PlanBuilder.h"

#include "mpc/Analysis/Float32Subgraphs.h"
#include "mpc/Analysis/TrainingTypes.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Support/StepNames.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Ops with unchanged types
//===----------------------------------------------------------------------===//

bool mpc::isPrecisionResult(Value result) {
  Operation *op = result.getDefiningOp();
  if (isa_and_present<BatchNormTrainingOp>(op))
    return result == op->getResult(0);
  return !isa_and_present<OptimizerOpInterface>(op);
}

bool mpc::isBookkeepingOp(Operation *op) {
  return op->hasTrait<IsBookkeeping>();
}

/// Plans `op` to compute in f32, for `reason`.
static void computeWide(PlanBuilder &builder, Operation *op,
                        StringRef reason = "") {
  OpPlan &plan = builder.planOf(op);
  plan.role =
      isContraction(op) ? OpPlan::Role::Multiply : OpPlan::Role::Compute;
  plan.compute = plan.result = builder.wide;
  plan.mode = ComputeMode::native;
  plan.cls = PrecisionClass::High;
  plan.rule = stringify(PrecisionClass::High).str();
  plan.reason = reason.str();
  plan.override = nullptr;
}

/// Stores the results of `op` in f32.
static void storeWide(PlanBuilder &builder, Operation *op) {
  for (Value result : op->getResults())
    if (builder.isEligible(result))
      builder.setStorage(result, builder.wide);
}

/// Plans f32 for an op that lists and layers would narrow; an override takes
/// precedence. The first reason is recorded.
static void keepWide(PlanBuilder &builder, Operation *op, StringRef reason) {
  const OpPlan *plan = builder.findPlan(op);
  if (!plan || plan->role == OpPlan::Role::Untouched || plan->isForced() ||
      builder.isWidePart(op))
    return;
  bool changes =
      plan->role != OpPlan::Role::Compute || plan->compute != builder.wide ||
      plan->result != builder.wide || plan->cls != PrecisionClass::High;
  builder.addWidePart(op);
  if (!changes)
    return;
  computeWide(builder, op, reason);
  storeWide(builder, op);
}

void mpc::keepSubgraphsInFloat32(PlanBuilder &builder) {
  for (Operation *op : findLossOps(builder.func))
    keepWide(builder, op, "part of the loss");
  for (Operation *op : findStatisticsOps(builder.func))
    keepWide(builder, op, "part of a running statistic");
  for (Operation &op : builder.body()) {
    if (op.hasAttr(kScaleAttr))
      keepWide(builder, &op, "part of a quantization scale");
    if (op.hasAttr(kOperandsAttr))
      storeWide(builder, &op);
  }
  // Keras computes the steps of a softmax, and angles, in the layer's type.
  if (builder.policy.getAlgorithm() != PolicyAlgorithm::MinimumCut)
    return;
  for (Operation *op : findExponentialSumOps(builder.func))
    keepWide(builder, op, "part of a decomposed softmax");
  auto keepUnrounded = [&](Operation *op, StringRef reason) {
    keepWide(builder, op, reason);
    // The inputs from a preceding layer are not rounded either.
    if (builder.isWidePart(op))
      builder.planOf(op).unrounded = OpPlan::Unrounded::All;
  };
  for (Operation *op : findAngleOps(builder.func))
    keepUnrounded(op, "an angle that grows with the position");
  auto feedsIntegers = [&](Value value) {
    return builder.feedsIntegers(value);
  };
  for (Operation &op : builder.body())
    if (isIndexArithmetic(&op, feedsIntegers))
      keepUnrounded(&op, "an index, a length or a count depends on it");
}

static void settleOp(PlanBuilder &builder, Operation *op) {
  const OpPlan *plan = builder.findPlan(op);
  if (!plan || plan->role == OpPlan::Role::Untouched)
    return;
  // Bookkeeping scalars of a step are not part of the model.
  if (isBookkeepingOp(op) || (op->hasTrait<Loss>() && !plan->override)) {
    if (plan->compute != builder.wide)
      computeWide(builder, op);
    storeWide(builder, op);
    return;
  }
  // The gradients of attention have the types of their primals.
  FloatType compute = plan->compute;
  if (isa<AttentionGradientOp>(op) && compute && compute.getWidth() < 32) {
    builder.planOf(op).result = compute;
    for (Value result : op->getResults())
      builder.setStorage(result, compute);
  }
  for (Value result : op->getResults())
    if (builder.isEligible(result) && !isPrecisionResult(result))
      builder.setStorage(result, builder.wide);
}

//===----------------------------------------------------------------------===//
// Gradients of losses
//===----------------------------------------------------------------------===//

static bool isConstantResult(Value value) {
  return isa_and_present<ConstantOp>(value.getDefiningOp());
}

/// Returns true if the policy, not an override or the model, types `op`.
static bool isFree(const PlanBuilder &builder, Operation *op) {
  const OpPlan *plan = builder.findPlan(op);
  return plan && plan->role != OpPlan::Role::Untouched && !plan->isForced();
}

namespace {

/// The ops between the seeds of a backward pass and the gradients that leave
/// the losses. A loss scale of 65,536 overflows f16: it stays f32 until it is
/// multiplied into the gradient of a loss, which has the loss's type. Storage
/// of gradients that leave follows the policy.
class LossGradients {
public:
  explicit LossGradients(PlanBuilder &builder) : builder(builder) {}

  void computeWide() {
    for (Operation &op : builder.body())
      follow(&op);
    collectPredictions();
    while (!leaving.empty())
      for (Value operand : leaving.pop_back_val()->getOperands())
        enter(operand.getDefiningOp());
  }

private:
  static constexpr StringLiteral kReason =
      "the gradient of a loss has the loss's type";

  /// Follows the seeds' values forward, up to the first other factor.
  void follow(Operation *op) {
    if (isa<GradientSeedOp>(op)) {
      scales.insert(op->getResult(0));
      return;
    }
    // After unscaling, gradients have their small magnitudes again, and so do
    // values that a model's own update computes from them.
    if (!isContraction(op) && isFree(builder, op) &&
        llvm::any_of(op->getOperands(),
                     [&](Value value) { return unscaled.contains(value); })) {
      makeWide(op);
      storeWide(builder, op);
      unscaled.insert_range(op->getResults());
      return;
    }
    auto isScale = [&](Value value) { return scales.contains(value); };
    if (!llvm::any_of(op->getOperands(), isScale) || !isFree(builder, op))
      return;
    makeWide(op);
    auto division = dyn_cast<DivOp>(op);
    if (isa<ReciprocalOp>(op) || (division && isScale(division.getRhs()))) {
      storeWide(builder, op);
      unscaled.insert_range(op->getResults());
    }
    if (llvm::all_of(op->getOperands(), [&](Value value) {
          return isScale(value) || isConstantResult(value);
        })) {
      storeWide(builder, op);
      scales.insert_range(op->getResults());
    } else {
      leaving.push_back(op);
    }
  }

  /// The inputs of losses belong to the forward pass.
  void collectPredictions() {
    for (Operation &op : builder.body())
      if (op.hasTrait<Loss>())
        for (Value operand : op.getOperands())
          if (Operation *maker = operand.getDefiningOp())
            predictions.insert(maker);
  }

  /// Adds `op` to a loss's gradient if it has no other readers.
  void enter(Operation *op) {
    if (!op || predictions.empty() || predictions.contains(op) ||
        wideOps.contains(op) || isa<ConstantOp>(op) || isContraction(op) ||
        !isFree(builder, op) ||
        !llvm::all_of(op->getUsers(),
                      [&](Operation *user) { return wideOps.contains(user); }))
      return;
    makeWide(op);
    storeWide(builder, op);
    leaving.push_back(op);
  }

  void makeWide(Operation *op) {
    wideOps.insert(op);
    const OpPlan *plan = builder.findPlan(op);
    // A move has the type of its input.
    if (plan->role != OpPlan::Role::Move && plan->compute != builder.wide)
      ::computeWide(builder, op, kReason);
  }

  PlanBuilder &builder;
  /// Values that are a seed times constants.
  llvm::SmallPtrSet<Value, 8> scales;
  /// Values that depend on an unscaled gradient.
  llvm::SmallPtrSet<Value, 8> unscaled;
  llvm::SmallPtrSet<Operation *, 8> wideOps, predictions;
  /// Ops whose operands are still to be visited.
  llvm::SmallVector<Operation *> leaving;
};

} // namespace

//===----------------------------------------------------------------------===//
// Gradients of parameters
//===----------------------------------------------------------------------===//

/// Adds the types in which ops other than updates read `value`, also through
/// reshapes; f32 represents all readers that do not round.
static void collectReadTypes(const PlanBuilder &builder, Value value,
                             llvm::SmallSetVector<FloatType, 2> &types) {
  for (OpOperand &use : value.getUses()) {
    Operation *op = use.getOwner();
    if (isa<OptimizerOpInterface>(op))
      continue;
    OperandReading reading = readingOf(builder.getPlan(), use);
    auto movement = dyn_cast<MovementOpInterface>(op);
    if (reading.kind == OperandReading::Kind::Narrow)
      types.insert(reading.type);
    else if (reading.kind == OperandReading::Kind::Moved && movement &&
             movement.isPermutation())
      collectReadTypes(builder, op->getResult(0), types);
    else
      types.insert(builder.wide);
  }
}

/// Returns the one 16-bit type in which `parameter` is read, or null.
static FloatType narrowTypeOf(const PlanBuilder &builder, Value parameter) {
  llvm::SmallSetVector<FloatType, 2> types;
  collectReadTypes(builder, parameter, types);
  if (types.size() != 1 || types.contains(builder.wide))
    return {};
  return types.front();
}

static void roundGradients(PlanBuilder &builder) {
  // Ranks would each round their part of a sum.
  if (builder.target.machine.facts().isReproducible)
    return;
  StepFunction step(builder.func);
  for (BlockArgument parameter : step.arguments(RoleKind::parameter)) {
    StringRef reason =
        "the gradient has the type in which the parameter is read";
    FloatType type = narrowTypeOf(builder, parameter);
    if (!type) {
      type = libraryGradientType(builder, parameter);
      reason =
          "the library accumulates it in the type of the weight's gradient";
    }
    if (!type)
      continue;
    for (Operation *user : parameter.getUsers()) {
      auto update = dyn_cast<OptimizerOpInterface>(user);
      if (!update || update.getParameter() != parameter ||
          !builder.isEligible(update.getGradientMutable().get()))
        continue;
      OpPlan &plan = builder.planOf(user);
      if (plan.override || plan.role == OpPlan::Role::Untouched)
        continue;
      plan.compute = type;
      plan.reason = reason.str();
    }
    StringRef name = step.argumentName(parameter.getArgNumber());
    if (std::optional<unsigned> index =
            step.findResult(RoleKind::output, (name + kGradientSuffix).str());
        index && builder.isEligible(step.result(*index)))
      builder.setRounding(step.terminator(), *index, type);
  }
}

//===----------------------------------------------------------------------===//
// Gradients of extrema
//===----------------------------------------------------------------------===//

/// Returns the op that defines `value`, before broadcasts, moves and casts.
static Operation *makerOf(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && (isa<CastOp>(op) || isUnaryMovement(op)))
    op = op->getOperand(0).getDefiningOp();
  return op;
}

/// The cotangent of an extremum goes to the elements equal to it. If the
/// operand is rounded, the rounded elements must be compared: no other might be
/// equal.
static void roundAsExtrema(PlanBuilder &builder) {
  for (Operation &op : builder.body()) {
    const OpPlan *plan = builder.findPlan(&op);
    if (!isa<ReduceMaxOp, ReduceMinOp>(op) || !plan ||
        plan->role != OpPlan::Role::Compute || plan->compute == builder.wide)
      continue;
    Value input = op.getOperand(0);
    FloatType type = plan->compute;
    if (!builder.isEligible(input))
      continue;
    for (OpOperand &use : input.getUses()) {
      auto compare = dyn_cast<CompareOp>(use.getOwner());
      if (compare && compare.getPredicate() == ComparePredicate::eq &&
          makerOf(compare->getOperand(1 - use.getOperandNumber())) == &op)
        builder.setRounding(compare, use.getOperandNumber(), type);
    }
  }
}

void mpc::planTrainingTypes(PlanBuilder &builder) {
  roundAsExtrema(builder);
  for (Operation &op : builder.body())
    settleOp(builder, &op);
  LossGradients(builder).computeWide();
  roundGradients(builder);
}
