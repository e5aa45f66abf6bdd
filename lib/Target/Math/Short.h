//===- Short.h - fast functions for 16-bit results --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions accurate enough for results rounded to 16 bits. An epilogue
// computes one per element of a GEMM's result, so that each instruction counts.
// exp2Fast is one instruction on GPUs, and exp2OfNormal elsewhere.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_MATH_SHORT_H
#define MPC_LIB_TARGET_MATH_SHORT_H

#include "Number.h"

namespace mpc {

namespace detail {
/// 2^x with a relative error of 2^-23.6 and the roundings of the polynomial,
/// for x in [-150, 127]: the results of less than 2^-126 are subnormal.
template <typename F> MPC_FUNCTION F exp2OfNormal(F x) {
  using Format = FloatFormat<F>;
  F shifted = x + F(Format::rounder);
  F n = shifted - F(Format::rounder);
  // 2^r, |r| <= 1/2.
  F mantissa = horner(x - n, {1.000000072, 0.6931469671, 0.2402211972,
                              0.05550713273, 9.675541334e-3, 1.327647199e-3});
  if (scalesAtOnce(mantissa))
    return scaleAtOnce(mantissa, n);
  // In two steps, of which only the second may give a subnormal result.
  WordOf<F> word = bitsOf(shifted) - WordOf<F>(Format::rounderBits);
  return mantissa * powerOfTwo<F>(word + WordOf<F>(64)) * F(0x1p-64);
}
} // namespace detail

// gelu:
//
//   gelu(x) = max(x, 0) - a N(-a),   a = |x|,   N(-a) = 2^Q(a),
//
// N the normal distribution function, since x N(x) = x - x N(-x). log2 N(-a) is
// smooth, and the minimax polynomials Q stay within d of it in absolute terms,
// so that N has the relative error d ln 2, exp2Fast's two units in the last
// place of f32 and the roundings of Q, at most 2^-24 of |Q| <= 126 a step.
// Where x < 0 the result has that relative error, where x > 0 the part N(-a) /
// N(a) of it. There is no branch, and the only special cases are those of the
// two ends: `minimum` lets a NaN pass and keeps infinity off the product, and
// max(x, 0) is written so that it is NaN at -infinity, as -infinity times 0 is.

namespace detail {
/// max(x, 0), NaN at -infinity.
template <typename F> MPC_FUNCTION F positivePart(F x) {
  return x - minimum(x, F(0.0));
}
} // namespace detail

/// For a result in bf16, half a unit of which is 2^-9 of it or more: d ln 2 =
/// 2^-13.07, in all below 2^-12.9. Where the power is none of f32's normal
/// numbers (x < -12.8) results, of less than 13 * 2^-126, are zeros on GPUs;
/// the polynomial, a fit to a <= 13, is off by 0.1 of bf16's subnormal numbers
/// there, and values beyond 13.75 round to 0.
template <typename F> MPC_FUNCTION F geluBfloat16(F x) {
  F a = minimum(abs(x), F(13.75));
  F power = exp2Fast(
      detail::horner(a, {-1.000167418, -1.149218915, -0.4624556372,
                         -0.05102514706, 0.0074932752, -7.573320979e-4,
                         4.891781452e-5, -1.80113746e-6, 2.860445127e-8}));
  return fma(-a, power, detail::positivePart(x));
}

/// For a result in f16, half a unit of which is 2^-12 of it or more: d ln 2 =
/// 2^-18.2, in all below 2^-17. Values beyond 5.9 round to 0 in f16.
template <typename F> MPC_FUNCTION F geluHalf(F x) {
  F a = minimum(abs(x), F(5.9));
  F power = exp2Fast(detail::horner(
      a, {-0.9999953031, -1.151250844, -0.4584651594, -0.05395902012,
          0.008507230483, -9.303173335e-4, 6.156670003e-5, -1.832957945e-6}));
  return fma(-a, power, detail::positivePart(x));
}

} // namespace mpc

#endif // MPC_LIB_TARGET_MATH_SHORT_H
