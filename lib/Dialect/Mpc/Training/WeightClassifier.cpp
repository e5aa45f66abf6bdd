//===- WeightClassifier.cpp - parameters or buffers -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WeightClassifier.h"

#include "ParameterInitialization.h"
#include "WeightValues.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/ConstantOrigin.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcRecurrentOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "llvm/ADT/SetVector.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Uses
//===----------------------------------------------------------------------===//

/// Maximum magnitude of a constant that only avoids a division by zero.
static constexpr double kLargestEpsilon = 0.01;

/// Maximum number of values that codes of quantized values select from.
static constexpr int64_t kLargestCodebook = 256;

/// Maximum number of values that are searched between a scaled value and the
/// layers that use it as a weight.
static constexpr size_t kMostScaledValues = 64;

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

/// Returns true if `op` looks up the rows of a table that a search in the same
/// table, used for nothing else, found.
static bool isNearestRow(Operation *op) {
  Operation *search = producerOf(op->getOperand(1)),
            *table = producerOf(op->getOperand(0));
  if (!isa_and_present<ArgmaxOp, ArgminOp>(search) ||
      !search->getOperand(0).hasOneUse())
    return false;
  llvm::SetVector<Operation *> sources;
  sources.insert(search);
  for (size_t i = 0; i < sources.size(); ++i)
    for (Value operand : sources[i]->getOperands())
      if (Operation *source = operand.getDefiningOp())
        sources.insert(source);
  return sources.contains(table);
}

static bool isArithmetic(Operation *op) {
  return isa<AddOp, SubOp, MulOp, DivOp>(op);
}

/// Returns true if elements of operand `index` are elements of the result.
static bool movesElements(Operation *op, unsigned index) {
  auto movement = dyn_cast<MovementOpInterface>(op);
  return isa<CastOp>(op) || (movement && movement.givesElements(index));
}

/// Returns true for ops without a gradient.
static bool isStepFunction(Operation *op) {
  return isa<RoundOp, FloorOp, CeilOp, SignOp>(op);
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
        hasRecord |= origin->kind == ConstantOrigin::Kind::Parameter;
        hasInitializers |= origin->kind != ConstantOrigin::Kind::Node &&
                           isFloatTensor(constant.getResult());
      }
    if (op.getNumRegions() > 0 ||
        llvm::any_of(op.getOperands(),
                     [&](Value operand) { return followsFromData(operand); }))
      data.insert(op.getResults().begin(), op.getResults().end());
    findCodes(op);
  }
  // Needs the uses of constants, and with them `data` and the codes.
  for (Operation &op : step.body())
    if (keepsRaw(op))
      raw.insert(op.getResults().begin(), op.getResults().end());
}

void WeightClassifier::findCodes(Operation &op) {
  auto width = [](Value value) {
    auto type = dyn_cast<IntegerType>(getElementTypeOrSelf(value.getType()));
    return type ? type.getWidth() : 0;
  };
  if (op.getNumResults() != 1)
    return;
  Value result = op.getResult(0);
  bool isNarrow = width(result) > 1 && width(result) <= 16;
  if (isa<ConstantOp>(op) && width(result) > 1)
    (isNarrow ? codes : integers).insert(result);
  if (isa<RoundOp>(op) ||
      (isa<CastOp>(op) && isNarrow && isFloatTensor(op.getOperand(0))))
    codes.insert(result);
  bool keeps =
      isa<CastOp, ClampOp, MovementOpInterface, ContractionOpInterface>(op) ||
      isArithmetic(&op) || width(result) > 1;
  // A constant scales codes of activations to activations, which are no codes.
  bool shifts = isa<AddOp, SubOp, ClampOp, MovementOpInterface>(op) ||
                !followsFromData(result);
  auto gives = [&](OpOperand &operand) {
    return !isa<MovementOpInterface>(op) ||
           movesElements(&op, operand.getOperandNumber()) ||
           elementCount(op.getOperand(0)) <= kLargestCodebook;
  };
  for (llvm::DenseSet<Value> *set : {&codes, &integers})
    if (keeps &&
        llvm::any_of(op.getOpOperands(),
                     [&](OpOperand &operand) {
                       return set->contains(operand.get()) && gives(operand);
                     }) &&
        llvm::all_of(op.getOperands(), [&](Value operand) {
          return codes.contains(operand) || integers.contains(operand) ||
                 !isFloatTensor(operand) ||
                 (shifts && !followsFromData(operand));
        }))
      set->insert(result);
}

bool WeightClassifier::keepsRaw(Operation &op) const {
  // Of a product of two inputs neither is a scale.
  Value only;
  for (OpOperand &operand : op.getOpOperands()) {
    Value value = operand.get();
    if (!followsFromData(value))
      continue;
    if (!raw.contains(value) ||
        (isa<MovementOpInterface>(op) &&
         !movesElements(&op, operand.getOperandNumber())) ||
        (isa<MulOp, DivOp>(op) && only && only != value))
      return false;
    if (unsigned index = 1 - operand.getOperandNumber();
        isArithmetic(&op) && !followsFromData(op.getOperand(index)) &&
        !shiftsRaw(&op, index) && !isFixed(op.getOperand(index)))
      return false;
    only = value;
  }
  if (!only)
    return false;
  // A learned token may be joined to inputs; a transform may be learned.
  if (isa<ContractionOpInterface, MovementOpInterface>(op))
    return llvm::all_of(op.getOperands(), [&](Value operand) {
      return followsFromData(operand) || isFixed(operand);
    });
  return isArithmetic(&op) || isStepFunction(&op) ||
         isa<CastOp, ClampOp, MaxOp, MinOp, PowOp, AbsOp, NegOp, ExpOp, LogOp,
             Log1pOp, SqrtOp, RsqrtOp, ReciprocalOp>(op);
}

bool WeightClassifier::isFixed(Value value) const {
  while (auto *op = value.getDefiningOp()) {
    if (auto constant = dyn_cast<ConstantOp>(op))
      return judge(constant).use == WeightChoice::Use::Frozen;
    if (!isa<CastOp>(op) && !isUnaryMovement(op))
      return false;
    value = op->getOperand(0);
  }
  return false;
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

/// Returns true if `value` is an epsilon, added in `op` before a root,
/// logarithm or division.
static bool guardsFromZero(Operation *op, Value value) {
  std::optional<double> splat = constantSplat(value);
  return isa<AddOp>(op) && splat && std::fabs(*splat) <= kLargestEpsilon &&
         !op->use_empty() && llvm::all_of(op->getUses(), [](OpOperand &use) {
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
    bool isFilter = fusionClassOf(op) == FusionClass::Convolution;
    return {isa<ConvTransposeOp>(op) ? Kind::Upsampling
            : isFilter               ? Kind::Filter
                                     : Kind::Matrix,
            "it is multiplied by activations in " + at};
  }
  if (fusionClassOf(op) == FusionClass::Recurrent && index > 0) {
    if (!isInitialState(op, operand.get()))
      return {Kind::Weight, "it is a weight of " + at};
    std::optional<double> splat = constantSplat(operand.get());
    return {splat && *splat == 0 ? Kind::State : Kind::Unknown,
            "it is an initial state of " + at};
  }
  if (isa<GatherOp, GatherElementsOp, GatherNdOp>(op) && index == 0) {
    if (normalizesInput(op->getResult(0)))
      return {Kind::Normalization, "it normalizes an input after " + at};
    if (isNearestRow(op))
      return {Kind::Codebook, "it is the codebook of " + at};
    return {Kind::Table, "it is the embedding table of " + at};
  }
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
    if (one && guardsFromZero(op, operand.get()))
      return {Kind::Formula, "it keeps " + at + " from zero"};
    if (shiftsRaw(op, index))
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
  return {Kind::Unknown, "it is combined with activations in " + at};
}

bool WeightClassifier::shiftsRaw(Operation *op, unsigned index) const {
  Value other = op->getOperand(1 - index);
  auto type = cast<RankedTensorType>(op->getOperand(index).getType());
  return raw.contains(other) &&
         elementCount(op->getResult(0)) == elementCount(other) &&
         !(isa<AddOp>(op) && wideDims(type.getShape()) > 1);
}

bool WeightClassifier::normalizesWeight(Value value, bool isProjected,
                                        unsigned depth) const {
  return depth > 0 && llvm::any_of(value.getUses(), [&](OpOperand &use) {
           Operation *op = use.getOwner();
           if (op->getNumResults() != 1 ||
               llvm::any_of(op->getOperands(), [&](Value operand) {
                 return followsFromData(operand);
               }))
             return false;
           if (isProjected && isa<DivOp>(op) && use.getOperandNumber() == 1)
             return true;
           bool isProjection = isa<ContractionOpInterface>(op);
           return (isProjected || isProjection || isa<CastOp>(op) ||
                   isUnaryMovement(op)) &&
                  normalizesWeight(op->getResult(0),
                                   isProjected || isProjection, depth - 1);
         });
}

/// Returns true if `value` follows from constants elementwise; sets `hasRoot`
/// if a root of a tensor is taken.
static bool isElementwise(Value value, bool &hasRoot, unsigned depth = 8) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return false;
  bool isRoot = isa<SqrtOp, RsqrtOp>(op);
  hasRoot |= isRoot && elementCount(value) > 1;
  return (isRoot || isArithmetic(op) || isUnaryMovement(op) ||
          isa<ConstantOp, CastOp, ReciprocalOp>(op)) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return isElementwise(operand, hasRoot, depth - 1);
         });
}

bool WeightClassifier::meetsDeviation(Value value) const {
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    Operation *op = use.getOwner();
    if (isa<CastOp>(op) || isUnaryMovement(op))
      return meetsDeviation(op->getResult(0));
    bool hasRoot = false;
    return isArithmetic(op) &&
           isElementwise(op->getOperand(1 - use.getOperandNumber()), hasRoot) &&
           hasRoot;
  });
}

bool WeightClassifier::normalizesInput(Value value) const {
  SmallVector<Value> open = {value};
  while (!open.empty()) {
    Value next = open.pop_back_val();
    if (next.use_empty())
      return false;
    for (OpOperand &use : next.getUses()) {
      Operation *op = use.getOwner();
      if (isa<CastOp>(op) || isUnaryMovement(op))
        open.push_back(op->getResult(0));
      else if (!isa<SubOp, MulOp, DivOp>(op) ||
               !raw.contains(op->getOperand(1 - use.getOperandNumber())))
        return false;
    }
  }
  return true;
}

bool WeightClassifier::isLayerWeight(Value value) const {
  SmallVector<Use> uses;
  collectUses(value, uses, /*isScaled=*/true);
  return !uses.empty() &&
         llvm::all_of(uses, [](const Use &use) { return use.isWeight(); });
}

bool WeightClassifier::scalesCodes(OpOperand &use, unsigned depth) const {
  Operation *op = use.getOwner();
  unsigned index = use.getOperandNumber();
  // Integers of a model's graph are codes only where they become a weight.
  auto isCode = [&](Value value) {
    return codes.contains(value) ||
           (integers.contains(value) && !followsFromData(op->getResult(0)) &&
            isLayerWeight(op->getResult(0)));
  };
  if (isArithmetic(op)) {
    if (isCode(op->getOperand(1 - index)))
      return true;
    if (isa<AddOp, SubOp>(op))
      return false;
  } else if (!movesElements(op, index)) {
    return false;
  } else if (isa<GatherOp>(op) && elementCount(use.get()) <= kLargestCodebook &&
             cast<RankedTensorType>(use.get().getType()).getRank() == 1 &&
             isCode(op->getOperand(1))) {
    return true;
  }
  // A product of scales; the scale of a rounding.
  return depth > 0 && !op->use_empty() &&
         llvm::all_of(op->getUses(), [&](OpOperand &next) {
           return (isArithmetic(op) && isa<RoundOp>(next.getOwner())) ||
                  scalesCodes(next, depth - 1);
         });
}

void WeightClassifier::collectUses(Value value, SmallVectorImpl<Use> &uses,
                                   bool isScaled) const {
  using Kind = Use::Kind;
  // Values with elements of `value`, which are scaled at most.
  llvm::DenseSet<Value> seen, scaled = {value};
  SmallVector<Value> open = {value};
  while (!open.empty() && (!isScaled || seen.size() < kMostScaledValues)) {
    Value next = open.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    for (OpOperand &use : next.getUses()) {
      Operation *op = use.getOwner();
      std::string at = "'" + mpc::opName(op).str() + "'";
      bool gives = llvm::any_of(op->getResults(), isFloatTensor);
      // Gradients do not flow through comparisons, indices or step functions.
      auto movement = dyn_cast<MovementOpInterface>(op);
      if (!gives || !isFloatTensor(next) || isStepFunction(op) ||
          (movement && !movement.givesElements(use.getOperandNumber())))
        continue;
      bool meets = llvm::any_of(op->getOperands(), [&](Value operand) {
        return followsFromData(operand);
      });
      if (!isScaled && scaled.contains(next) && scalesCodes(use)) {
        uses.push_back(
            {Kind::Quantization,
             "it is a scale or zero point of quantized values in " + at});
      } else if (meets) {
        uses.push_back(describeUse(use));
      } else {
        if (isa<SinOp, CosOp>(op))
          uses.push_back({Kind::Angle, at + " uses it as an angle"});
        llvm::append_range(open, op->getResults());
        if (scaled.contains(next) &&
            (isArithmetic(op) || movesElements(op, use.getOperandNumber())))
          scaled.insert(op->getResult(0));
      }
    }
  }
}
