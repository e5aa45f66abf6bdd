//===- MathPower.h - pow and atan2, one text for both sides -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// As Math.h. What is hard about a power is its logarithm, of which the exponent
// magnifies every error: it is taken in double.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_PRELUDE_MATHPOWER_H
#define MPC_TARGET_CUDA_PRELUDE_MATHPOWER_H

namespace mpc {

namespace detail {
/// log2 of a positive finite float, to about 50 bits.
MPC_FUNCTION double log2Wide(float x) {
  bool subnormal = x < 1.1754943508222875e-38f;
  unsigned pattern = bitsOf(subnormal ? x * 8388608.0f : x);
  // The mantissa within [0.7, 1.4].
  int exponent = static_cast<int>(pattern - 0x3f330000u) >> 23;
  double m = floatOf(pattern - (static_cast<unsigned>(exponent) << 23));
  // log m = 2 artanh s.
  double s = (m - 1.0) / (m + 1.0);
  double series = polynomial(s * s, 1.0, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9,
                             1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19);
  double whole = static_cast<double>(exponent) - (subnormal ? 23.0 : 0.0);
  return fma(s * series, 2.88539008177792681472, whole);
}

/// 2^t for |t| <= 200, to about 45 bits.
MPC_FUNCTION double exp2Wide(double t) {
  double shifted = t + 6755399441055744.0;
  double n = shifted - 6755399441055744.0;
  double r = (t - n) * 0.693147180559945309417;
  double p =
      polynomial(r, 1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720,
                 1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800);
  // Two float powers: 2^200 is beyond one.
  int first = static_cast<int>(n) / 2, second = static_cast<int>(n) - first;
  return p * static_cast<double>(powerOfTwo(first)) *
         static_cast<double>(powerOfTwo(second));
}
} // namespace detail

/// x^y with the special cases of C.
MPC_FUNCTION float pow(float x, float y) {
  if (y == 0.0f || x == 1.0f)
    return 1.0f;
  if (isNan(x) || isNan(y))
    return floatOf(0x7fffffffu);
  float a = abs(x), b = abs(y);
  const float infinite = floatOf(0x7f800000u);
  bool isWhole = trunc(y) == y;
  bool isOdd = isWhole && b < 16777216.0f && (static_cast<int>(b) & 1) != 0;
  bool isNegative = isOdd && (bitsOf(x) >> 31) != 0;
  float result;
  if (a == 0.0f)
    result = y > 0.0f ? 0.0f : infinite;
  else if (a == infinite)
    result = y > 0.0f ? infinite : 0.0f;
  else if (a == 1.0f && b == infinite)
    result = 1.0f;
  else if (b == infinite)
    result = (a > 1.0f) == (y > 0.0f) ? infinite : 0.0f;
  else if (x < 0.0f && !isWhole)
    return floatOf(0x7fffffffu);
  else {
    double t = detail::log2Wide(a) * static_cast<double>(y);
    t = t > 200.0 ? 200.0 : t;
    t = t < -200.0 ? -200.0 : t;
    result = static_cast<float>(detail::exp2Wide(t));
  }
  return isNegative ? -result : result;
}

/// The angle of the point (x, y).
MPC_FUNCTION float atan2(float y, float x) {
  if (isNan(x) || isNan(y))
    return floatOf(0x7fffffffu);
  float a = abs(x), b = abs(y), angle;
  if (a == b)
    // Also for two infinities; two zeros count as on the axis.
    angle = a == 0.0f ? 0.0f : kHalfPiHigh * 0.5f;
  else if (b < a)
    angle = atan(b / a);
  else
    angle = kHalfPiHigh - (atan(a / b) - kHalfPiLow);
  if ((bitsOf(x) >> 31) != 0)
    angle = 2 * kHalfPiHigh - (angle - 2 * kHalfPiLow);
  return copySign(angle, y);
}

} // namespace mpc

#endif // MPC_TARGET_CUDA_PRELUDE_MATHPOWER_H
