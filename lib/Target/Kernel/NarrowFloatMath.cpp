//===- NarrowFloatMath.cpp - conversion of 4- to 8-bit floats -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Encodes and decodes the formats of Support/NarrowFloat.h by bit arithmetic,
// for machines without instructions for them.
//
//===----------------------------------------------------------------------===//

#include "MathExpansion.h"

#include "mpc/Support/NarrowFloat.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;
using arith::CmpIPredicate;

static constexpr int kFractionBits = 23, kBias = 127;

/// Difference of fraction bits between f32 and `format`.
static int longerBy(const NarrowFloat &format) {
  return kFractionBits - format.fractionBits;
}

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

/// Decodes codes (i32) of powers of two. The smallest, of code 0, is subnormal
/// in f32.
static Value decodePower(ValueMath &math, Value word, bool mayBeNaN) {
  constexpr int64_t kLeastPattern = 1 << (kFractionBits - 1);
  Value isLeast = math.compare(CmpIPredicate::eq, word, 0);
  Value pattern =
      math.select(isLeast, math.integer(word.getType(), kLeastPattern),
                  math.shiftLeft(word, kFractionBits));
  Value number = math.fromBits(pattern, math.getBuilder().getF32Type());
  if (!mayBeNaN)
    return number;
  Value isNaN = math.compare(CmpIPredicate::eq, word, kFloat8E8M0FNU.nanCode());
  return math.select(isNaN, std::numeric_limits<double>::quiet_NaN(), number);
}

Value mpc::decodeFloat(ValueMath &math, Value code, const NarrowFloat &format,
                       bool mayBeNaN) {
  OpBuilder &b = math.getBuilder();
  Type i32 = b.getI32Type();
  if (!format.hasZero())
    return decodePower(math, math.extendUnsigned(code, i32), mayBeNaN);
  // Shift the sign to the top, with its copies, of which one is kept.
  int longer = longerBy(format), unused = 32 - format.bits();
  Value word = math.extendSigned(code, i32);
  if (format.bits() < 8)
    word = math.shiftRightSigned(math.shiftLeft(word, unused), unused - longer);
  else
    word = math.shiftLeft(word, longer);
  Value pattern = math.bitAnd(
      word, int64_t(0x80000000u | format.magnitudeMask() << longer));
  // As f32 the exponent is too small by the difference of the biases, also for
  // subnormal numbers.
  Value number = math.mul(math.fromBits(pattern, b.getF32Type()),
                          std::ldexp(1.0, kBias - format.bias));
  if (!mayBeNaN || !format.hasNaN())
    return number;
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  if (format.specials == NarrowFloat::Specials::UnsignedZero) {
    Value isNaN = math.compare(CmpIPredicate::eq, code,
                               int64_t(int8_t(format.nanCode())));
    return math.select(isNaN, kNaN, number);
  }
  // Special codes were decoded as numbers above the largest one.
  Value magnitude = math.abs(number);
  Value isSpecial =
      math.compare(CmpFPredicate::OGT, magnitude, format.largest());
  Value special = math.constant(number.getType(), kNaN);
  if (format.hasInfinity()) {
    double decoded = format.magnitudeOf(format.overflowCode());
    Value isInfinite = math.compare(CmpFPredicate::OEQ, magnitude, decoded);
    special = math.select(isInfinite, math.mul(number, kInfinity), special);
  }
  return math.select(isSpecial, special, number);
}

//===----------------------------------------------------------------------===//
// Encoding
//===----------------------------------------------------------------------===//

/// Returns the codes of magnitudes of normal numbers, and of all if `format`
/// has no zero; others are undefined. `pattern` is of a magnitude in f32.
static Value encodeNormal(ValueMath &math, Value pattern,
                          const NarrowFloat &format,
                          NarrowFloat::Rounding rounding, Value random) {
  int dropped = longerBy(format);
  int64_t step = int64_t(1) << dropped;
  if (!format.hasZero()) {
    // Exponent 0 is 2^-127, the middle of f32's subnormal numbers: map those
    // from there on to the fractions of that exponent.
    constexpr int64_t kLeastNormal = 1 << kFractionBits;
    Value least = math.integer(pattern.getType(), kLeastNormal / 2);
    Value subnormal =
        math.shiftLeft(math.sub(math.maximum(pattern, least), least), 1);
    Value isSubnormal = math.compare(CmpIPredicate::ult, pattern, kLeastNormal);
    pattern = math.select(isSubnormal, subnormal, pattern);
  }
  Value rounded = pattern;
  switch (rounding) {
  case NarrowFloat::Rounding::Down:
    break;
  case NarrowFloat::Rounding::Up:
    rounded = math.add(pattern, double(step - 1));
    break;
  case NarrowFloat::Rounding::Random:
    rounded = math.add(pattern, math.shiftRight(random, 32 - dropped));
    break;
  case NarrowFloat::Rounding::Nearest:
    // Add half of a step, minus one bit if the significand is even. Without a
    // fraction it is 1.
    if (format.hasZero()) {
      Value last = math.bitAnd(math.shiftRight(pattern, dropped), 1);
      rounded = math.add(math.add(pattern, double(step / 2 - 1)), last);
    } else {
      rounded = math.add(pattern, double(step / 2));
    }
    break;
  }
  // A carry into the exponent yields the next code, as intended.
  return math.add(math.shiftRight(rounded, dropped),
                  -double((kBias - format.bias) << format.fractionBits));
}

/// Returns the codes of magnitudes below the smallest normal number; others
/// are undefined.
static Value encodeSubnormal(ValueMath &math, Value magnitude,
                             Value isSubnormal, const NarrowFloat &format,
                             NarrowFloat::Rounding rounding, Value random) {
  OpBuilder &b = math.getBuilder();
  if (rounding == NarrowFloat::Rounding::Random) {
    Value zero = math.constant(magnitude.getType(), 0.0);
    Value steps =
        math.mul(math.select(isSubnormal, magnitude, zero), 1 / format.least());
    Value whole = math.toInt(steps, b.getI32Type());
    Value fraction = math.sub(steps, math.toFloat(whole, b.getF32Type()));
    Value carry =
        math.add(math.toInt(math.mul(fraction, 0x1p31), b.getI32Type()),
                 math.shiftRight(random, 1));
    return math.add(whole, math.shiftRight(carry, 31));
  }
  // Added to this, f32 numbers are multiples of the smallest number.
  double coarse = std::ldexp(format.least(), kFractionBits);
  return math.sub(math.bits(math.add(magnitude, coarse)),
                  math.bits(math.constant(magnitude.getType(), coarse)));
}

Value mpc::encodeFloat(ValueMath &math, Value x, const NarrowFloat &format,
                       bool saturate, NarrowFloat::Rounding rounding,
                       Value random) {
  OpBuilder &b = math.getBuilder();
  Value pattern = math.bits(x);
  Type word = pattern.getType();
  auto constant = [&](unsigned code) { return math.integer(word, code); };
  Value code = encodeNormal(math, math.bitAnd(pattern, 0x7fffffff), format,
                            rounding, random);
  if (format.hasZero()) {
    Value magnitude = math.abs(x);
    Value isSubnormal =
        math.compare(CmpFPredicate::OLT, magnitude, format.leastNormal());
    code = math.select(
        isSubnormal,
        encodeSubnormal(math, magnitude, isSubnormal, format, rounding, random),
        code);
  }
  unsigned largest = format.largestCode();
  Value overflows = math.compare(CmpIPredicate::ugt, code, largest);
  code = math.select(
      overflows, constant(saturate ? largest : format.overflowCode()), code);
  Value sign;
  if (format.isSigned) {
    sign = math.bitAnd(math.shiftRight(pattern, 32 - format.bits()),
                       format.signBit());
    Value used = sign;
    if (format.specials == NarrowFloat::Specials::UnsignedZero)
      used = math.select(math.compare(CmpIPredicate::eq, code, 0), constant(0),
                         sign);
    code = math.bitOr(code, used);
  }
  Value nan = constant(format.hasNaN() ? format.nanCode()
                       : saturate      ? largest
                                       : format.signBit());
  if (sign && format.hasNaN())
    nan = math.bitOr(nan, sign);
  code = math.select(math.compare(CmpFPredicate::UNO, x, x), nan, code);
  return math.truncateInt(code, b.getI8Type());
}
