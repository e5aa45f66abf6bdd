//===- GemmActivationGradients.cpp - GEMMs with saved activations ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matches forward GEMMs that save values for the gradient of their activation
// (ReLU's mask; GELU's input or slope), and the GEMMs of those gradients.
//
//===----------------------------------------------------------------------===//

#include "GemmMatch.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

int64_t mpc::resultOf(Value value) {
  bool isRounded = false;
  while (value.hasOneUse()) {
    OpOperand &use = *value.use_begin();
    if (isReturn(use.getOwner()))
      return use.getOperandNumber();
    if (isa<CastOp>(use.getOwner())) {
      if (isRounded)
        return -1;
      isRounded = true;
    } else if (!isa<ReshapeOp>(use.getOwner())) {
      return -1;
    }
    value = use.getOwner()->getResult(0);
  }
  return -1;
}

/// Returns the element of a splat constant, or nullopt.
static std::optional<double> splatOf(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant ? splatValue(constant.getValue()) : std::nullopt;
}

static bool isF32(Value value) {
  return getElementTypeOrSelf(value.getType()).isF32();
}

//===----------------------------------------------------------------------===//
// GELU's slope
//===----------------------------------------------------------------------===//

namespace {
/// Evaluates a kernel's scalar expression at one input value.
class Evaluation {
public:
  Evaluation(Value input, double number) { known[input] = number; }

  /// Returns nullopt if `value` is not made of sums, differences, products and
  /// tanh of the input and constants in f32.
  std::optional<double> at(Value value) {
    if (auto found = known.find(value); found != known.end())
      return found->second;
    if (!isF32(value))
      return std::nullopt;
    std::optional<double> result = splatOf(value);
    if (!result)
      result = compute(value.getDefiningOp());
    known[value] = result;
    return result;
  }

private:
  std::optional<double> compute(Operation *op) {
    if (!isa_and_present<AddOp, SubOp, MulOp, TanhOp>(op))
      return std::nullopt;
    std::optional<double> left = at(op->getOperand(0));
    if (!left || isa<TanhOp>(op))
      return left ? std::optional(std::tanh(*left)) : std::nullopt;
    std::optional<double> right = at(op->getOperand(1));
    if (!right)
      return std::nullopt;
    if (isa<AddOp>(op))
      return *left + *right;
    return isa<SubOp>(op) ? *left - *right : *left * *right;
  }

  llvm::DenseMap<Value, std::optional<double>> known;
};
} // namespace

/// Compares at sample points instead of matching ops: the ops of a derivative
/// may be in any order, and no other function of so few ops agrees at so many
/// points. Constants are f32, so agreement is to f32 precision.
bool mpc::isGeluTanhSlope(Value slope, Value input) {
  constexpr double kScale = 0.79788456080286535588, kCubic = 0.044715;
  for (int i = -32; i <= 32; ++i) {
    double x = i / 8.0;
    double tanh = std::tanh(kScale * x * (1 + kCubic * x * x));
    double expected = (1 + tanh) / 2 + x / 2 * (1 - tanh * tanh) * kScale *
                                           (1 + 3 * kCubic * x * x);
    std::optional<double> found = Evaluation(input, x).at(slope);
    if (!found || !(std::abs(*found - expected) <= 0x1p-20))
      return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

LogicalResult GemmMatch::matchSavedActivation(Value sums) {
  if (epilogue == exe::Epilogue::relu)
    return matchSavedMask(sums);
  GeluOp gelu;
  for (Operation *user : sums.getUsers())
    if (auto found = dyn_cast<GeluOp>(user); found && !gelu)
      gelu = found;
  if (gelu && gelu.getForm() == GeluForm::tanh)
    return matchSavedInput(sums, gelu);
  return refuse("its accumulators have two uses");
}

/// Matches a result and its not-positive mask. If the result is rounded, the
/// mask may use values before or after rounding: to the library a positive
/// value that rounds to 0 is positive.
LogicalResult GemmMatch::matchSavedMask(Value activated) {
  for (OpOperand &use : activated.getUses()) {
    Operation *user = use.getOwner();
    Value compared = activated;
    if (auto cast = dyn_cast<CastOp>(user);
        cast && isWidening(cast) && cast.getResult().hasOneUse()) {
      compared = cast.getResult();
      user = *compared.user_begin();
    }
    auto compare = dyn_cast<CompareOp>(user);
    if (isReturn(user) && compared == activated && product < 0) {
      product = use.getOperandNumber();
    } else if (compare && keptResult < 0 &&
               compare.getPredicate() == ComparePredicate::le &&
               compare.getLhs() == compared &&
               splatOf(compare.getRhs()) == 0.0) {
      keptResult = resultOf(compare.getResult());
    } else {
      return refuse("its accumulators have two uses");
    }
  }
  if (product < 0 || keptResult < 0)
    return refuse("its accumulators have two uses");
  // At least sixteen bytes per 128 bits.
  if (n < 16)
    return refuse("its mask of " + std::to_string(n) +
                  " columns is narrower than the library's");
  between = SavedForGradient::OtherThanLibrary;
  return success();
}

/// Matches GELU of `input`, and `input` or GELU's slope as second result.
LogicalResult GemmMatch::matchSavedInput(Value input, GeluOp gelu) {
  if (failed(matchActivation(gelu)))
    return failure();
  product = resultOf(gelu.getResult());
  if (product < 0)
    return refuse("its accumulators have two uses");
  if (resultTypes.size() != 2)
    return refuse("it has " + std::to_string(resultTypes.size()) + " results");
  keptResult = 1 - product;
  Value second =
      kernel.getTerminator()->getOperand(static_cast<unsigned>(keptResult));
  if (getElementTypeOrSelf(second.getType()) != resultType)
    return refuse("the auxiliary output for its gradient does not have the "
                  "result's type");
  while (auto reshape = second.getDefiningOp<ReshapeOp>())
    second = reshape.getInput();
  auto rounded = second.getDefiningOp<CastOp>();
  if (second == input || (rounded && rounded.getInput() == input)) {
    between = SavedForGradient::Input;
    return success();
  }
  if (!isGeluTanhSlope(second, input))
    return refuse(rounded ? "it rounds the slope of its activation"
                          : "its accumulators have two uses");
  between = SavedForGradient::OtherThanLibrary;
  return success();
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

/// Matches `op` multiplying `sums` by a slope, or selecting them by a mask.
LogicalResult GemmMatch::matchGradient(Operation *op, Value sums) {
  auto refused = [&] {
    return refuse("its epilogue contains " +
                  op->getName().getStringRef().str());
  };
  Value result = op->getResult(0);
  if (hasEpilogue() || shapeOf(result) != shapeOf(sums))
    return refused();
  if (auto select = dyn_cast<SelectOp>(op)) {
    auxiliary = argumentOf(select.getCondition());
    if (auxiliary < 0 || select.getOnFalse() != sums ||
        splatOf(select.getOnTrue()) != 0.0 ||
        shapeOf(select.getCondition()) != shapeOf(sums))
      return refused();
    epilogue = exe::Epilogue::relu_gradient;
    between = SavedForGradient::OtherThanLibrary;
    return success();
  }
  Value slope = op->getOperand(op->getOperand(0) == sums ? 1 : 0);
  if (slope == sums || shapeOf(slope) != shapeOf(sums))
    return refused();
  epilogue = exe::Epilogue::gelu_tanh_gradient;
  // A slope saved by a forward kernel. The library reads an input of the
  // result's type instead.
  if (auxiliary = argumentOf(slope); auxiliary >= 0) {
    if (getElementTypeOrSelf(slope.getType()) != resultType)
      return refuse("it multiplies by a factor of another type than its "
                    "result's");
    between = SavedForGradient::OtherThanLibrary;
    return success();
  }
  // The slope at a saved input: search the arguments that are read whole, in
  // the result's type.
  for (BlockArgument argument : kernel.getArguments()) {
    if (getElementTypeOrSelf(argument.getType()) != resultType)
      continue;
    Value input = argument;
    while (input.hasOneUse() && isa<CastOp, ReshapeOp>(*input.user_begin()))
      input = input.user_begin()->getResult(0);
    if (shapeOf(input) != shapeOf(sums) || !isGeluTanhSlope(slope, input))
      continue;
    auxiliary = argument.getArgNumber();
    between = SavedForGradient::Input;
    return success();
  }
  return refused();
}
