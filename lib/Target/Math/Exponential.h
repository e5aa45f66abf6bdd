//===- Exponential.h - powers of e, logarithms, pow -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_MATH_EXPONENTIAL_H
#define MPC_LIB_TARGET_MATH_EXPONENTIAL_H

#include "Number.h"

namespace mpc {

//===----------------------------------------------------------------------===//
// Powers of e
//===----------------------------------------------------------------------===//

namespace detail {
/// x = n ln 2 + rest with a whole n and |rest| <= ln 2 / 2.
template <typename F> struct ExpParts {
  F n, rest;
  /// n + rounderBits.
  WordOf<F> word;
};

template <typename F> MPC_FUNCTION ExpParts<F> splitExp(F x) {
  using Format = FloatFormat<F>;
  F shifted = fma(x, F(1.44269504088896340736), F(Format::rounder));
  F n = shifted - F(Format::rounder);
  F rest = fma(n, F(-Format::ln2High), x);
  return {n, fma(n, F(-Format::ln2Low), rest), bitsOf(shifted)};
}

/// The same of any x: what is cut off gives 0 or infinity, also after a bias.
template <typename F> MPC_FUNCTION ExpParts<F> splitExpOfAny(F x) {
  double bound = isWide<F> ? 750 : 106;
  return splitExp(clamp(x, -bound, bound));
}

/// e^r - 1 for |r| <= ln 2 / 2, exact enough for e^r, or for itself (Precise).
template <bool Precise, typename F> MPC_FUNCTION F expm1Core(F r) {
  // (e^r - 1 - r) / r^2.
  if constexpr (Precise && !isWide<F>)
    return fma(r * r,
               horner(r, {0.5000000047, 0.1666666682, 0.04166635231,
                          8.333272767e-3, 1.394120982e-3, 1.991432284e-4}),
               r);
  else
    return fma(r * r,
               polynomial(r,
                          {0.4999999337, 0.1666651953, 0.0416684006,
                           8.368850907e-3, 1.381435018e-3},
                          {0.4999999999999999999, 0.1666666666666667679,
                           0.04166666666666670232, 8.333333333321436578e-3,
                           1.388888888886639019e-3, 1.984126988667271454e-4,
                           2.480158736140839887e-5, 2.755724360976482416e-6,
                           2.755724204913577313e-7, 2.510926163975827436e-8,
                           2.092465924390621815e-9}),
               r);
}

/// 2^bias e^x from the parts of x.
template <typename F> MPC_FUNCTION F expOf(ExpParts<F> parts, int bias) {
  F mantissa = expm1Core<false>(parts.rest) + F(1.0);
  if (scalesAtOnce(mantissa))
    return scaleAtOnce(mantissa, bias == 0 ? parts.n : parts.n + F(bias));
  // Two factors: the result may be subnormal or the power alone too large.
  WordOf<F> n = parts.word - WordOf<F>(FloatFormat<F>::rounderBits - bias);
  WordOf<F> half = shiftSigned(n, 1);
  return mantissa * powerOfTwo<F>(half) * powerOfTwo<F>(n - half);
}

/// e^x / 2, where e^x itself may be infinite.
template <typename F> MPC_FUNCTION F halfExp(F x) {
  return expOf(splitExpOfAny(x), -1);
}
} // namespace detail

template <typename F> MPC_FUNCTION F exp(F x) {
  return detail::expOf(detail::splitExpOfAny(x), 0);
}

/// e^x for x <= 0 (or NaN), as softmax needs it.
template <typename F> MPC_FUNCTION F expNonPositive(F x) {
  using Format = detail::FloatFormat<F>;
  using Word = detail::WordOf<F>;
  // Below it half the least subnormal number.
  const F bound = F(detail::isWide<F> ? -746.0 : -104.0);
  auto tiny = x < bound;
  detail::ExpParts<F> parts = detail::splitExp(select(tiny, bound, x));
  F mantissa = detail::expm1Core<false>(parts.rest) + F(1.0);
  if (scalesAtOnce(mantissa))
    return scaleAtOnce(mantissa, parts.n);
  // In two steps, of which only the second may give a subnormal result. Zeros
  // come before it: processors are slow at multiplications that underflow. The
  // rounding constant's own bits leave the word when shifted.
  Word power = (parts.word << Format::mantissaBits) +
               (Word(Format::exponentBias + 64) << Format::mantissaBits);
  return select(tiny, F(0.0), mantissa * floatOf(power)) * F(0x1p-64);
}

template <typename F> MPC_FUNCTION F expm1(F x) {
  using Word = detail::WordOf<F>;
  F clamped = detail::clamp(x, detail::isWide<F> ? -40 : -20,
                            detail::isWide<F> ? 710 : 89);
  detail::ExpParts<F> parts = detail::splitExp(clamped);
  F core = detail::expm1Core<true>(parts.rest);
  // Half the result first: 2^n itself may be infinite.
  Word n = parts.word - Word(detail::FloatFormat<F>::rounderBits + 1);
  F half = detail::powerOfTwo<F>(n);
  F sum = fma(core, half, half - F(0.5));
  return select(x == F(0.0), x, sum + sum);
}

//===----------------------------------------------------------------------===//
// Logarithms
//===----------------------------------------------------------------------===//

namespace detail {
/// A positive finite number, 2^n m with a whole n and m near 1.
template <typename F> struct LogParts {
  F n, m;
};

template <typename F> MPC_FUNCTION LogParts<F> splitLog(F x) {
  using Format = FloatFormat<F>;
  using Word = WordOf<F>;
  constexpr int bits = Format::mantissaBits;
  constexpr double unit = isWide<F> ? 0x1p52 : 0x1p23;
  // Subnormal numbers are scaled first.
  auto subnormal = x < F(Format::smallestNormal);
  Word pattern = bitsOf(select(subnormal, x * F(unit), x));
  // The offset puts m within [2/3, 4/3), of doubles [sqrt 1/2, sqrt 2).
  constexpr auto offset = isWide<F> ? 0x3fe6a09e667f3bcd : 0x3f2aaaab;
  constexpr auto bias = static_cast<unsigned long long>(Format::exponentBias);
  Word exponent = (pattern + Word((bias << bits) - offset)) >> bits;
  Word whole = exponent - Word(bias);
  F m = floatOf(pattern - (whole << bits)), n;
  // 2^bits with the exponent in the low bits: words of 64 bits have no
  // conversion on some machines.
  if constexpr (isWide<F>)
    n = floatOf(exponent | (Word(bias + bits) << bits)) - F(unit + bias);
  else
    n = signedToFloat(whole);
  return {select(subnormal, n - F(bits), n), m};
}

/// (log((1 + s) / (1 - s)) - 2 s) / s^3 in s^2, for arguments within [sqrt 1/2,
/// sqrt 2].
template <typename F> MPC_FUNCTION F logTail(F square) {
  return horner(square, {0.6666666666666666089, 0.4000000000000633198,
                         0.285714285690584912, 0.2222222265094309708,
                         0.1818177533215644244, 0.1538710539991040826,
                         0.1324978649644892786, 0.1325435794561132474});
}

template <typename F> MPC_FUNCTION F logOf(LogParts<F> x) {
  using Format = FloatFormat<F>;
  F f = x.m - F(1.0);
  if constexpr (isWide<F>) {
    F s = f / (f + F(2.0));
    F square = s * s;
    // log m = f - s (f - s^2 P): keeps f exact.
    F tail = square * logTail(square);
    F low = fma(x.n, F(Format::ln2Low), -(s * (f - tail)));
    return fma(x.n, F(Format::ln2High), f + low);
  } else {
    // (log(1 + f) - f) / f^2.
    F tail = horner(f, {-0.5000000122, 0.3333320883, -0.2499971569,
                        0.2001072653, -0.1668235547, 0.1400145173,
                        -0.1216663306, 0.1400355924, -0.12950835});
    F r = fma(f * f, tail, f);
    return fma(x.n, F(Format::ln2High), fma(x.n, F(Format::ln2Low), r));
  }
}
} // namespace detail

template <typename F> MPC_FUNCTION F log(F x) {
  F result = detail::logOf(detail::splitLog(x));
  // Infinity and NaN are kept; the logarithm of a negative number is NaN.
  result = select(x < detail::infinity<F>(), result, x);
  result = select(x < F(0.0), detail::nan<F>(), result);
  return select(x == F(0.0), -detail::infinity<F>(), result);
}

template <typename F> MPC_FUNCTION F log1p(F x) {
  F u = x + F(1.0);
  // What the sum lost, to first order.
  F lost = x - (u - F(1.0)), whole = log(u);
  F corrected = whole + lost / u;
  // At -1 and infinity the correction is no number; log(u) is right there.
  auto plain = u == F(0.0) || u == detail::infinity<F>();
  return select(u == F(1.0), x, select(plain, whole, corrected));
}

//===----------------------------------------------------------------------===//
// pow
//===----------------------------------------------------------------------===//

namespace detail {
/// A number to more than its own bits.
template <typename F> struct HighAndLow {
  F high, low;
};

/// The logarithm of a positive finite double.
template <typename F> MPC_FUNCTION HighAndLow<F> logParts(F x) {
  using Format = FloatFormat<F>;
  LogParts<F> parts = splitLog(x);
  F f = parts.m - F(1.0), d = f + F(2.0);
  F s = f / d;
  // The quotient's rest, the rounding of d included.
  F dRest = f - (d - F(2.0));
  F rest = fma(-s, dRest, fma(-s, d, f));
  F sLow = rest / d;
  F square = s * s;
  F tail = s * square * logTail(square);
  F base = parts.n * F(Format::ln2High), twice = s + s;
  F high = base + twice;
  // Two-sum of base and twice, whichever is larger.
  F part = high - base;
  F error = (base - (high - part)) + (twice - part);
  F low = fma(parts.n, F(Format::ln2Low), tail) + (error + (sLow + sLow));
  return {high, low};
}

/// a^y for a positive finite a: the exponent magnifies every error of the
/// logarithm, which is computed in more bits than the result has.
template <typename F> MPC_FUNCTION F powOf(F a, F y) {
  if constexpr (isWide<F>) {
    HighAndLow<F> whole = logParts(a);
    F product = y * whole.high;
    F rest = fma(y, whole.low, fma(y, whole.high, -product));
    ExpParts<F> parts = splitExpOfAny(product);
    parts.rest = parts.rest + select(abs(product) < F(800.0), rest, F(0.0));
    return expOf(parts, 0);
  } else {
    using Wide = WideOf<F>;
    // The logarithms of 0 and of infinity are irrelevant.
    return F(exp(Wide(y) * logOf(splitLog(Wide(a)))));
  }
}
} // namespace detail

/// x^y with the special cases of C.
template <typename F> MPC_FUNCTION F pow(F x, F y) {
  const F zero = F(0.0), one = F(1.0), nan = detail::nan<F>(),
          infinity = detail::infinity<F>();
  F a = abs(x), result = detail::powOf(a, y);
  auto falls = y < zero;
  result = select(a == zero, select(falls, infinity, zero), result);
  result = select(a == infinity, select(falls, zero, infinity), result);
  result = select(a == one, one, result);

  auto whole = trunc(y) == y;
  F half = y * F(0.5);
  auto odd = whole && trunc(half) != half;
  result = select(odd && isNegative(bitsOf(x)), -result, result);

  // A negative finite base needs a whole exponent.
  auto negative = x < zero && x > -infinity;
  result = select(negative && trunc(y) != y, nan, result);
  result = select(x != x || y != y, nan, result);
  return select(y == zero || x == one, one, result);
}

} // namespace mpc

#endif // MPC_LIB_TARGET_MATH_EXPONENTIAL_H
