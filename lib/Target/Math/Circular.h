//===- Circular.h - sin, cos, tan and their inverses ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_MATH_CIRCULAR_H
#define MPC_LIB_TARGET_MATH_CIRCULAR_H

#include "Number.h"

namespace mpc {

//===----------------------------------------------------------------------===//
// sin, cos, tan
//===----------------------------------------------------------------------===//

namespace detail {
/// x = q pi / 2 + rest with |rest| <= pi / 4.
template <typename F> struct Angle {
  WideOf<F> rest;
  /// q in its last two bits.
  WordOf<WideOf<F>> quadrant;
};

/// Reduces floats of at least 2^32 in magnitude. NaN if x is infinite.
template <typename F> MPC_FUNCTION Angle<F> reduceLarge(F x) {
  // x = m 2^e with a 24-bit m: of the turns m 2^e / (2 pi) only the fraction
  // counts, and so only the bits of 1 / (2 pi) from the e-th on, of which 96
  // give it to 2^-72; a float is no nearer than 2^-32 to a quarter turn.
  using Wide = WideOf<F>;
  using Word = WordOf<Wide>;
  // The bits of 1 / (2 pi) after the binary point.
  const unsigned inverseTurn[] = {0x28be60db, 0x9391054a, 0x7f09d5f4,
                                  0x7d4d3770, 0x36d8a566, 0x4f10e410,
                                  0x7f9458ea};
  const Word lowHalf = Word(0xffffffff);
  Word pattern = Word(bitsOf(x) & WordOf<F>(0x7fffffff));
  Word mantissa = (pattern & Word(0x7fffff)) | Word(0x800000);
  Word exponent = (pattern >> 23) + Word(-150ll);
  Word first = exponent >> 5, shift = Word(32) - (exponent & Word(31));
  Word words[4], window[3];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    words[j] = Word(inverseTurn[j]);
#pragma unroll
    for (int i = 1; i < 4; ++i)
      words[j] = select(first == Word(i), Word(inverseTurn[i + j]), words[j]);
  }
#pragma unroll
  for (int j = 0; j < 3; ++j)
    window[j] = (((words[j] << 32) | words[j + 1]) >> shift) & lowHalf;
  Word middle = mantissa * window[1] + ((mantissa * window[2]) >> 32);
  Word high = mantissa * window[0] + (middle >> 32);
  Word turn = (high << 32) | (middle & lowHalf);
  turn = select(x < F(0.0), Word(0) - turn, turn);
  Word quadrant = (turn + Word(1ull << 61)) >> 62;
  Wide rest = signedToFloat(turn - (quadrant << 62)) *
              Wide(FloatFormat<F>::halfPi[0] * 0x1p-62);
  // NaN for infinities.
  return {rest + Wide(x - x), quadrant};
}

/// The reduction runs in double for both types: exact where float needs it.
template <typename F> MPC_FUNCTION Angle<F> reduce(F x) {
  using Wide = WideOf<F>;
  using Format = FloatFormat<Wide>;
  Wide argument = Wide(x);
  Wide shifted = fma(argument, Wide(Format::twoOverPi), Wide(Format::rounder));
  Wide n = -(shifted - Wide(Format::rounder));
  Wide rest = fma(n, Wide(Format::halfPi[0]), argument);
  rest = fma(n, Wide(Format::halfPi[1]), rest);
  if constexpr (isWide<F>)
    rest = fma(n, Wide(Format::halfPi[2]), rest);
  Angle<F> angle = {rest, bitsOf(shifted)};
  if constexpr (isWide<F>)
    return angle;
  else
    return chooseRarely(
        abs(x) >= F(0x1p40), [&] { return reduceLarge(x); },
        [&] { return angle; });
}

/// sin and cos on [-pi / 4, pi / 4].
template <typename F> MPC_FUNCTION F sinCore(F r) {
  // (sin r - r) / r^3 in r^2.
  F square = r * r;
  F tail = polynomial(square, {-0.1666665461, 8.332160886e-3, -1.951529347e-4},
                      {-0.1666666666666666664, 8.333333333333322527e-3,
                       -1.984126984125482124e-4, 2.755731921407456837e-6,
                       -2.505210488400921383e-8, 1.605836339778771479e-10,
                       -7.578550049539552124e-13});
  return fma(r * square, tail, r);
}
template <typename F> MPC_FUNCTION F cosCore(F r) {
  // (cos r - 1 + r^2 / 2) / r^4 in r^2.
  F square = r * r;
  F tail = polynomial(square, {0.04166664573, -1.38873178e-3, 2.443327593e-5},
                      {0.04166666666666666661, -1.388888888888887301e-3,
                       2.480158730157056176e-5, -2.755731921500216806e-7,
                       2.087675428733558869e-9, -1.147028484852260367e-11,
                       4.737750231047934117e-14});
  return fma(square * square, tail, fma(square, F(-0.5), F(1.0)));
}

template <typename F> struct SineAndCosine {
  F sine, cosine;
};

template <typename F> MPC_FUNCTION SineAndCosine<F> sinCos(F x) {
  using Word = WordOf<F>;
  Angle<F> angle = reduce(x);
  F r = F(angle.rest);
  Word quadrant = Word(angle.quadrant);
  F sine = sinCore(r), cosine = cosCore(r);
  auto odd = (quadrant & Word(1)) != Word(0);
  auto flip = [](F value, Word quarter) {
    Word sign = (quarter & Word(2)) << (isWide<F> ? 62 : 30);
    return floatOf(bitsOf(value) ^ sign);
  };
  return {flip(select(odd, cosine, sine), quadrant),
          flip(select(odd, sine, cosine), quadrant + Word(1))};
}
} // namespace detail

// Sums that are zero have lost the sign of a zero.
template <typename F> MPC_FUNCTION F sin(F x) {
  return select(x == F(0.0), x, detail::sinCos(x).sine);
}
template <typename F> MPC_FUNCTION F cos(F x) {
  return detail::sinCos(x).cosine;
}
template <typename F> MPC_FUNCTION F tan(F x) {
  detail::SineAndCosine<F> both = detail::sinCos(x);
  return select(x == F(0.0), x, both.sine / both.cosine);
}

//===----------------------------------------------------------------------===//
// asin, acos
//===----------------------------------------------------------------------===//

namespace detail {
/// asin on [0, 1/2].
template <typename F> MPC_FUNCTION F asinCore(F x) {
  // (asin x - x) / x^3 in x^2.
  F square = x * x;
  F tail = polynomial(
      square,
      {0.1666666, 0.07500503571, 0.04451706048, 0.03180694442, 0.01444115201,
       0.03751336357},
      {0.1666666666666676044, 0.07499999999970801236, 0.04464285717461027505,
       0.03038194270786740283, 0.02237221498514073834, 0.01735161206067749271,
       0.01398081996578868782, 0.01139891706936829232, 0.01078022547037501283,
       3.70651180409632842e-3, 0.0217071973432953251, -0.02099871078772839102,
       0.03262840484460121576});
  return fma(x * square, tail, x);
}

/// The core of a for a <= 1/2, else of sqrt((1 - a) / 2), half the complement.
template <typename F, typename Condition>
MPC_FUNCTION F asinHalf(F a, Condition large) {
  F half = (F(1.0) - a) * F(0.5);
  return asinCore(choose(large, [&] { return sqrt(half); }, [&] { return a; }));
}
} // namespace detail

template <typename F> MPC_FUNCTION F asin(F x) {
  using Format = detail::FloatFormat<F>;
  F a = abs(x);
  auto large = a > F(0.5);
  F core = detail::asinHalf(a, large);
  F complement = F(Format::halfPiHigh) - ((core + core) - F(Format::halfPiLow));
  return copySign(select(large, complement, core), x);
}

template <typename F> MPC_FUNCTION F acos(F x) {
  using Format = detail::FloatFormat<F>;
  F a = abs(x);
  auto large = a > F(0.5);
  F core = detail::asinHalf(a, large), twice = core + core;
  // Near -1: pi - 2 core; near 1: 2 core; between: pi / 2 - asin x.
  F farSide = F(2 * Format::halfPiHigh) - (twice - F(2 * Format::halfPiLow));
  F inner = F(Format::halfPiHigh) - (copySign(core, x) - F(Format::halfPiLow));
  return select(large, select(x < F(0.0), farSide, twice), inner);
}

//===----------------------------------------------------------------------===//
// atan, atan2
//===----------------------------------------------------------------------===//

namespace detail {
/// tan(pi / 8) and tan(3 pi / 8), between which pi / 4 is taken away.
constexpr double kTanEighth = 0.41421356237309503,
                 kTanThreeEighths = 2.4142135623730951;

template <typename F> MPC_FUNCTION F atanCore(F t) {
  // (atan x - x) / x^3 in x^2, |x| <= tan(pi / 8).
  F square = t * t;
  F tail = polynomial(
      square,
      {-0.333333152, 0.1999847188, -0.1424353755, 0.1059382727, -0.06078220572},
      {-0.3333333333333332746, 0.1999999999999764951, -0.1428571428538590173,
       0.1111111108806593824, -0.09090908141113336777, 0.07692282693945742035,
       -0.06666225967273470281, 0.05877015521765963788, -0.05218372498131968082,
       0.04503451218295654859, -0.03347283946473113943,
       0.01519413352587082909});
  return fma(t * square, tail, t);
}
} // namespace detail

template <typename F> MPC_FUNCTION F atan(F x) {
  using Format = detail::FloatFormat<F>;
  const F zero = F(0.0), one = F(1.0);
  F a = abs(x);
  auto middle = a > F(detail::kTanEighth),
       outer = a > F(detail::kTanThreeEighths);
  F numerator = select(outer, F(-1.0), select(middle, a - one, a));
  F denominator = select(outer, a, select(middle, a + one, one));
  F core = detail::atanCore(numerator / denominator);
  F high = select(outer, F(Format::halfPiHigh),
                  select(middle, F(Format::halfPiHigh / 2), zero));
  F low = select(outer, F(Format::halfPiLow),
                 select(middle, F(Format::halfPiLow / 2), zero));
  return copySign(high + (core + low), x);
}

/// The angle of the point (x, y); zeros and infinities as C's atan2 has them.
template <typename F> MPC_FUNCTION F atan2(F y, F x) {
  using Format = detail::FloatFormat<F>;
  const F one = F(1.0), infinity = detail::infinity<F>();
  F a = abs(x), c = abs(y);
  auto bothInfinite = a == infinity && c == infinity;
  // Scale down, as sums of large numbers would overflow; a small partner that
  // underflows would vanish in the quotient anyway.
  const F large = F(detail::isWide<F> ? 0x1p1000 : 0x1p100);
  F factor = select(a > large || c > large, F(0.25), one);
  a = select(bothInfinite, one, a * factor);
  c = select(bothInfinite, one, c * factor);

  // As atan(c / a) above, with one division.
  auto middle = c > a * F(detail::kTanEighth),
       outer = c > a * F(detail::kTanThreeEighths);
  F numerator = select(outer, -a, select(middle, c - a, c));
  F denominator = select(outer, c, select(middle, c + a, a));
  denominator = select(denominator == F(0.0), one, denominator);
  F core = detail::atanCore(numerator / denominator);

  // On the side of negative x the angle is pi minus that.
  auto negative = isNegative(bitsOf(x));
  core = select(negative, -core, core);
  auto base = [&](double half, double threeQuarters) {
    return select(outer, F(half),
                  select(middle,
                         select(negative, F(threeQuarters), F(half / 2)),
                         select(negative, F(2 * half), F(0.0))));
  };
  F high = base(Format::halfPiHigh, Format::threeQuarterPiHigh);
  F low = base(Format::halfPiLow, Format::threeQuarterPiLow);
  return copySign(high + (core + low), y);
}

} // namespace mpc

#endif // MPC_LIB_TARGET_MATH_CIRCULAR_H
