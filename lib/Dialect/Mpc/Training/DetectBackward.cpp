//===- DetectBackward.cpp - detect a model's backward pass ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract in: Import's; must run before Simplify, which folds the constants
// from which the cotangents start. Contract out: a loss-scale seed multiplied
// into these constants and divided out of the gradients.
//
//===----------------------------------------------------------------------===//

#include "Linearity.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Dialect/Mpc/Training/Passes.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_DETECTBACKWARDPASS
#include "mpc/Dialect/Mpc/Training/Passes.h.inc"
} // namespace mpc

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

namespace {

/// Finds the values that are linear in the constants from which the cotangents
/// of a loss start.
class BackwardPassDetector {
public:
  explicit BackwardPassDetector(func::FuncOp function) : step(function) {}

  /// Returns true if the function is a training step that updates its state.
  bool isStep();
  /// Detects the backward pass; returns false with a remark if there is none.
  bool find();
  /// Inserts the seeds and the divisions.
  void rewrite();

  int64_t seeds = 0, gradients = 0;

private:
  /// Dependence of a value on the seeds.
  enum class Kind {
    /// Not linear in any seed.
    Other,
    Zero,
    /// A constant factor: a seed if chosen as one.
    Number,
    /// Linear in a seed, through `depth` accumulating ops.
    Linear,
  };
  struct State {
    Kind kind = Kind::Other;
    int64_t depth = 0;
    /// Operands in which the op is linear.
    Linearity::Operands by;
  };

  void collectAncestors(Value value, llvm::DenseSet<Operation *> &found) const;
  const State &stateOf(Value value) const;
  State follow(Operation *op) const;
  State followTogether(const Linearity &linearity, Operation *op) const;
  State followAlone(const Linearity &linearity, Operation *op) const;
  bool isBackward(Operation *op) const { return backward.contains(op); }
  /// Returns true if an op of the backward pass is linear in this operand.
  bool carriesSeed(OpOperand &use) const;
  Value seeded(OpBuilder &builder, Value number);
  /// Returns the seed in the given element type.
  Value seedOf(OpBuilder &builder, Location loc, Type element);

  StepFunction step;
  /// Ops that the loss, and other outputs, depend on.
  llvm::DenseSet<Operation *> forward, backward;
  llvm::DenseMap<Value, State> states;
  llvm::DenseMap<Value, Value> seededNumbers;
  Value seed;
};

} // namespace

void BackwardPassDetector::collectAncestors(
    Value value, llvm::DenseSet<Operation *> &found) const {
  SmallVector<Operation *> open;
  auto add = [&](Value read) {
    if (Operation *op = read.getDefiningOp(); op && found.insert(op).second)
      open.push_back(op);
  };
  add(value);
  while (!open.empty())
    for (Value operand : open.pop_back_val()->getOperands())
      add(operand);
}

static int64_t countContractions(const llvm::DenseSet<Operation *> &ops) {
  return llvm::count_if(
      ops, [](Operation *op) { return isa<ContractionOpInterface>(op); });
}

bool BackwardPassDetector::isStep() {
  func::FuncOp function = step.getFunction();
  bool replaces = false;
  int64_t fewest = 0;
  std::vector<llvm::DenseSet<Operation *>> others;
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    Value value = step.result(i);
    if (function.getResultAttr(i, MpcDialect::kAliasAttr)) {
      replaces |= isa<FloatType>(getElementTypeOrSelf(value.getType()));
      continue;
    }
    collectAncestors(value, others.emplace_back());
    // The loss is the scalar with the fewest contractions: a gradient norm also
    // needs those of the backward pass.
    auto type = cast<RankedTensorType>(value.getType());
    int64_t products = countContractions(others.back());
    if (elementCount(type) != 1 || !isa<FloatType>(type.getElementType()) ||
        products == 0 || (fewest != 0 && products >= fewest))
      continue;
    fewest = products;
    forward = others.back();
  }
  if (!replaces || fewest == 0)
    return false;
  // Outputs and metrics besides the loss need no further contractions.
  llvm::DenseSet<Operation *> loss = forward;
  for (const llvm::DenseSet<Operation *> &ops : others)
    if (llvm::all_of(ops, [&](Operation *op) {
          return !isa<ContractionOpInterface>(op) || loss.contains(op);
        }))
      forward.insert(ops.begin(), ops.end());
  return llvm::any_of(step.body(), [&](Operation &op) {
    return isa<ContractionOpInterface>(op) && !forward.contains(&op);
  });
}

const BackwardPassDetector::State &
BackwardPassDetector::stateOf(Value value) const {
  static const State other;
  auto found = states.find(value);
  return found == states.end() ? other : found->second;
}

BackwardPassDetector::State
BackwardPassDetector::followTogether(const Linearity &linearity,
                                     Operation *op) const {
  State state{Kind::Zero, 0, {}};
  for (unsigned index : linearity.together) {
    const State &operand = stateOf(op->getOperand(index));
    if (operand.kind == Kind::Other)
      return {};
    state.kind = std::max(state.kind, operand.kind);
    state.depth = std::max(state.depth, operand.depth);
    if (operand.kind != Kind::Zero)
      state.by.push_back(index);
  }
  return state;
}

BackwardPassDetector::State
BackwardPassDetector::followAlone(const Linearity &linearity,
                                  Operation *op) const {
  State state;
  bool allNumbers = true;
  for (Value operand : op->getOperands())
    allNumbers &= stateOf(operand).kind == Kind::Number;
  for (unsigned index : linearity.alone) {
    const State &operand = stateOf(op->getOperand(index));
    if (operand.kind == Kind::Zero)
      return {Kind::Zero, 0, {}};
    if (operand.kind == Kind::Other || operand.kind < state.kind)
      continue;
    if (operand.kind == state.kind && operand.kind == Kind::Linear) {
      // The square of a gradient is not linear in a seed. Recomputed forward
      // values are few ops away from a constant.
      if (operand.depth == state.depth)
        return {};
      if (operand.depth < state.depth)
        continue;
    }
    state = {operand.kind, operand.depth, {index}};
  }
  if (state.kind == Kind::Number && !allNumbers)
    state.kind = Kind::Linear;
  return state;
}

BackwardPassDetector::State BackwardPassDetector::follow(Operation *op) const {
  Linearity linearity = linearityOf(op);
  State state;
  if (!linearity.together.empty())
    state = followTogether(linearity, op);
  else if (!linearity.alone.empty())
    state = followAlone(linearity, op);
  if (state.kind == Kind::Linear && linearity.adds)
    ++state.depth;
  return state;
}

bool BackwardPassDetector::carriesSeed(OpOperand &use) const {
  Operation *op = use.getOwner();
  return isBackward(op) && llvm::is_contained(stateOf(op->getResult(0)).by,
                                              use.getOperandNumber());
}

bool BackwardPassDetector::find() {
  for (Operation &op : step.body()) {
    if (auto constant = dyn_cast<mpc::ConstantOp>(op)) {
      std::optional<double> splat =
          isa<FloatType>(getElementTypeOrSelf(constant.getType()))
              ? splatValue(constant.getValue())
              : std::nullopt;
      if (splat)
        states[constant] = {*splat == 0 ? Kind::Zero : Kind::Number, 0, {}};
      continue;
    }
    if (op.getNumResults() != 1)
      continue;
    State state = follow(&op);
    // The forward pass is linear in no seed, but broadcasts in it may be
    // constants.
    if (forward.contains(&op) && state.kind == Kind::Linear)
      state = {};
    if (state.kind != Kind::Other)
      states[op.getResult(0)] = state;
  }
  bool hasProduct = false;
  for (Operation &op : llvm::reverse(step.body())) {
    if (op.getNumResults() != 1)
      continue;
    const State &state = stateOf(op.getResult(0));
    if (state.kind != Kind::Linear)
      continue;
    bool isRead = llvm::any_of(
        op.getUses(), [&](OpOperand &use) { return carriesSeed(use); });
    if (!isRead && !linearityOf(&op).adds)
      continue;
    backward.insert(&op);
    hasProduct |= isa<ContractionOpInterface>(op);
  }
  // A transposed or reshaped gradient is still a gradient: in 16 bits it may be
  // moved with the scale, but not without.
  for (Operation &op : step.body())
    if (auto movement = dyn_cast<MovementOpInterface>(op);
        movement && stateOf(op.getResult(0)).kind == Kind::Linear &&
        llvm::all_of(op.getOperands(), [&](Value value) {
          return stateOf(value).kind == Kind::Zero ||
                 (value.getDefiningOp() && isBackward(value.getDefiningOp()));
        }))
      backward.insert(&op);
  func::FuncOp function = step.getFunction();
  if (!hasProduct) {
    function.emitRemark()
        << "looks like a training step, but its backward pass does not start "
           "at a constant that can be scaled, so no loss scale is applied; "
           "scale the loss in the model, or train its loss with mpc train";
    return false;
  }
  // A skipped step must leave everything that depends on the gradients
  // unchanged.
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    Value value = step.result(i);
    llvm::DenseSet<Operation *> ancestors;
    collectAncestors(value, ancestors);
    if (function.getResultAttr(i, MpcDialect::kAliasAttr) ||
        elementCount(value.getType()) == 1 ||
        !llvm::any_of(ancestors, [&](Operation *op) { return isBackward(op); }))
      continue;
    function.emitRemark()
        << "result '" << step.resultName(i)
        << "' depends on the gradients but replaces no argument, so "
           "overflowing steps could not be skipped and no loss scale is "
           "applied; donate the state that it replaces";
    return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// The rewrite
//===----------------------------------------------------------------------===//

Value BackwardPassDetector::seedOf(OpBuilder &builder, Location loc,
                                   Type element) {
  if (!seed) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&step.body());
    seed =
        GradientSeedOp::create(builder, step.getFunction().getLoc(),
                               RankedTensorType::get({}, builder.getF32Type()));
  }
  if (element.isF32())
    return seed;
  return CastOp::create(builder, loc, RankedTensorType::get({}, element), seed);
}

Value BackwardPassDetector::seeded(OpBuilder &builder, Value number) {
  if (Value made = seededNumbers.lookup(number))
    return made;
  Operation *op = number.getDefiningOp();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfter(op);
  // Seeds the scalar itself, not its broadcasts.
  if (isa<BroadcastOp, ReshapeOp>(op)) {
    Value inner = seeded(builder, op->getOperand(0));
    Operation *copy = builder.clone(*op);
    copy->setOperand(0, inner);
    return seededNumbers[number] = copy->getResult(0);
  }
  ++seeds;
  Value factor =
      seedOf(builder, op->getLoc(), getElementTypeOrSelf(number.getType()));
  return seededNumbers[number] = MulOp::create(
             builder, op->getLoc(), number.getType(), number, factor);
}

void BackwardPassDetector::rewrite() {
  OpBuilder builder(step.getFunction());
  SmallVector<Operation *> ops;
  for (Operation &op : step.body())
    if (isBackward(&op))
      ops.push_back(&op);
  for (Operation *op : ops)
    for (unsigned index : stateOf(op->getResult(0)).by)
      if (stateOf(op->getOperand(index)).kind == Kind::Number)
        op->setOperand(index, seeded(builder, op->getOperand(index)));
  for (Operation *op : ops) {
    Value value = op->getResult(0);
    SmallVector<OpOperand *> ends;
    for (OpOperand &use : value.getUses())
      if (!carriesSeed(use))
        ends.push_back(&use);
    if (ends.empty())
      continue;
    builder.setInsertionPointAfter(op);
    Value factor =
        seedOf(builder, op->getLoc(), getElementTypeOrSelf(value.getType()));
    Value end =
        DivOp::create(builder, op->getLoc(), value.getType(), value, factor);
    for (OpOperand *use : ends)
      use->set(end);
    ++gradients;
  }
}

namespace {

struct DetectBackwardPass
    : mpc::impl::DetectBackwardPassBase<DetectBackwardPass> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isDeclaration() || !function.isPublic() ||
        !function.getBody().hasOneBlock())
      return;
    bool isOurs = llvm::any_of(function.getBody().front(), [](Operation &op) {
      return isa<GradientSeedOp, OptimizerOpInterface>(op);
    });
    BackwardPassDetector finder(function);
    if (isOurs || !finder.isStep() || !finder.find())
      return markAllAnalysesPreserved();
    finder.rewrite();
    numSeeds += finder.seeds;
    numGradients += finder.gradients;
  }
};

} // namespace
