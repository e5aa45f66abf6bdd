//===- MathSpecial.h - rarer functions, one text for both sides -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// As Math.h: correctly rounded operations alone, algorithms of the CPU backend.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_PRELUDE_MATHSPECIAL_H
#define MPC_TARGET_CUDA_PRELUDE_MATHSPECIAL_H

namespace mpc {

/// pi / 2, pi / 4 and so on as the nearest float and the rest.
constexpr float kHalfPiHigh = 1.57079637050628662109375f;
constexpr float kHalfPiLow = -4.37113882867379e-8f;

namespace detail {
/// Coefficients in ascending order, by Horner's rule.
template <typename T> MPC_FUNCTION T polynomial(T x, T last) { return last; }
template <typename T, typename... Rest>
MPC_FUNCTION T polynomial(T x, T first, Rest... rest) {
  return fma(polynomial(x, rest...), x, first);
}
} // namespace detail

MPC_FUNCTION float rsqrt(float x) { return 1.0f / sqrt(x); }

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

MPC_FUNCTION float softplus(float x) {
  return (x > 0.0f || isNan(x) ? x : 0.0f) + log1p(exp(-abs(x)));
}

/// x sigmoid(2 u): the form with tanh.
MPC_FUNCTION float geluTanh(float x) {
  float factor = fma(x * x, 0.044715f, 1.0f);
  return x * sigmoid(x * 1.59576912160573078f * factor);
}

MPC_FUNCTION float gelu(float x) {
  if (isNan(x))
    return x;
  float a = abs(x);
  if (a < 0.5f) {
    float slope = detail::polynomial(x * x, 0.3989422758f, -0.06648983274f,
                                     9.963412911e-3f, -1.1267634e-3f);
    return x * fma(x, slope, 0.5f);
  }
  // The normal distribution function from its tail at the magnitude.
  a = a > 14.4f ? 14.4f : a;
  float square = a * a;
  float rest = fma(a, a, -square);
  float power = exp(square * -0.5f);
  power = fma(power, rest * -0.5f, power);
  float sum = a + 4.25f;
  float inverse = 1.0f / sum;
  // One Newton step, which also takes in what the sum lost.
  float lost = a - (sum - 4.25f);
  float residual = fma(-inverse, lost, fma(-inverse, sum, 1.0f));
  float correction = inverse * residual;
  float q = fma(correction, -8.5f, fma(inverse, -8.5f, 1.0f));
  float tail = detail::polynomial(
      q, 0.7595542087f, -0.6251298032f, 0.4182274945f, -0.2205150462f,
      0.08527283268f, -0.01936802787f, -7.54533857e-4f, 2.185196807e-3f,
      -3.587061353e-4f, -2.310187214e-4f);
  tail = tail * (inverse + correction);
  float part = (x > 14.4f ? 14.4f : x) * (power * tail);
  return x < 0.0f ? part : x - part;
}

//===----------------------------------------------------------------------===//
// Hyperbolic functions
//===----------------------------------------------------------------------===//

namespace detail {
/// e^x / 2 for x >= 0, where e^x itself may be infinite.
MPC_FUNCTION float halfExp(float x) {
  return x > 88.0f ? exp(x - 1.0f) * 1.35914091422952261768f : exp(x) * 0.5f;
}
} // namespace detail

MPC_FUNCTION float sinh(float x) {
  float a = abs(x);
  if (a < 1.0f) {
    float square = x * x;
    float tail = detail::polynomial(square, 0.166666665f, 8.333350056e-3f,
                                    1.98361598e-4f, 2.816952235e-6f);
    return fma(x * square, tail, x);
  }
  float half = detail::halfExp(a);
  return copySign(half - 0.25f / half, x);
}

MPC_FUNCTION float cosh(float x) {
  float half = detail::halfExp(abs(x));
  return half + 0.25f / half;
}

MPC_FUNCTION float asinh(float x) {
  float a = abs(x);
  float result;
  // Beyond this log(2 a) has no error left, and the square could overflow.
  if (a > 0x1p13f) {
    result = log1p(a - 1.0f) + 0.693147180559945309f;
  } else {
    float square = a * a;
    result = log1p(a + square / (1.0f + sqrt(square + 1.0f)));
  }
  return isNan(x) ? x : copySign(result, x);
}

MPC_FUNCTION float acosh(float x) {
  if (x < 1.0f)
    return floatOf(0x7fffffffu);
  float t = x - 1.0f;
  if (x > 0x1p13f)
    return log1p(t) + 0.693147180559945309f;
  return log1p(t + sqrt(t * (t + 2.0f)));
}

MPC_FUNCTION float atanh(float x) {
  float a = abs(x);
  return copySign(log1p((a + a) / (1.0f - a)) * 0.5f, x);
}

//===----------------------------------------------------------------------===//
// Circular functions
//===----------------------------------------------------------------------===//

namespace detail {
struct Angle {
  /// x = quadrant * pi / 2 + rest.
  float rest;
  unsigned quadrant;
};

/// Reduces |x| >= 2^40, infinities and NaNs. Of the turns m 2^e / (2 pi) only
/// the fraction counts, and so only the bits of 1 / (2 pi) from the e-th on, of
/// which 96 suffice.
MPC_FUNCTION Angle reduceLarge(float x) {
  const unsigned inverseTurn[] = {0x28be60dbu, 0x9391054au, 0x7f09d5f4u,
                                  0x7d4d3770u, 0x36d8a566u, 0x4f10e410u,
                                  0x7f9458eau};
  using Word = unsigned long long;
  unsigned pattern = bitsOf(x) & 0x7fffffffu;
  Word mantissa = (pattern & 0x7fffffu) | 0x800000u;
  int exponent = static_cast<int>(pattern >> 23) - 150;
  int first = exponent / 32, shift = 32 - exponent % 32;
  Word window[3];
  for (int i = 0; i < 3; ++i) {
    Word pair = static_cast<Word>(inverseTurn[first + i]) << 32 |
                inverseTurn[first + i + 1];
    window[i] = pair >> shift & 0xffffffffu;
  }
  Word middle = mantissa * window[1] + (mantissa * window[2] >> 32);
  Word high = mantissa * window[0] + (middle >> 32);
  Word turn = high << 32 | (middle & 0xffffffffu);
  if (x < 0.0f)
    turn = 0 - turn;
  Word quadrant = (turn + (1ull << 61)) >> 62;
  double rest =
      static_cast<double>(static_cast<long long>(turn - (quadrant << 62))) *
      (0x1.921fb54442d18p+0 * 0x1p-62);
  // NaN for infinities and NaNs.
  return {static_cast<float>(rest + static_cast<double>(x - x)),
          static_cast<unsigned>(quadrant)};
}

MPC_FUNCTION Angle reduce(float x) {
  if (!(abs(x) < 0x1p40f))
    return reduceLarge(x);
  double wide = x;
  double shifted = fma(wide, 0.63661977236758134308, 6755399441055744.0);
  double n = 6755399441055744.0 - shifted;
  double rest = fma(n, 0x1.921fb54442d18p+0, wide);
  rest = fma(n, 0x1.1a62633145c07p-54, rest);
  // The low bits of the sum are the integer nearest to x / (pi / 2).
  return {static_cast<float>(rest),
          static_cast<unsigned>(static_cast<long long>(-n)) & 3u};
}

/// The sine of rest + quadrant * pi / 2.
MPC_FUNCTION float sineOf(float r, unsigned quadrant) {
  float square = r * r, result;
  if (quadrant & 1u) {
    float tail =
        polynomial(square, 0.04166664573f, -1.38873178e-3f, 2.443327593e-5f);
    result = fma(square * square, tail, fma(square, -0.5f, 1.0f));
  } else {
    float tail =
        polynomial(square, -0.1666665461f, 8.332160886e-3f, -1.951529347e-4f);
    result = fma(r * square, tail, r);
  }
  return quadrant & 2u ? -result : result;
}
} // namespace detail

MPC_FUNCTION float sin(float x) {
  detail::Angle angle = detail::reduce(x);
  return detail::sineOf(angle.rest, angle.quadrant);
}
MPC_FUNCTION float cos(float x) {
  detail::Angle angle = detail::reduce(x);
  return detail::sineOf(angle.rest, angle.quadrant + 1u);
}
MPC_FUNCTION float tan(float x) {
  detail::Angle angle = detail::reduce(x);
  return detail::sineOf(angle.rest, angle.quadrant) /
         detail::sineOf(angle.rest, angle.quadrant + 1u);
}

namespace detail {
MPC_FUNCTION float asinCore(float x) {
  float square = x * x;
  float tail = polynomial(square, 0.1666666f, 0.07500503571f, 0.04451706048f,
                          0.03180694442f, 0.01444115201f, 0.03751336357f);
  return fma(x * square, tail, x);
}
MPC_FUNCTION float atanCore(float t) {
  float square = t * t;
  float tail = polynomial(square, -0.333333152f, 0.1999847188f, -0.1424353755f,
                          0.1059382727f, -0.06078220572f);
  return fma(t * square, tail, t);
}
} // namespace detail

MPC_FUNCTION float asin(float x) {
  float a = abs(x);
  if (a <= 0.5f)
    return detail::asinCore(x);
  float core = detail::asinCore(sqrt((1.0f - a) * 0.5f));
  return copySign(kHalfPiHigh - ((core + core) - kHalfPiLow), x);
}

MPC_FUNCTION float acos(float x) {
  float a = abs(x);
  if (a <= 0.5f)
    return kHalfPiHigh - (detail::asinCore(x) - kHalfPiLow);
  float core = detail::asinCore(sqrt((1.0f - a) * 0.5f));
  float twice = core + core;
  return x < 0.0f ? 2 * kHalfPiHigh - (twice - 2 * kHalfPiLow) : twice;
}

MPC_FUNCTION float atan(float x) {
  float a = abs(x), high = 0, low = 0, t = a;
  if (a > 2.41421356f) {
    t = -1.0f / a;
    high = kHalfPiHigh;
    low = kHalfPiLow;
  } else if (a > 0.414213562f) {
    t = (a - 1.0f) / (a + 1.0f);
    high = kHalfPiHigh * 0.5f;
    low = kHalfPiLow * 0.5f;
  }
  return copySign(high + (detail::atanCore(t) + low), x);
}

} // namespace mpc

#endif // MPC_TARGET_CUDA_PRELUDE_MATHSPECIAL_H
