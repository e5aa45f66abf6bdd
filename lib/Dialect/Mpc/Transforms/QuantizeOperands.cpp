//===- QuantizeOperands.cpp - quantize operands of contractions -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Selects the contractions that the policy quantizes, tells weights from
// activations and gradients, and keeps the state of delayed scaling. The
// formulas are OperandQuantizer's.
//
//===----------------------------------------------------------------------===//

#include "OperandQuantizer.h"
#include "PolicyOption.h"

#include "mpc/Analysis/BackwardOps.h"
#include "mpc/Analysis/Float32Subgraphs.h"
#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCommunicationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include "llvm/ADT/MapVector.h"

#include <limits>
#include <map>

namespace mpc {
#define GEN_PASS_DEF_QUANTIZEOPERANDSPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

/// Returns the value whose elements `value` has, before casts and moves.
Value sourceOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<CastOp, TransposeOp, ReshapeOp, ReverseOp, BroadcastOp, SliceOp>(
            op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// Returns true if `op` multiplies floats that the model does not quantize
/// itself, and its kind has recipes.
bool isContraction(Operation &op) {
  return isa<MatmulOp, ConvOp, ConvTransposeOp, ConvFilterGradientOp>(op) &&
         !op.hasAttr(kOperandsAttr) &&
         isa<FloatType>(getElementTypeOrSelf(op.getOperand(0)));
}

/// Returns true if `value` is a weight: a parameter or constant, moved or cast.
bool isWeight(Value value, const StepFunction &step) {
  value = sourceOf(value);
  if (Operation *op = value.getDefiningOp())
    return isa<mpc::ConstantOp>(op);
  RoleAttr role = step.argumentRole(cast<BlockArgument>(value).getArgNumber());
  return role && (role.getKind() == RoleKind::parameter ||
                  role.getKind() == RoleKind::parameter_copy);
}

/// Returns the names of the op or input that computes the elements of `value`.
SmallVector<StringRef> namesOfSource(Value value, const StepFunction &step) {
  value = sourceOf(value);
  if (Operation *op = value.getDefiningOp())
    return opNames(op);
  return {step.argumentName(cast<BlockArgument>(value).getArgNumber())};
}

/// Returns true if an op of `backward` contracts what depends on the result of
/// `op`, as for the gradient of an activation. The gradient of a weight is
/// added up, checked and applied.
bool feedsContraction(Operation *op,
                      const llvm::DenseSet<Operation *> &backward) {
  SmallVector<Operation *> open = {op};
  llvm::DenseSet<Operation *> seen;
  while (!open.empty())
    for (Operation *user : open.pop_back_val()->getUsers()) {
      if (!backward.contains(user) || !seen.insert(user).second)
        continue;
      if (isa<ContractionOpInterface>(user))
        return true;
      open.push_back(user);
    }
  return false;
}

/// A contraction to quantize, with both operands.
struct Contraction {
  Operation *op = nullptr;
  OperandFormat format;
  OperandUse uses[2];
  bool isBackward = false;
  /// Columns of the operands in the state of delayed scaling, or -1. Operands
  /// are replaced by the rewrite of the contractions before.
  int64_t columns[2] = {-1, -1};
};

/// Largest magnitudes of the tensors of a step and the scales derived from
/// earlier ones. The state has one column per tensor.
class ScalingState {
public:
  ScalingState(const StepFunction &step, int64_t history, int64_t ranks)
      : step(step), steps(history), ranks(ranks) {}

  /// Adds a tensor of a delayed format; returns its column.
  int64_t add(const OperandFormat &format, OperandType type,
              std::string label) {
    largest.push_back(float(largestOf(type)));
    margins.push_back(float(std::exp2(-double(format.margin))));
    areLatest.push_back(format.mostRecent);
    labels.push_back(std::move(label));
    return int64_t(labels.size()) - 1;
  }

  /// Appends the arguments for all tensors.
  void appendArguments() {
    if (labels.empty())
      return;
    Builder builder(step.getFunction().getContext());
    auto scales = RankedTensorType::get({size()}, builder.getF32Type());
    auto rows = RankedTensorType::get({steps, size()}, builder.getF32Type());
    scale = step.appendArgument(scales, RoleKind::scaling_state, "scale",
                                DenseElementsAttr::get(scales, 1.0f));
    history = step.appendArgument(rows, RoleKind::scaling_state, "amax_history",
                                  DenseElementsAttr::get(rows, 0.0f));
    SmallVector<Attribute> texts;
    for (const std::string &label : labels)
      texts.push_back(builder.getStringAttr(label));
    for (BlockArgument argument : {scale, history})
      step.getFunction().setArgAttr(argument.getArgNumber(), "mpc.labels",
                                    builder.getArrayAttr(texts));
  }

  /// Returns the scale of a tensor, rank 0.
  Value scaleOf(ScalarEmitter &emit, int64_t column) {
    return emit.reshape(emit.sliceAxis(scale, 0, column, 1), {});
  }

  void setAmax(int64_t column, Value amax) {
    amaxes.resize(labels.size());
    amaxes[column] = amax;
  }

  /// Updates the state as TransformerEngine's delayed scaling does
  /// (common/recipe/delayed_scaling.cu): row 0 of the history is the current
  /// step's, scales follow before it is rotated. A tensor whose largest
  /// magnitude is zero keeps its scale and its history.
  void update() {
    if (labels.empty())
      return;
    OpBuilder builder = step.atEnd();
    ScalarEmitter emit(builder, step.terminator());
    emit.loc = NameLoc::get(builder.getStringAttr("scaling_state"));
    SmallVector<Value> columns;
    for (Value amax : amaxes)
      columns.push_back(emit.reshape(amax, {1}));
    Value current = emit.concat(columns, 0);
    if (ranks > 1)
      current = AllReduceOp::create(
                    builder, emit.loc, TypeRange(current.getType()), current,
                    RankReduction::max, uint64_t(ranks), TypeAttr())
                    .getOutputs()
                    .front();
    Value row = emit.reshape(current, {1, size()});
    Value amax = current;
    if (steps > 1 && llvm::is_contained(areLatest, false)) {
      Value older = emit.sliceAxis(history, 0, 1, steps - 1);
      amax = emit.max(emit.reduce<ReduceMaxOp>(older, {0}), current);
      if (llvm::is_contained(areLatest, true))
        amax = emit.select(
            emit.constant(DenseElementsAttr::get(
                RankedTensorType::get({size()}, builder.getI1Type()),
                ArrayRef<bool>(areLatest))),
            current, amax);
    }
    auto type = cast<RankedTensorType>(scale.getType());
    Value most = emit.splat({}, type.getElementType(),
                            std::numeric_limits<float>::max());
    Value limits =
        emit.constant(DenseElementsAttr::get(type, ArrayRef<float>(largest)));
    // A margin is applied after the division, as the recipe does.
    Value next = emit.div(limits, amax);
    if (llvm::any_of(margins, [](float margin) { return margin != 1; }))
      next = emit.mul(next, emit.constant(DenseElementsAttr::get(
                                type, ArrayRef<float>(margins))));
    Value isNonzero =
        emit.compare(ComparePredicate::ne, current, emit.number(0, current));
    // The comparison is false for infinity and NaN.
    Value isKnown = emit.binary<AndOp>(
        isNonzero, emit.compare(ComparePredicate::le, amax, most));
    step.setUpdate(scale, emit.select(isKnown, emit.min(next, most), scale));
    SmallVector<Value> rows = {
        emit.splat({1, size()}, type.getElementType(), 0)};
    if (steps > 2)
      rows.push_back(emit.sliceAxis(history, 0, 2, steps - 2));
    if (steps > 1)
      rows.push_back(row);
    Value rotated = rows.size() == 1 ? rows[0] : emit.concat(rows, 0);
    step.setUpdate(history, emit.select(emit.reshape(isNonzero, {1, size()}),
                                        rotated, history));
  }

private:
  int64_t size() const { return int64_t(labels.size()); }

  const StepFunction &step;
  /// Number of steps in the history.
  int64_t steps;
  int64_t ranks;
  /// By column: largest number of the type, 2^-margin, and whether only the
  /// latest largest magnitude counts.
  SmallVector<float> largest, margins;
  SmallVector<bool> areLatest;
  SmallVector<std::string> labels;
  SmallVector<Value> amaxes;
  BlockArgument scale, history;
};

struct QuantizeOperandsPass
    : mpc::impl::QuantizeOperandsPassBase<QuantizeOperandsPass> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    FailureOr<Policy> found = policyWith(policy, sets, context);
    if (succeeded(found))
      chosen = std::move(*found);
    return found;
  }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!chosen.quantizesOperands() || function.isDeclaration() ||
        !function.getBody().hasOneBlock())
      return markAllAnalysesPreserved();
    StepFunction step(function);
    contractions.clear();
    hasWeights = hasOtherTypes = false;
    known.clear();
    if (failed(collect(step)))
      return signalPassFailure();
    if (contractions.empty()) {
      if (hasOtherTypes)
        function.emitWarning()
            << "policy '" << chosen.getName()
            << "' quantizes operands of float32, but the model itself sets "
               "another type of every contraction that it selects";
      else if (hasWeights)
        function.emitWarning()
            << "policy '" << chosen.getName()
            << "' quantizes operands, but no contraction of weights is of a "
               "kind in 'operands.kinds' and of class low without an override; "
               "extend mixed_bfloat16, or list matmul in 'classes.low'";
      return;
    }
    const OperandFormat *delayed = nullptr;
    for (Contraction &contraction : contractions)
      if (contraction.format.scaling == OperandScaling::Delayed) {
        if (delayed && delayed->history != contraction.format.history) {
          contraction.op->emitError()
              << "is in a layer whose policy has a history of "
              << contraction.format.history << " steps, another layer's has "
              << delayed->history << "; give both the same";
          return signalPassFailure();
        }
        delayed = &contraction.format;
      }
    std::optional<ScalingState> state;
    if (delayed) {
      state.emplace(step, delayed->history, ranks);
      addTensors(*state);
      state->appendArguments();
    }
    giveRandomState(step);
    for (const Contraction &contraction : contractions)
      rewrite(contraction, state ? &*state : nullptr);
    if (state)
      state->update();
    numQuantized += contractions.size();
  }

private:
  /// Everything that determines the numbers of an operand.
  using Key = std::tuple<void *, std::string, int, int64_t, bool>;

  /// Returns the format of the operands of `op`; inactive if it has none.
  FailureOr<OperandFormat> formatOf(Operation *op, bool isBackward) {
    FailureOr<OpPolicy> found = policyOf(op, chosen, isBackward);
    if (failed(found))
      return failure();
    auto [policy, override] = *found;
    const OperandFormat &format = policy->getOperands();
    // An override names the type in which the op multiplies.
    // Gradients have no integer recipe.
    if (override || !format.isActive() ||
        (isBackward && format.forward == OperandType::Int8) ||
        policy->classOf(cast<PrecisionOpInterface>(op).getPrecisionKind()) !=
            PrecisionClass::Low ||
        chosen.productOf(opNames(op), isBackward) ||
        !llvm::is_contained(format.kinds,
                            isa<MatmulOp>(op) ? "matmul" : "conv"))
      return OperandFormat();
    return format;
  }

  /// Returns the sources of the weights that only the last contractions of the
  /// forward pass read, which `keep_last` exempts.
  FailureOr<llvm::DenseSet<Value>>
  lastWeights(const StepFunction &step,
              const llvm::DenseSet<Operation *> &backward) {
    SmallVector<std::pair<Value, double>> weights;
    for (Operation &op : step.body()) {
      if (!isContraction(op) || backward.contains(&op))
        continue;
      for (Value operand : op.getOperands().take_front(2)) {
        if (!isWeight(operand, step))
          continue;
        FailureOr<OperandFormat> format = formatOf(&op, /*isBackward=*/false);
        if (failed(format))
          return failure();
        if (format->isActive())
          weights.emplace_back(sourceOf(operand), format->keepLast);
        break;
      }
    }
    llvm::DenseSet<Value> last;
    for (auto [i, weight] : llvm::enumerate(llvm::reverse(weights)))
      if (i + 1 < weights.size() &&
          double(i) < weight.second * double(weights.size()))
        last.insert(weight.first);
      else
        last.erase(weight.first);
    return last;
  }

  /// Finds the contractions of weights, their gradients, and the roles of their
  /// operands.
  LogicalResult collect(const StepFunction &step) {
    llvm::DenseSet<Operation *> backward = findBackward(step.getFunction());
    isTraining = !backward.empty();
    FailureOr<llvm::DenseSet<Value>> kept = lastWeights(step, backward);
    if (failed(kept))
      return failure();
    // Sources of the operands that quantized contractions multiply by weights,
    // and the sizes of these weights.
    llvm::DenseSet<std::pair<Value, int64_t>> activations;
    for (Operation &op : step.body()) {
      if (!isContraction(op))
        continue;
      bool isBackward = backward.contains(&op), hasWeight = false,
           hasActivation = false, isKept = false;
      Contraction found{&op, {}, {}, isBackward, {-1, -1}};
      for (unsigned i : {0, 1}) {
        Value operand = op.getOperand(i);
        OperandUse &use = found.uses[i];
        if (isBackward && backward.contains(operand.getDefiningOp()))
          use.part = OperandPart::Gradient;
        else if (isWeight(operand, step))
          use.part = OperandPart::Weight;
        hasWeight |= use.part == OperandPart::Weight;
        isKept |= use.part == OperandPart::Weight &&
                  kept->contains(sourceOf(operand));
        hasActivation |= use.part == OperandPart::Activation &&
                         activations.contains({sourceOf(operand),
                                               elementCount(op.getResult(0))});
        if (auto matmul = dyn_cast<MatmulOp>(op)) {
          bool isTransposed =
              i == 0 ? matmul.getTransposeLhs() : !matmul.getTransposeRhs();
          use.axis = int64_t(shapeOf(operand).size()) - (isTransposed ? 2 : 1);
        }
      }
      // Products of two activations belong to attention, and so do the
      // gradients of these.
      bool isWeightGradient = isBackward && !hasWeight && hasActivation &&
                              !feedsContraction(&op, backward);
      if (!hasWeight && !isWeightGradient)
        continue;
      hasWeights = true;
      FailureOr<OperandFormat> format = formatOf(&op, isBackward);
      if (failed(format))
        return failure();
      if (!format->isActive() || isKept)
        continue;
      if (!getElementTypeOrSelf(op.getOperand(0)).isF32() ||
          !getElementTypeOrSelf(op.getOperand(1)).isF32()) {
        op.setDiscardableAttr(kUnquantizedAttr, UnitAttr::get(op.getContext()));
        hasOtherTypes = true;
        continue;
      }
      found.format = std::move(*format);
      if (found.format.scaling == OperandScaling::Delayed && !isTraining)
        // Only a training step has earlier steps.
        found.format.scaling = OperandScaling::Current;
      for (OperandUse &use : found.uses)
        use.isWeightGradient = isWeightGradient;
      for (unsigned i : {0, 1})
        if (!isBackward && found.uses[i].part == OperandPart::Activation)
          activations.insert(
              {sourceOf(op.getOperand(i)), elementCount(op.getOperand(1 - i))});
      contractions.push_back(std::move(found));
    }
    return success();
  }

  static bool hasAxis(const OperandFormat &format) {
    return format.isBlocked() || format.scaling == OperandScaling::Row ||
           format.scaling == OperandScaling::Calibrated;
  }

  /// Returns what is quantized for operand `i`: with a scale per tensor, the
  /// tensor before reshapes, which the forward and backward pass may read in
  /// different shapes.
  static Value quantizedValue(const Contraction &contraction, unsigned i) {
    Value value = contraction.op->getOperand(i);
    if (!hasAxis(contraction.format))
      while (auto reshape = value.getDefiningOp<ReshapeOp>())
        value = reshape.getInput();
    return value;
  }

  static Key keyOf(const Contraction &contraction, unsigned i) {
    const OperandUse &use = contraction.uses[i];
    const OperandFormat &format = contraction.format;
    return {quantizedValue(contraction, i).getAsOpaquePointer(),
            format.canonical(), int(use.part), hasAxis(format) ? use.axis : -1,
            use.isWeightGradient && format.hadamard && format.isBlocked()};
  }

  /// Gives each tensor of a delayed scaling its column of the state.
  void addTensors(ScalingState &state) {
    std::map<Key, int64_t> columns;
    for (Contraction &contraction : contractions) {
      if (contraction.format.scaling != OperandScaling::Delayed)
        continue;
      for (unsigned i : {0, 1}) {
        auto [column, inserted] =
            columns.try_emplace(keyOf(contraction, i), int64_t(columns.size()));
        contraction.columns[i] = column->second;
        if (!inserted)
          continue;
        bool isGradient = contraction.uses[i].part == OperandPart::Gradient;
        state.add(contraction.format,
                  isGradient ? contraction.format.backward
                             : contraction.format.forward,
                  nameOf(contraction.op, i));
      }
    }
  }

  static std::string nameOf(Operation *op, unsigned i) {
    return (mpc::opName(op) + (i == 0 ? "/lhs" : "/rhs")).str();
  }

  void giveRandomState(const StepFunction &step) {
    int64_t stream = 0;
    for (Operation &op : step.body())
      if (auto bits = dyn_cast<RandomBitsOp>(op))
        stream = std::max(stream, int64_t(bits.getStream()) + 1);
      else if (auto dropout = dyn_cast<DropoutOp>(op))
        stream = std::max(stream, int64_t(dropout.getStream()) + 1);
    for (Contraction &contraction : contractions)
      for (OperandUse &use : contraction.uses)
        if (contraction.format.stochastic &&
            use.part == OperandPart::Gradient) {
          use.randomState = step.randomState();
          use.stream = stream++;
        }
  }

  /// Returns the recorded range of a calibrated activation, or null.
  const MeasuredRange *rangeOf(const Contraction &contraction, unsigned i) {
    if (contraction.format.scaling != OperandScaling::Calibrated ||
        contraction.uses[i].part == OperandPart::Weight)
      return nullptr;
    SmallVector<StringRef> names = namesOfSource(contraction.op->getOperand(i),
                                                 StepFunction(getOperation()));
    const MeasuredRange *range = chosen.rangeOf(names);
    if (range && range->largest > 0)
      return range;
    contraction.op->emitWarning()
        << "policy '" << chosen.getName()
        << "' scales operands by recorded ranges and has none for '"
        << (names.empty() ? StringRef("an op without a name") : names.front())
        << "', so each tensor's own largest magnitude is used; record ranges "
           "by "
           "mpc calibrate";
    return nullptr;
  }

  QuantizedOperand quantize(const Contraction &contraction, unsigned i,
                            ScalingState *state) {
    Key key = keyOf(contraction, i);
    auto [entry, inserted] = known.try_emplace(key);
    if (!inserted)
      return entry->second;
    Operation *op = contraction.op;
    OpBuilder builder(op);
    ScalarEmitter emit(builder, op);
    emit.loc = NameLoc::get(builder.getStringAttr(nameOf(op, i)));
    OperandQuantizer quantizer(emit, contraction.format,
                               isTraining ? int64_t(ranks) : 1);
    Operation *before = op->getPrevNode();
    OperandUse use = contraction.uses[i];
    int64_t column = contraction.columns[i];
    if (column >= 0)
      use.scale = state->scaleOf(emit, column);
    if (const MeasuredRange *range = rangeOf(contraction, i))
      use.scale = emit.splat(
          {}, builder.getF32Type(),
          std::min(largestOf(contraction.format.forward) / range->largest,
                   double(std::numeric_limits<float>::max())));
    Value value = quantizedValue(contraction, i);
    QuantizedOperand made = quantizer.quantize(value, use);
    if (column >= 0)
      state->setAmax(column, quantizer.largestMagnitude(value));
    // Scales and what is encoded stay in f32. The numbers themselves are exact
    // in the type in which the op multiplies.
    Operation *number = made.value.getDefiningOp();
    llvm::DenseSet<Operation *> numbers;
    while (number && !isa<DecodeFloatOp>(number) &&
           isa<ReshapeOp, SliceOp, MulOp>(number)) {
      numbers.insert(number);
      number = number->getOperand(0).getDefiningOp();
    }
    numbers.insert(number);
    for (Operation *each = before ? before->getNextNode()
                                  : &op->getBlock()->front();
         each != op; each = each->getNextNode())
      if (!numbers.contains(each) && !isa<mpc::ConstantOp, MatmulOp>(each))
        each->setDiscardableAttr(kScaleAttr, builder.getUnitAttr());
    return entry->second = made;
  }

  void rewrite(const Contraction &contraction, ScalingState *state) {
    Operation *op = contraction.op;
    QuantizedOperand made[2];
    for (unsigned i : {0, 1})
      made[i] = quantize(contraction, i, state);
    OpBuilder builder(op);
    ScalarEmitter emit(builder, op);
    for (unsigned i : {0, 1})
      if (ArrayRef<int64_t> shape = shapeOf(op->getOperand(i));
          shapeOf(made[i].value) != shape)
        made[i].value = emit.reshape(made[i].value, shape);
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    Value result = op->getResult(0);
    if (auto matmul = dyn_cast<MatmulOp>(op);
        matmul && getElementTypeOrSelf(made[0].value.getType()).isInteger(8)) {
      Value sums = emit.create<MatmulOp>(
          type.clone(builder.getI32Type()), made[0].value, made[1].value,
          matmul.getTransposeLhs(), matmul.getTransposeRhs(), TypeAttr(),
          ComputeMode::native, PackedAttr());
      op = sums.getDefiningOp();
      result = emit.cast(sums, type.getElementType());
      contraction.op->getResult(0).replaceAllUsesWith(result);
      contraction.op->erase();
    } else {
      for (unsigned i : {0, 1})
        op->setOperand(i, made[i].value);
    }
    std::string text = contraction.format.describe();
    op->setDiscardableAttr(kOperandsAttr, builder.getStringAttr(text));
    if (contraction.isBackward)
      op->setDiscardableAttr(kBackwardAttr, builder.getUnitAttr());
    builder.setInsertionPointAfter(result.getDefiningOp());
    SmallVector<Value, 3> factors;
    for (unsigned i : {0, 1}) {
      Value factor = made[i].descale;
      if (!factor)
        continue;
      // Factors of rows follow the result's layout.
      if (auto matmul = dyn_cast<MatmulOp>(op);
          matmul && !shapeOf(factor).empty()) {
        int64_t rank = int64_t(shapeOf(factor).size());
        bool isTransposed =
            i == 0 ? matmul.getTransposeLhs() : matmul.getTransposeRhs();
        if (isTransposed) {
          SmallVector<int64_t> swapped(shapeOf(factor));
          std::swap(swapped[rank - 2], swapped[rank - 1]);
          factor = emit.reshape(factor, swapped);
        }
      }
      factors.push_back(factor);
    }
    // Factors below 1 first: the sum times them overflows only if the result
    // does, and what underflows is below an ulp of f32 of the largest terms.
    if (factors.size() == 2) {
      Value one = emit.number(1, factors[1]), low = emit.min(factors[1], one),
            high = emit.max(factors[1], one);
      for (Value factor : {low, high})
        factor.getDefiningOp()->setDiscardableAttr(kScaleAttr,
                                                   builder.getUnitAttr());
      factors = {low, factors[0], high};
    }
    Value scaled = result;
    SmallPtrSet<Operation *, 3> readers;
    for (Value factor : factors) {
      scaled = emit.mul(scaled, factor);
      readers.insert(scaled.getDefiningOp());
    }
    result.replaceAllUsesExcept(scaled, readers);
  }

  Policy chosen;
  SmallVector<Contraction> contractions;
  /// Whether any contraction has a weight as an operand, and whether the
  /// function has a backward pass.
  bool hasWeights = false, isTraining = false;
  /// Whether the model sets another type than f32 of a selected contraction.
  bool hasOtherTypes = false;
  /// Operands that are quantized already.
  std::map<Key, QuantizedOperand> known;
};

} // namespace
