//===- RangeAnalysis.cpp - range analysis of values -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Interval arithmetic. Ops either compute their result's range
// (RangeOpInterface) or are monotone (MonotoneOpInterface): then the
// interpreter evaluates them at the ends of the operands' ranges.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/RangeAnalysis.h"

#include "ScalarEvaluation.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"

#include "llvm/ADT/APFloat.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Formats
//===----------------------------------------------------------------------===//

double mpc::roundedTo(double value, FloatType type) {
  llvm::APFloat number(value);
  bool losesInfo;
  number.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                 &losesInfo);
  number.convert(llvm::APFloat::IEEEdouble(),
                 llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return number.convertToDouble();
}

double mpc::exactIntegerLimit(FloatType type) {
  return std::ldexp(1.0, type.getFPMantissaWidth());
}

//===----------------------------------------------------------------------===//
// Transfer
//===----------------------------------------------------------------------===//

/// Range implied by the element type: 0 or 1, or bytes.
static KnownRange rangeOfType(Value value) {
  auto type = dyn_cast<IntegerType>(getElementTypeOrSelf(value.getType()));
  if (!type || type.getWidth() > 8)
    return {};
  if (type.getWidth() == 1)
    return {0, 1};
  return type.isUnsigned() ? KnownRange{0, 255} : KnownRange{-128, 127};
}

/// Returns true for ops that only move or convert the elements of operand 0.
static bool movesInput(Operation *op) {
  return isa<CastOp>(op) || isUnaryMovement(op);
}

/// Returns true if `value` is an integer argument, moved or converted.
static bool isIntegerInput(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!movesInput(op))
      return false;
    value = op->getOperand(0);
  }
  return isa<IntegerType>(getElementTypeOrSelf(value.getType()));
}

/// Returns true if every reader of `value`, a boolean stored as a number,
/// converts it to a boolean or multiplies it by a number that masks a score.
static bool hidesScores(Value value) {
  constexpr double kLeastMask = 1000;
  return !value.use_empty() &&
         llvm::all_of(value.getUsers(), [](Operation *op) {
           if (isa<CastOp>(op) &&
               op->getResult(0).getType() != op->getOperand(0).getType() &&
               getElementTypeOrSelf(op->getResult(0).getType()).isInteger(1))
             return true;
           if (movesInput(op))
             return hidesScores(op->getResult(0));
           auto mul = dyn_cast<MulOp>(op);
           if (!mul)
             return false;
           for (Value factor : op->getOperands())
             if (std::optional<double> splat = constantSplat(factor);
                 splat && std::abs(*splat) >= kLeastMask)
               return true;
           return false;
         });
}

/// Returns true if the model uses `value` as a mask of zeros and ones, whatever
/// its type permits: an integer input, read as 1 - value, that masks scores.
/// The graph does not bound such an input; the model's use is trusted. Values
/// that the graph computes (positions, counts) are bounded by the graph only.
static bool isMask(Value value) {
  return isIntegerInput(value) &&
         llvm::any_of(value.getUses(), [](OpOperand &use) {
           auto sub = dyn_cast<SubOp>(use.getOwner());
           return sub && use.getOperandNumber() == 1 &&
                  constantSplat(sub.getLhs()) == 1.0 &&
                  hidesScores(sub.getResult());
         });
}

/// Returns true if all shapes of `op` are static: ranges count elements.
static bool hasStaticShapes(Operation *op) {
  auto isStatic = [](Value value) {
    auto type = dyn_cast<ShapedType>(value.getType());
    return type && type.hasStaticShape();
  };
  return llvm::all_of(op->getOperands(), isStatic) &&
         llvm::all_of(op->getResults(), isStatic);
}

/// Evaluates a monotone op at the ends of its operands' ranges.
static KnownRange rangeOfMonotone(MonotoneOpInterface op,
                                  ArrayRef<KnownRange> operands) {
  SmallVector<double> least, most;
  for (auto [index, range] : llvm::enumerate(operands)) {
    // An operand range that contains a pole makes the result discontinuous.
    if (isSingularAtZero(op, index) && range.low <= 0 && range.high >= 0)
      return {};
    bool rises = op.isIncreasingIn(index);
    least.push_back(rises ? range.low : range.high);
    most.push_back(rises ? range.high : range.low);
  }
  // Integers wrap; whether they can is checked on the range.
  Type type = Float64Type::get(op.getContext());
  auto endAt = [&](ArrayRef<double> values, double otherwise) {
    double end = evaluateAt(op, values, type).value_or(otherwise);
    return std::isnan(end) ? otherwise : end;
  };
  return {endAt(least, KnownRange().low), endAt(most, KnownRange().high)};
}

KnownRange RangeAnalysis::compute(OpResult result) const {
  Operation *op = result.getOwner();
  if (!hasStaticShapes(op))
    return {};
  SmallVector<KnownRange> operands;
  for (Value operand : op->getOperands())
    operands.push_back(get(operand));
  if (auto movement = dyn_cast<MovementOpInterface>(op)) {
    KnownRange range = operands.front();
    for (auto [index, operand] : llvm::enumerate(operands))
      if (movement.givesElements(index))
        range = range.join(operand);
    return range;
  }
  KnownRange range;
  if (auto own = dyn_cast<RangeOpInterface>(op))
    range = own.getResultRange(result.getResultNumber(), operands);
  if (auto monotone = dyn_cast<MonotoneOpInterface>(op)) {
    KnownRange ends = rangeOfMonotone(monotone, operands);
    range = {std::max(range.low, ends.low), std::min(range.high, ends.high)};
  }
  return range;
}

RangeAnalysis::RangeAnalysis(func::FuncOp func) {
  auto note = [&](Value value, KnownRange range) {
    KnownRange byType = rangeOfType(value);
    if (mayWrap(value, range))
      range = {};
    if (isMask(value))
      byType = {std::max(byType.low, 0.0), std::min(byType.high, 1.0)};
    KnownRange met{std::max(range.low, byType.low),
                   std::min(range.high, byType.high)};
    ranges[value] = met.low <= met.high ? met : byType;
  };
  for (BlockArgument argument : func.getArguments())
    if (!isa<FloatType>(getElementTypeOrSelf(argument.getType())))
      note(argument, {});
  for (Operation &op : func.getBody().front())
    for (OpResult result : op.getResults()) {
      KnownRange range = compute(result);
      // 1 - x bounds x only if x was computed from integers.
      if (isa<FloatType>(getElementTypeOrSelf(result.getType())) &&
          !(isa<CastOp>(op) &&
            isa<IntegerType>(getElementTypeOrSelf(op.getOperand(0).getType()))))
        ranges[result] = range;
      else
        note(result, range);
    }
}
