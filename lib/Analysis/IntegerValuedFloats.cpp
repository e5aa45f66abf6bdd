//===- IntegerValuedFloats.cpp - float values that carry integers ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/IntegerValuedFloats.h"

#include "mpc/Analysis/Float32Subgraphs.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

/// Largest integer up to which every 16-bit float is exact.
static constexpr double kAlwaysExact = 256;
/// Larger float constants are magnitudes (a mask's -1e9), not integers: f32
/// itself skips integers there.
static constexpr double kLargestInteger = 16777216;

/// Returns true if `type` is an integer wide enough for counts and indices.
/// Narrower ones are exact in every float and are used by quantization and
/// booleans.
static bool isCountType(Type type) {
  auto integer = dyn_cast<IntegerType>(getElementTypeOrSelf(type));
  return integer && integer.getWidth() >= 16;
}

/// Returns true for ops that map integers to integers.
static bool keepsIntegers(Operation *op) {
  return isa<MovementOpInterface>(op) || op->hasTrait<KeepsIntegers>();
}

static bool isIntegralConstant(ConstantOp op, KnownRange range) {
  if (range.magnitude() > kLargestInteger)
    return false;
  if (std::optional<double> splat = splatValue(op.getValue()))
    return std::floor(*splat) == *splat;
  FailureOr<ConstantBytes> bytes = ConstantBytes::get(op.getValue());
  if (failed(bytes) || !getElementTypeOrSelf(op.getType()).isF32())
    return false;
  return llvm::all_of(bytes->as<float>(),
                      [](float x) { return std::floor(x) == x; });
}

/// Returns true if a constant is an arithmetic progression: positions computed
/// at compile time.
static bool isProgression(ConstantOp op) {
  constexpr int64_t kLeast = 3;
  FailureOr<ConstantBytes> bytes = ConstantBytes::get(op.getValue());
  if (failed(bytes) || elementCount(op.getResult()) < kLeast)
    return false;
  ArrayRef<float> values = bytes->as<float>();
  float step = values[1] - values[0];
  for (size_t i = 1; i < values.size(); ++i)
    if (values[i] - values[i - 1] != step)
      return false;
  return step != 0;
}

IntegerValuedFloats::Fact IntegerValuedFloats::derive(Operation *op,
                                                      Value result) const {
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    bool integral = isIntegralConstant(constant, ranges.get(result));
    bool positions = integral &&
                     getElementTypeOrSelf(constant.getType()).isF32() &&
                     isProgression(constant);
    return {integral, /*derived=*/positions, /*constant=*/!positions};
  }
  if (isa<IotaOp>(op))
    return {/*integral=*/true, /*derived=*/true};
  if (isa<CastOp>(op) && !isFloatTensor(op->getOperand(0)))
    return {/*integral=*/true, /*derived=*/true};
  if (isa<TopKOp>(op))
    return {};
  auto elementwise = dyn_cast<ElementwiseOpInterface>(op);
  if (!elementwise && !keepsIntegers(op))
    return {};

  bool rounds = op->hasTrait<RoundsToInteger>();
  Fact fact{/*integral=*/keepsIntegers(op) || rounds,
            /*derived=*/true, /*constant=*/true};
  fact.given = fact.counts = keepsIntegers(op);
  bool anyDerived = false, anyGiven = false, anyCounts = false, masks = true;
  for (Value operand : op->getOperands()) {
    if (!isFloatTensor(operand))
      continue;
    Fact from = facts.lookup(operand);
    if (!rounds)
      fact.integral &= from.integral;
    fact.given &= from.given || (from.constant && from.integral);
    fact.counts &= from.counts || from.given || from.integral;
    anyGiven |= from.given;
    anyCounts |= from.counts;
    fact.constant &= from.constant;
    anyDerived |= from.derived;
    if (!from.constant) {
      fact.derived &= from.derived;
      masks &= from.integral && ranges.get(operand).isWithin(0, 1);
    }
  }
  fact.derived &= anyDerived;
  fact.given &= anyGiven;
  fact.counts &= anyCounts;
  if (isa<CumsumOp>(op))
    fact.counts |= fact.given || fact.integral;
  // A mask times a constant has two values; it is a scale, not a count.
  if (isa<MulOp>(op) && masks && anyDerived)
    return {};
  return fact;
}

bool IntegerValuedFloats::isIndexUse(OpOperand &use) const {
  Operation *user = use.getOwner();
  if (isa<CastOp>(user))
    return isCountType(user->getResult(0).getType()) ||
           indexed.contains(user->getResult(0));
  // The integer part of a quotient may be an index.
  bool passesOn =
      isa<MovementOpInterface, DivOp>(user) ||
      user->hasTrait<RoundsToInteger>() ||
      (isa<ElementwiseOpInterface>(user) && user->hasTrait<KeepsIntegers>());
  return passesOn && user->getNumResults() == 1 &&
         indexed.contains(user->getResult(0));
}

/// Returns true unless `value` is an activation: for results of contractions
/// and norms, only the policy decides about storage.
static bool mayCarry(Value value) {
  Operation *op = value.getDefiningOp();
  return !op || isa<ElementwiseOpInterface, IotaOp>(op) || keepsIntegers(op);
}

/// Returns true if a result of `op` depends on its float operands elementwise
/// or through sums and extrema, without a layer's weights.
static bool isArithmetic(Operation *op) {
  switch (fusionClassOf(op)) {
  case FusionClass::View:
  case FusionClass::Elementwise:
  case FusionClass::IndexMap:
  case FusionClass::Gather:
  case FusionClass::Reduction:
  case FusionClass::Scan:
    return true;
  default:
    return hasShortDotProducts(op);
  }
}

bool IntegerValuedFloats::isSourceUse(OpOperand &use) const {
  Operation *user = use.getOwner();
  // Casts to bytes and booleans make quantized activations and masks.
  if (isa<CastOp>(user) && isCountType(user->getResult(0).getType()))
    return true;
  if (isa<CompareOp>(user)) {
    Value other = user->getOperand(1 - use.getOperandNumber());
    Fact fact = facts.lookup(other);
    return isFloatTensor(other) && fact.integral && fact.derived &&
           !fact.constant;
  }
  return isArithmetic(user) &&
         llvm::any_of(user->getResults(), [&](Value result) {
           Fact fact = facts.lookup(result);
           return sources.contains(result) ||
                  (user->hasTrait<RoundsToInteger>() && fact.integral &&
                   fact.derived);
         });
}

void IntegerValuedFloats::findSources(Block &body) {
  auto mark = [&](Value value) {
    if (isFloatTensor(value) &&
        llvm::any_of(value.getUses(),
                     [&](OpOperand &use) { return isSourceUse(use); }))
      sources.insert(value);
  };
  for (Operation &op : llvm::reverse(body))
    llvm::for_each(op.getResults(), mark);
  llvm::for_each(body.getArguments(), mark);
}

IntegerValuedFloats::IntegerValuedFloats(func::FuncOp func) : ranges(func) {
  Block &body = func.getBody().front();
  for (BlockArgument argument : body.getArguments())
    if (isFloatTensor(argument))
      facts[argument].given = true;
  for (Operation &op : body)
    for (Value result : op.getResults())
      if (isFloatTensor(result))
        facts[result] = derive(&op, result);

  auto markIndexed = [&](Value value) {
    if (isFloatTensor(value) && mayCarry(value) && !value.use_empty() &&
        llvm::all_of(value.getUses(),
                     [&](OpOperand &use) { return isIndexUse(use); }))
      indexed.insert(value);
  };
  for (Operation &op : llvm::reverse(body))
    llvm::for_each(op.getResults(), markIndexed);
  llvm::for_each(body.getArguments(), markIndexed);
  findSources(body);

  auto decide = [&](Value value) {
    Fact fact = facts.lookup(value);
    bool carries = (fact.integral && fact.derived) || fact.counts ||
                   (indexed.contains(value) && !fact.constant);
    if (carries && getMagnitude(value) > kAlwaysExact)
      carriers.insert(value);
  };
  llvm::for_each(body.getArguments(), decide);
  for (Operation &op : body)
    llvm::for_each(op.getResults(), decide);
}

bool mpc::isIntegerTable(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  if (!constant || !getElementTypeOrSelf(value.getType()).isF32())
    return false;
  auto isInteger = [](double x) {
    return std::floor(x) == x && std::abs(x) <= kLargestInteger;
  };
  if (std::optional<double> splat = splatValue(constant.getValue()))
    return isInteger(*splat) && std::abs(*splat) > kAlwaysExact;
  FailureOr<ConstantBytes> bytes = ConstantBytes::get(constant.getValue());
  if (failed(bytes))
    return false;
  // For weights the loop ends at the first element.
  bool isLarge = false;
  for (float x : bytes->as<float>()) {
    if (!isInteger(x))
      return false;
    isLarge |= std::abs(x) > kAlwaysExact;
  }
  return isLarge;
}
