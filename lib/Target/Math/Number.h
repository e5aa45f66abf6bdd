//===- Number.h - primitives of the math library ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Math library shared by all targets. Kernels in CUDA C++ include these headers
// with F = float or double, on a GPU and on a host; the compiler calls them
// with F = Symbol<float> or Symbol<double>, each operation of which appends an
// op to the kernel under construction (Kernel/MathSymbol.h). So constants are
// written F(0.5), branches on values use select, choose and chooseRarely, and
// integers are unsigned words. Only correctly rounded operations are used: all
// machines give the same bits.
//
// Polynomials are minimax fits (Remez), for float and for double, to the
// function named in the comment; MathPolynomialTests has the bound of each.
// Errors in units in the last place of a float: exp, log, sigmoid, tanh, erf,
// sin, cos below 2, atan2 3, all others at most 4; of doubles about 1e-15
// relative, of their sin, cos and tan for arguments below 2^30 in magnitude.
// MathAccuracyTests measures them.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_MATH_NUMBER_H
#define MPC_LIB_TARGET_MATH_NUMBER_H

#ifndef MPC_FUNCTION
#define MPC_FUNCTION inline
#endif

namespace mpc {
namespace detail {

/// Layout of a float type, and constants with its precision.
template <typename F> struct FloatFormat;

struct CommonConstants {
  static constexpr double ln2 = 0.693147180559945309417;
  static constexpr double sqrt2 = 1.41421356237309504880;
  static constexpr double twoOverPi = 0.636619772367581343076;
  /// pi / 2 as the sum of three doubles.
  static constexpr double halfPi[] = {
      0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fb8p-110};
};

template <> struct FloatFormat<float> : CommonConstants {
  using Word = unsigned;
  using Wide = double;
  static constexpr bool isWide = false;
  static constexpr int mantissaBits = 23, exponentBias = 127;
  static constexpr double smallestNormal = 0x1p-126;
  static constexpr unsigned infinityBits = 0x7f800000, nanBits = 0x7fc00000;
  /// 1.5 * 2^mantissaBits: adding it leaves the nearest integer in the low
  /// bits. And its bits.
  static constexpr double rounder = 0x1.8p23;
  static constexpr unsigned rounderBits = 0x4b400000;
  /// ln 2 as a short part, whose products with exponents are exact, plus the
  /// rest.
  static constexpr double ln2High = 0.693145752, ln2Low = 1.42860677e-6;
  /// Angles as the nearest number plus the rest.
  static constexpr double halfPiHigh = static_cast<float>(halfPi[0]),
                          halfPiLow = halfPi[0] - halfPiHigh;
  static constexpr double threeQuarterPiHigh =
                              static_cast<float>(1.5 * halfPi[0]),
                          threeQuarterPiLow =
                              1.5 * halfPi[0] - threeQuarterPiHigh;
};

template <> struct FloatFormat<double> : CommonConstants {
  using Word = unsigned long long;
  using Wide = double;
  static constexpr bool isWide = true;
  static constexpr int mantissaBits = 52, exponentBias = 1023;
  static constexpr double smallestNormal = 0x1p-1022;
  static constexpr unsigned long long infinityBits = 0x7ff0000000000000,
                                      nanBits = 0x7ff8000000000000;
  static constexpr double rounder = 0x1.8p52;
  static constexpr unsigned long long rounderBits = 0x4338000000000000;
  static constexpr double ln2High = 6.93147180369123816490e-01,
                          ln2Low = 1.90821492927058770002e-10;
  static constexpr double halfPiHigh = halfPi[0], halfPiLow = halfPi[1];
  static constexpr double threeQuarterPiHigh = 1.5 * halfPi[0],
                          threeQuarterPiLow = 1.5 * halfPi[1];
};

template <typename F> using WordOf = typename FloatFormat<F>::Word;
template <typename F> using WideOf = typename FloatFormat<F>::Wide;
template <typename F> constexpr bool isWide = FloatFormat<F>::isWide;

template <typename F> MPC_FUNCTION F infinity() {
  return floatOf(WordOf<F>(FloatFormat<F>::infinityBits));
}
template <typename F> MPC_FUNCTION F nan() {
  return floatOf(WordOf<F>(FloatFormat<F>::nanBits));
}

/// c[0] + x (c[1] + x ...).
template <typename F, int N> MPC_FUNCTION F horner(F x, const double (&c)[N]) {
  F sum = F(c[N - 1]);
#pragma unroll
  for (int i = N - 2; i >= 0; --i)
    sum = fma(sum, x, F(c[i]));
  return sum;
}

/// The one of two polynomials that is exact enough for F.
template <typename F, int N, int M>
MPC_FUNCTION F polynomial(F x, const double (&single)[N],
                          const double (&wide)[M]) {
  if constexpr (isWide<F>)
    return horner(x, wide);
  else
    return horner(x, single);
}

/// 2^n for a normal result.
template <typename F> MPC_FUNCTION F powerOfTwo(WordOf<F> n) {
  using Format = FloatFormat<F>;
  return floatOf((n + WordOf<F>(Format::exponentBias)) << Format::mantissaBits);
}

/// x within [low, high]; a NaN stays.
template <typename F> MPC_FUNCTION F clamp(F x, double low, double high) {
  F clamped = select(x > F(high), F(high), x);
  return select(clamped < F(low), F(low), clamped);
}

} // namespace detail
} // namespace mpc

#endif // MPC_LIB_TARGET_MATH_NUMBER_H
