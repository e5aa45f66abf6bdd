//===- Float8Math.cpp - conversion of 8-bit floats ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Encodes and decodes f8E4M3FN by bit arithmetic, for machines without
// instructions for it.
//
//===----------------------------------------------------------------------===//

#include "MathExpansion.h"

#include "mpc/Support/Float8.h"

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;

/// Difference of fraction bits between f32 and f8E4M3FN, and of exponent
/// biases.
static constexpr int64_t kLonger = 20, kBiases = 127 - 7;

Value mpc::decodeFloat8(ValueMath &math, Value code, bool mayBeNaN) {
  OpBuilder &b = math.getBuilder();
  Type word = b.getI32Type();
  // Shift the sign to the top, with its copies, of which one is kept.
  Value shifted = math.shiftLeft(math.extendSigned(code, word), kLonger);
  Value pattern =
      math.bitAnd(shifted, int64_t(0x80000000u | (uint32_t(0x7f) << kLonger)));
  // As f32 the exponent is too small by the difference of the biases, also for
  // subnormal numbers.
  Value number = math.mul(math.fromBits(pattern, b.getF32Type()), 0x1p120);
  static_assert(kBiases == 120);
  if (!mayBeNaN)
    return number;
  // NaN's code was decoded as 480.
  Value isNaN =
      math.compare(CmpFPredicate::OGT, math.abs(number), kLargestFloat8);
  return math.select(isNaN, std::numeric_limits<double>::quiet_NaN(), number);
}

Value mpc::encodeFloat8(ValueMath &math, Value x) {
  Value magnitude = math.abs(x);
  Value isLarge = math.compare(CmpFPredicate::OGT, magnitude, kLargestFloat8);
  magnitude = math.select(isLarge, kLargestFloat8, magnitude);
  // Ties to even: add half of a last place, minus one bit if the place is even.
  Value pattern = math.bits(magnitude);
  Value last = math.bitAnd(math.shiftRight(pattern, kLonger), 1);
  Value rounded = math.add(math.add(pattern, (1 << (kLonger - 1)) - 1), last);
  Value normal = math.add(math.shiftRight(rounded, kLonger), -(kBiases << 3));
  // Added to 2^14, f32 numbers are multiples of 2^-9, the smallest subnormal.
  constexpr double kCoarse = 0x1p14, kLeastNormal = 0x1p-6;
  Value coarse = math.bits(math.add(magnitude, kCoarse));
  Value subnormal =
      math.sub(coarse, math.bits(math.constant(magnitude.getType(), kCoarse)));
  Value isSubnormal = math.compare(CmpFPredicate::OLT, magnitude, kLeastNormal);
  Value code = math.select(isSubnormal, subnormal, normal);
  Value isNaN = math.compare(CmpFPredicate::UNO, x, x);
  code = math.select(isNaN, math.integer(code.getType(), kNanFloat8), code);
  Value sign = math.bitAnd(math.shiftRight(math.bits(x), 24), 0x80);
  return math.truncateInt(math.bitOr(code, sign),
                          math.getBuilder().getI8Type());
}
