//===- MpcRanges.cpp - value ranges of op results -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RangeOpInterface of ops with more than a one-line range.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

using Ranges = ArrayRef<KnownRange>;

/// Maximum constant size to scan, in elements; larger ones are weights and
/// tables.
static constexpr int64_t kLargestRead = 4096;

//===----------------------------------------------------------------------===//
// Interval arithmetic
//===----------------------------------------------------------------------===//

/// Returns the interval hull of `values`; unknown if one is NaN.
static KnownRange around(std::initializer_list<double> values) {
  KnownRange range{*values.begin(), *values.begin()};
  for (double value : values) {
    if (std::isnan(value))
      return {};
    range.low = std::min(range.low, value);
    range.high = std::max(range.high, value);
  }
  return range;
}

/// Product of interval bounds with 0 * infinity = 0: an unknown bound still
/// bounds a finite value.
static double product(double a, double b) {
  return a == 0 || b == 0 ? 0 : a * b;
}

static KnownRange multiply(KnownRange a, KnownRange b) {
  return around({product(a.low, b.low), product(a.low, b.high),
                 product(a.high, b.low), product(a.high, b.high)});
}

static KnownRange square(KnownRange a) {
  bool holdsZero = a.low <= 0 && a.high >= 0;
  double low = holdsZero ? 0 : std::min(std::abs(a.low), std::abs(a.high));
  return {low * low, a.magnitude() * a.magnitude()};
}

/// Quotient a / b of interval bounds; 0 for an infinite b.
static double quotient(double a, double b) { return std::isinf(b) ? 0 : a / b; }

/// Interval division; unknown if `by` contains 0.
static KnownRange divide(KnownRange a, KnownRange by) {
  if (by.low <= 0 && by.high >= 0)
    return {};
  return around({quotient(a.low, by.low), quotient(a.low, by.high),
                 quotient(a.high, by.low), quotient(a.high, by.high)});
}

static KnownRange truncated(KnownRange a) {
  return {std::trunc(a.low), std::trunc(a.high)};
}

/// Range of the sum of `count` elements of `range`.
static KnownRange sumOf(KnownRange range, double count) {
  return {product(range.low, count), product(range.high, count)};
}

static bool isInteger(Value value) {
  return isa<IntegerType>(getElementTypeOrSelf(value.getType()));
}

static KnownRange positionsAlong(Value value, int64_t axis) {
  auto type = cast<ShapedType>(value.getType());
  return around({0, double(type.getDimSize(axis) - 1)});
}

bool mpc::mayWrap(Value value, KnownRange range) {
  auto type = dyn_cast<IntegerType>(getElementTypeOrSelf(value.getType()));
  if (!type)
    return false;
  double limit = std::ldexp(1.0, int(type.getWidth()) - 1);
  // 64-bit bounds are rounded doubles: a bound that rounds to the limit may
  // exceed it.
  auto highest = [](double end) { return std::nextafter(end, 0.0); };
  if (type.getWidth() <= 32)
    return type.isUnsigned() || type.getWidth() == 1
               ? !range.isWithin(0, 2 * limit - 1)
               : !range.isWithin(-limit, limit - 1);
  return type.isUnsigned() ? !range.isWithin(0, highest(2 * limit))
                           : !range.isWithin(highest(-limit), highest(limit));
}

//===----------------------------------------------------------------------===//
// Constants and indices
//===----------------------------------------------------------------------===//

KnownRange ConstantOp::getResultRange(unsigned, Ranges) {
  if (std::optional<double> splat = splatValue(getValue()))
    return around({*splat});
  if (elementCount(getResult()) > kLargestRead)
    return {};
  KnownRange range{std::numeric_limits<double>::infinity(),
                   -std::numeric_limits<double>::infinity()};
  auto take = [&](double value) { range = range.join({value, value}); };
  if (std::optional<SmallVector<int64_t>> integers =
          integerElements(getValue())) {
    for (int64_t value : *integers)
      take(value);
    return range.low <= range.high ? range : KnownRange();
  }
  FailureOr<ConstantBytes> bytes = ConstantBytes::get(getValue());
  if (failed(bytes) || !getElementTypeOrSelf(getType()).isF32())
    return {};
  for (float value : bytes->as<float>()) {
    if (std::isnan(value))
      return {};
    take(value);
  }
  return range.low <= range.high ? range : KnownRange();
}

KnownRange IotaOp::getResultRange(unsigned, Ranges) {
  return positionsAlong(getResult(), getAxis());
}
KnownRange ArgmaxOp::getResultRange(unsigned, Ranges) {
  return positionsAlong(getInput(), getAxis());
}
KnownRange ArgminOp::getResultRange(unsigned, Ranges) {
  return positionsAlong(getInput(), getAxis());
}
KnownRange TopKOp::getResultRange(unsigned result, Ranges operands) {
  return result == 0 ? operands[0] : positionsAlong(getInput(), getAxis());
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

/// Fractions are truncated; NaN becomes 0.
KnownRange CastOp::getResultRange(unsigned, Ranges operands) {
  if (getElementTypeOrSelf(getType()).isInteger(1))
    return {0, 1};
  if (isInteger(getInput()) || !isInteger(getResult()))
    return operands[0];
  return truncated(operands[0]).join({0, 0});
}
KnownRange EncodeFloatOp::getResultRange(unsigned, Ranges) {
  return {0, std::exp2(narrowFloatOf(getFormat())->bits()) - 1};
}
KnownRange DecodeFloatOp::getResultRange(unsigned, Ranges) {
  const NarrowFloat &format = *narrowFloatOf(getFormat());
  if (format.hasInfinity())
    return {};
  return {format.isSigned ? -format.largest() : format.least(),
          format.largest()};
}
KnownRange SelectOp::getResultRange(unsigned, Ranges operands) {
  return operands[1].join(operands[2]);
}
KnownRange OneHotOp::getResultRange(unsigned, Ranges operands) {
  return operands[1].join(operands[2]);
}
KnownRange AbsOp::getResultRange(unsigned, Ranges operands) {
  KnownRange a = operands[0];
  if (a.low >= 0 || a.high <= 0)
    return around({std::abs(a.low), std::abs(a.high)});
  return {0, a.magnitude()};
}
KnownRange MulOp::getResultRange(unsigned, Ranges operands) {
  return getLhs() == getRhs() ? square(operands[0])
                              : multiply(operands[0], operands[1]);
}
KnownRange DivOp::getResultRange(unsigned, Ranges operands) {
  KnownRange range = divide(operands[0], operands[1]);
  return isInteger(getResult()) ? truncated(range) : range;
}
KnownRange PowOp::getResultRange(unsigned, Ranges operands) {
  return constantSplat(getRhs()) == 2.0 ? square(operands[0]) : KnownRange();
}

//===----------------------------------------------------------------------===//
// Reductions and windows
//===----------------------------------------------------------------------===//

/// The extremum of no elements is a limit of the type.
static KnownRange extremeOf(ReductionOpInterface op, KnownRange range) {
  return op.getReductionSize() == 0 ? KnownRange() : range;
}
KnownRange ReduceMaxOp::getResultRange(unsigned, Ranges operands) {
  return extremeOf(*this, operands[0]);
}
KnownRange ReduceMinOp::getResultRange(unsigned, Ranges operands) {
  return extremeOf(*this, operands[0]);
}
KnownRange ReduceSumOp::getResultRange(unsigned, Ranges operands) {
  return sumOf(operands[0], double(getReductionSize()));
}
/// Unknown for no elements, or if the sum may overflow an integer type.
KnownRange ReduceMeanOp::getResultRange(unsigned, Ranges operands) {
  int64_t count = getReductionSize();
  bool isUnknown =
      count == 0 || mayWrap(getInput(), sumOf(operands[0], double(count)));
  return isUnknown ? KnownRange() : operands[0];
}
KnownRange ReduceProdOp::getResultRange(unsigned, Ranges) { return {}; }
KnownRange CumsumOp::getResultRange(unsigned, Ranges operands) {
  return operands[0].join({0, 0}).join(
      sumOf(operands[0], double(getReductionSize())));
}

/// Returns true if a window may cover only padding, which gives the lowest
/// value.
static bool mayReadPaddingAlone(MaxPoolOp op) {
  if (elementCount(op.getInput()) == 0)
    return true;
  for (auto [window, low, high, dilation] :
       llvm::zip_equal(op.getWindow(), op.getPadLow(), op.getPadHigh(),
                       op.getDilations())) {
    bool mayStepOver = dilation > 1 && (low > 0 || high > 0);
    if (mayStepOver || low >= window || high >= window)
      return true;
  }
  return false;
}

KnownRange MaxPoolOp::getResultRange(unsigned, Ranges operands) {
  KnownRange range = operands[0];
  if (mayReadPaddingAlone(*this))
    range.low = KnownRange().low;
  return range;
}
