//===- WeightClassifier.cpp - parameters or buffers -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WeightClassifier.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/ConstantOrigin.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcRecurrentOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"
#include "mpc/Reference/Tensor.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// Minimum magnitude of finite mask values that represent -inf.
static constexpr double kMaskMagnitude = 50;

static bool isFinite(ElementsAttr value) {
  if (std::optional<double> splat = splatValue(value))
    return std::isfinite(*splat);
  FailureOr<reference::Tensor> tensor = reference::Tensor::fromAttr(value);
  return succeeded(tensor) &&
         llvm::all_of(tensor->floats(),
                      [](double element) { return std::isfinite(element); });
}

/// Number of dimensions with more than one element.
static int64_t wideDims(ArrayRef<int64_t> shape) {
  return llvm::count_if(shape, [](int64_t extent) { return extent > 1; });
}

/// Returns true if the elements form a mask: 0 and large negative values, or,
/// in a matrix, both 0 and 1.
static bool holdsMask(const reference::Tensor &tensor) {
  if (tensor.size() < 2)
    return false;
  int64_t zeros = llvm::count(tensor.floats(), 0.0),
          ones = llvm::count(tensor.floats(), 1.0);
  if (zeros == 0)
    return false;
  if (ones > 0 && zeros + ones == tensor.size())
    return wideDims(tensor.getShape()) > 1;
  return zeros < tensor.size() && llvm::all_of(
                                      tensor.floats(),
                                      [](double element) {
                                        return element == 0.0 ||
                                               element <= -kMaskMagnitude;
                                      });
}

/// Returns true if every row of a table along `axis` is a sampled wave, v(p +
/// 1) + v(p - 1) = c v(p) with |c| <= 2: a sine or cosine, or a ramp for c = 2.
/// Not all rows may be constant.
static bool followsWaves(const reference::Tensor &tensor, int64_t axis,
                         double tolerance, bool ramps) {
  ArrayRef<int64_t> shape = tensor.getShape();
  int64_t count = shape[axis], stride = productOf(shape.drop_front(axis + 1));
  if (count < 5)
    return false;
  ArrayRef<double> values = tensor.floats();
  bool varies = false;
  for (int64_t line = 0, lines = tensor.size() / count; line < lines; ++line) {
    int64_t begin = line / stride * stride * count + line % stride;
    auto at = [&](int64_t i) { return values[begin + i * stride]; };
    double product = 0, square = 0, slope = 0, largest = 0;
    for (int64_t i = 0; i < count; ++i)
      largest = std::max(largest, std::fabs(at(i)));
    for (int64_t i = 1; i + 1 < count; ++i) {
      product += at(i) * (at(i - 1) + at(i + 1));
      square += at(i) * at(i);
      slope = std::max(slope, std::fabs(at(i) - at(i - 1)));
    }
    double limit = tolerance * largest;
    double c = square > 0 ? std::clamp(product / square, -2.0, 2.0) : 0;
    for (int64_t i = 1; i + 1 < count; ++i)
      if (std::fabs(at(i - 1) + at(i + 1) - c * at(i)) > limit)
        return false;
    varies |= slope > 16 * limit && (ramps || c < 2 - 16 * tolerance);
  }
  return varies;
}

/// Returns true for a position table of at least two dimensions: sampled waves
/// or, with `ramps`, coordinates.
static bool holdsWaves(const reference::Tensor &tensor, bool ramps) {
  ArrayRef<int64_t> shape = tensor.getShape();
  if (wideDims(shape) < 2)
    return false;
  // The rounding error of float32 angles is proportional to the angle.
  double tolerance =
      tensor.getType().getElementTypeBitWidth() < 32 ? 0.03 : 2e-3;
  for (int64_t axis = 0; axis < tensor.getRank(); ++axis)
    if (followsWaves(tensor, axis, tolerance, ramps))
      return true;
  return false;
}

/// Returns true for a grid of points of at least two dimensions: few repeated
/// values at multiples of a step.
static bool holdsGrid(const reference::Tensor &tensor) {
  if (wideDims(tensor.getShape()) < 2)
    return false;
  SmallVector<double> levels(tensor.floats());
  llvm::sort(levels);
  levels.erase(llvm::unique(levels), levels.end());
  if (levels.size() < 3 || int64_t(2 * levels.size()) > tensor.size())
    return false;
  double step = levels.back() - levels.front();
  for (size_t i = 1; i < levels.size(); ++i)
    step = std::min(step, levels[i] - levels[i - 1]);
  return llvm::all_of(levels, [&](double level) {
    double steps = (level - levels.front()) / step;
    return std::fabs(steps - std::nearbyint(steps)) < 1e-3;
  });
}

/// Returns true for a fixed signal-processing filter: depthwise, equal in all
/// channels, and symmetric or antisymmetric about its center.
static bool holdsFixedFilter(const reference::Tensor &tensor) {
  ArrayRef<int64_t> shape = tensor.getShape();
  if (shape.size() < 3 || shape[1] != 1)
    return false;
  int64_t taps = productOf(shape.drop_front(2));
  ArrayRef<double> values = tensor.floats();
  if (taps < 2 || llvm::all_of(values, [](double tap) { return tap == 0; }))
    return false;
  for (int64_t channel = 0; channel < shape[0]; ++channel) {
    ArrayRef<double> filter = values.slice(channel * taps, taps);
    bool same = true, opposite = true;
    for (int64_t i = 0; i < taps; ++i) {
      same &= filter[i] == filter[taps - 1 - i];
      opposite &= filter[i] == -filter[taps - 1 - i];
    }
    if (!same && !opposite)
      return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// Returns the last component of a name in lower case: "weight" of
/// "h.0.fc.weight", "dense/weight:0" and "dense/weight/ReadVariableOp:0".
static std::string lastComponent(StringRef name) {
  name.consume_back(":0");
  name.consume_back("/ReadVariableOp");
  size_t at = name.find_last_of("./:");
  return name.drop_front(at == StringRef::npos ? 0 : at + 1).lower();
}

/// Returns true for names that frameworks give to parameters.
static bool isParameterName(StringRef name) {
  std::string last = lastComponent(name);
  StringRef text = last;
  if (llvm::is_contained({"weight", "bias", "gamma", "beta", "kernel",
                          "embeddings", "logit_scale"},
                         text) ||
      text.ends_with("token") || text.ends_with("_weight"))
    return true;
  return text.ends_with("_bias") && !text.contains("mask");
}

/// Returns true for names that models give to buffers.
static bool isBufferName(StringRef name) {
  std::string last = lastComponent(name);
  StringRef text = last;
  if (text.contains("mask") ||
      llvm::is_contained({"mean", "std", "pe", "freqs", "freqs_cis", "cos",
                          "sin", "anchors", "strides", "grid", "window", "filt",
                          "blur", "slopes", "alibi", "position_ids"},
                         text))
    return true;
  for (StringRef end : {"_mean", "_std", "_freq", "_freqs", "_cached", "_cache",
                        "_grid", "_buffer", "_filter"})
    if (text.ends_with(end))
      return true;
  return false;
}

/// Returns true if a tool generated the name ("onnx::Mul_12", "val_3",
/// "const_fold__7", "123") or it names a number.
static bool isNumberName(StringRef name) {
  if (name.contains("::") || name.contains_insensitive("const") ||
      name.ends_with("/x:0") || name.ends_with("/y:0") ||
      llvm::is_contained(
          {"zero", "half", "one", "two", "three", "six", "eps", "epsilon"},
          lastComponent(name)))
    return true;
  StringRef stem = name.rtrim("0123456789");
  return stem.empty() ||
         (stem.size() < name.size() &&
          llvm::is_contained({"val_", "tmp_", "t_", "_", "x_", "scalar_tensor_",
                              "scalar_tensor_default_"},
                             stem)) ||
         name == "scalar_tensor_default";
}

//===----------------------------------------------------------------------===//
// Uses
//===----------------------------------------------------------------------===//

/// How a constant is combined with data.
struct WeightClassifier::Use {
  enum class Kind {
    /// As a layer's weight.
    Weight,
    /// Weight used as a filter, or as an embedding table.
    Filter,
    Table,
    /// As a position table or a constant of a formula.
    Formula,
    /// Shift or scale of a raw input.
    Normalization,
    /// No evidence.
    Unknown,
  };
  Kind kind = Kind::Unknown;
  std::string text;
  /// Whether the value is the neutral element of the op.
  bool isNeutral = false;
};

OpOperand *mpc::statisticsUse(Value value) {
  for (OpOperand &use : value.getUses()) {
    Operation *op = use.getOwner();
    if (isa<BatchNormOp, BatchNormTrainingOp>(op) &&
        use.getOperandNumber() >= 3)
      return &use;
    if (isa<CastOp>(op))
      if (OpOperand *found = statisticsUse(op->getResult(0)))
        return found;
  }
  return nullptr;
}

/// Returns the producer of `value` before movement and casts.
static Operation *producerOf(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && (isa<CastOp>(op) || isUnaryMovement(op)))
    op = op->getOperand(0).getDefiningOp();
  return op;
}

static bool isArithmetic(Operation *op) {
  return isa<AddOp, SubOp, MulOp, DivOp>(op);
}

WeightClassifier::WeightClassifier(const StepFunction &step) {
  for (BlockArgument argument : step.body().getArguments()) {
    data.insert(argument);
    RoleAttr role = step.argumentRole(argument.getArgNumber());
    if (!role || role.getKind() == RoleKind::input)
      raw.insert(argument);
  }
  for (Operation &op : step.body()) {
    hasTrainingNorms |= isa<BatchNormTrainingOp>(op);
    if (auto constant = dyn_cast<ConstantOp>(op))
      if (auto origin = ConstantOrigin::get(constant)) {
        hasOrigins = true;
        hasInitializers |=
            origin->kind != ConstantOrigin::Kind::Node &&
            isa<FloatType>(getElementTypeOrSelf(constant.getType()));
      }
    bool reads = llvm::any_of(op.getOperands(), [&](Value operand) {
      return data.contains(operand);
    });
    if (!reads && op.getNumRegions() == 0)
      continue;
    bool isRaw = isa<CastOp>(op) || isArithmetic(&op) || isUnaryMovement(&op);
    int64_t readers = 0;
    for (Value operand : op.getOperands()) {
      isRaw &= !data.contains(operand) || raw.contains(operand);
      readers += data.contains(operand);
    }
    for (Value result : op.getResults()) {
      data.insert(result);
      if (isRaw && readers == 1)
        raw.insert(result);
    }
  }
}

/// Returns true if both sine and cosine are taken of `value`, after movement
/// and arithmetic: it holds angles.
static bool feedsSineAndCosine(Value value) {
  bool sine = false, cosine = false;
  SmallVector<Value> open = {value};
  llvm::DenseSet<Value> seen;
  while (!open.empty() && seen.size() < 64) {
    Value next = open.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    for (Operation *user : next.getUsers()) {
      sine |= isa<SinOp>(user);
      cosine |= isa<CosOp>(user);
      if (isa<CastOp>(user) || isArithmetic(user) ||
          isa<MovementOpInterface>(user))
        llvm::append_range(open, user->getResults());
    }
  }
  return sine && cosine;
}

/// Returns true if `value` is an initial state of the recurrent layer `op`.
static bool isInitialState(Operation *op, Value value) {
  auto is = [&](auto layer) { return layer && layer.getInitialH() == value; };
  if (auto lstm = dyn_cast<LstmOp>(op))
    return is(lstm) || lstm.getInitialC() == value;
  if (auto steps = dyn_cast<RecurrenceOp>(op))
    return is(steps) || steps.getInitialC() == value;
  return is(dyn_cast<GruOp>(op)) || is(dyn_cast<RnnOp>(op));
}

/// Returns true if the sum `op` is an epsilon before a root, logarithm or
/// division.
static bool guardsFromZero(Operation *op) {
  return isa<AddOp>(op) && !op->use_empty() &&
         llvm::all_of(op->getUses(), [](OpOperand &use) {
           return isa<SqrtOp>(use.getOwner()) ||
                  isSingularAtZero(use.getOwner(), use.getOperandNumber());
         });
}

/// Returns true if `product` = x * slope is selected for negative x (PReLU).
static bool isRectifierSlope(Operation *product, unsigned index) {
  if (!isa<MulOp>(product) || !product->hasOneUse())
    return false;
  auto select = dyn_cast<SelectOp>(*product->user_begin());
  return select &&
         llvm::is_contained(select->getOperands(),
                            product->getOperand(1 - index)) &&
         isa_and_present<CompareOp>(select->getOperand(0).getDefiningOp());
}

WeightClassifier::Use WeightClassifier::describeUse(OpOperand &operand) const {
  using Kind = Use::Kind;
  Operation *op = operand.getOwner();
  unsigned index = operand.getOperandNumber();
  std::string at = "'" + mpc::opName(op).str() + "'";
  bool one = elementCount(operand.get()) == 1;
  if (op->hasTrait<Normalizes>() && index > 0) {
    std::optional<double> splat = constantSplat(operand.get());
    return {Kind::Weight, "it scales or shifts the normalization " + at,
            splat && *splat == (index == 1 ? 1 : 0)};
  }
  if (isa<ContractionOpInterface>(op)) {
    if (feedsSineAndCosine(op->getResult(0)))
      return {Kind::Formula, "its product " + at + " is an angle"};
    if (index > 1)
      return {Kind::Weight, "it is the bias of " + at};
    return {fusionClassOf(op) == FusionClass::Convolution ? Kind::Filter
                                                          : Kind::Weight,
            "it is multiplied by activations in " + at};
  }
  if (fusionClassOf(op) == FusionClass::Recurrent && index > 0) {
    if (!isInitialState(op, operand.get()))
      return {Kind::Weight, "it is a weight of " + at};
    std::optional<double> splat = constantSplat(operand.get());
    return {splat && *splat == 0 ? Kind::Formula : Kind::Unknown,
            "it is an initial state of " + at};
  }
  if (isa<GatherOp, GatherElementsOp, GatherNdOp>(op) && index == 0)
    return {Kind::Table, "it is the embedding table of " + at};
  if (isRectifierSlope(op, index))
    return {Kind::Weight, "it is the slope of the rectifier " + at};
  if (isa<SelectOp>(op)) {
    std::optional<double> splat = constantSplat(operand.get());
    if (splat && one && (std::fabs(*splat) >= kMaskMagnitude || *splat == 0))
      return {Kind::Formula, "it fills masked positions in " + at};
    return {Kind::Unknown, "it is selected by a condition in " + at};
  }
  if (isArithmetic(op)) {
    Value other = op->getOperand(1 - index);
    if (feedsSineAndCosine(op->getResult(0)))
      return {Kind::Formula, "its result in " + at + " is an angle"};
    if (one && guardsFromZero(op))
      return {Kind::Formula, "it keeps " + at + " from zero"};
    if (raw.contains(other))
      return {Kind::Normalization, "it normalizes an input in " + at};
    Operation *product = producerOf(other);
    bool isLayer = isa_and_present<ContractionOpInterface>(product) &&
                   llvm::any_of(product->getOperands(), [&](Value value) {
                     return !followsFromData(value);
                   });
    auto type = cast<RankedTensorType>(operand.get().getType());
    if (isa<AddOp>(op) && isLayer && type.getRank() > 0 &&
        wideDims(type.getShape()) < 2)
      return {Kind::Weight, "it is added to the result of '" +
                                mpc::opName(product).str() + "'"};
    return {Kind::Unknown, "it is combined with activations in " + at};
  }
  if (one && fusionClassOf(op) == FusionClass::Elementwise)
    return {Kind::Formula, "it is a constant of the formula " + at};
  return {Kind::Unknown, "it is combined with activations in " + at};
}

void WeightClassifier::collectUses(Value value, SmallVectorImpl<Use> &uses,
                                   llvm::DenseSet<Value> &seen) const {
  SmallVector<Value> open = {value};
  while (!open.empty()) {
    Value next = open.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    for (OpOperand &use : next.getUses()) {
      Operation *op = use.getOwner();
      bool gives = llvm::any_of(op->getResultTypes(), [](Type type) {
        return isa<FloatType>(getElementTypeOrSelf(type));
      });
      // Gradients do not flow through comparisons or indices.
      auto movement = dyn_cast<MovementOpInterface>(op);
      if (!gives || !isa<FloatType>(getElementTypeOrSelf(next.getType())) ||
          (movement && !movement.givesElements(use.getOperandNumber())))
        continue;
      bool meets = llvm::any_of(op->getOperands(), [&](Value operand) {
        return followsFromData(operand);
      });
      if (meets)
        uses.push_back(describeUse(use));
      else if (isa<SinOp, CosOp>(op))
        uses.push_back({Use::Kind::Formula,
                        "'" + mpc::opName(op).str() + "' uses it as an angle"});
      else
        llvm::append_range(open, op->getResults());
    }
  }
}

//===----------------------------------------------------------------------===//
// Verdicts
//===----------------------------------------------------------------------===//

WeightClassifier::Verdict WeightClassifier::judge(ConstantOp op) const {
  using Kind = Use::Kind;
  std::optional<ConstantOrigin> origin = ConstantOrigin::get(op);
  StringRef name = mpc::opName(op);
  auto type = cast<RankedTensorType>(op.getType());
  auto element = dyn_cast<FloatType>(type.getElementType());
  bool one = elementCount(type) == 1,
       isNode = origin && origin->kind == ConstantOrigin::Kind::Node,
       isStored = origin && !isNode;
  Verdict verdict;
  verdict.isNamed =
      isStored || (!one && (hasOrigins ? isNode && element : true));
  auto is = [&](WeightChoice::Use use, const Twine &reason) {
    verdict.use = use;
    verdict.reason = reason.str();
    return verdict;
  };
  auto frozen = [&](const Twine &reason) {
    return is(WeightChoice::Use::Frozen, reason);
  };
  auto trained = [&](const Twine &reason) {
    return is(WeightChoice::Use::Trained, reason);
  };

  verdict.isFixed = true;
  if (!element || element.getWidth() < 16)
    return frozen("parameters are floats of 16 bits or more");
  if (elementCount(type) == 0)
    return frozen("it has no elements");
  if (!isFinite(op.getValue()))
    return frozen("it contains infinities or NaN");
  OpOperand *statistics = statisticsUse(op.getResult());
  if (statistics && hasTrainingNorms &&
      isa<BatchNormOp>(statistics->getOwner()))
    return frozen("it is a statistic of the batch norm '" +
                  mpc::opName(statistics->getOwner()) +
                  "', which the file has in evaluation mode");
  verdict.isFixed = false;

  if (statistics)
    return is(WeightChoice::Use::Statistics,
              "of the batch norm '" + mpc::opName(statistics->getOwner()) +
                  "'");
  if (isStored && origin->kind != ConstantOrigin::Kind::Initializer) {
    bool isParameter = origin->kind == ConstantOrigin::Kind::Parameter;
    std::string what = isParameter ? "parameter" : "buffer";
    std::string reason = origin->of.empty() ? "the exporter recorded a " + what
                                            : "the exporter computed it from " +
                                                  what + " " + origin->of;
    return isParameter ? trained(reason) : frozen(reason);
  }
  if (hasOrigins && (!origin || (isNode && type.getRank() == 0)))
    return frozen("it is a literal of the model's graph");

  SmallVector<Use> uses;
  llvm::DenseSet<Value> seen;
  collectUses(op.getResult(), uses, seen);
  if (uses.empty())
    return frozen("no gradient reaches it");
  auto find = [&](auto... kinds) -> const Use * {
    for (const Use &use : uses)
      if (((use.kind == kinds) || ...))
        return &use;
    return nullptr;
  };
  const Use *weight = find(Kind::Weight, Kind::Filter, Kind::Table);
  if (const Use *formula = find(Kind::Formula); formula && !weight)
    return frozen(formula->text);
  FailureOr<reference::Tensor> tensor =
      reference::Tensor::fromAttr(op.getValue());
  if (failed(tensor))
    return frozen("its values cannot be read");
  if (!weight && holdsMask(*tensor))
    return frozen("it contains the values of a mask");
  if (isParameterName(name) && (isStored || !one))
    return trained("its name is that of a parameter");
  // Exporters write literals as nodes where they write weights as initializers.
  if (isNode && hasInitializers) {
    if (!weight)
      return frozen("it is a literal of the model's graph, which has its "
                    "weights in initializers");
    if (llvm::all_of(uses, [](const Use &use) { return use.isNeutral; }))
      return frozen("it has no effect: " + uses.front().text);
  }
  if (find(Kind::Filter) && (isBufferName(name) || holdsFixedFilter(*tensor)))
    return frozen("it is a fixed filter");
  if (find(Kind::Table) && holdsWaves(*tensor, /*ramps=*/false))
    return frozen("it contains samples of sines");
  if (weight)
    return trained(weight->text);
  if (isBufferName(name))
    return frozen("its name is that of a buffer");
  if (const Use *first = find(Kind::Normalization)) {
    verdict.onlyNormalizes = true;
    return frozen(first->text);
  }
  if (holdsWaves(*tensor, /*ramps=*/true))
    return frozen("it contains samples of sines, or a ramp");
  if (holdsGrid(*tensor))
    return frozen("it contains the points of a grid");
  if (one && (!isStored || isNumberName(name)))
    return frozen("it is a constant of a formula");
  return trained(uses.front().text);
}
