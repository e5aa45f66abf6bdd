//===- Hyperbolic.h - sinh, cosh and inverses -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_MATH_HYPERBOLIC_H
#define MPC_LIB_TARGET_MATH_HYPERBOLIC_H

#include "Exponential.h"

namespace mpc {

namespace detail {
/// sinh on [-1, 1].
template <typename F> MPC_FUNCTION F sinhCore(F x) {
  // (sinh x - x) / x^3 in x^2.
  F square = x * x;
  F tail = polynomial(
      square, {0.166666665, 8.333350056e-3, 1.98361598e-4, 2.816952235e-6},
      {0.1666666666666666667, 8.333333333333333549e-3, 1.984126984126960003e-4,
       2.755731922411628897e-6, 2.505210834650917318e-8,
       1.605905060123979764e-10, 7.646482897150205317e-13,
       2.848232973173515068e-15});
  return fma(x * square, tail, x);
}
} // namespace detail

template <typename F> MPC_FUNCTION F sinh(F x) {
  F a = abs(x);
  return choose(
      a < F(1.0), [&] { return detail::sinhCore(x); },
      [&] {
        F half = detail::halfExp(a);
        return copySign(half - F(0.25) / half, x);
      });
}

template <typename F> MPC_FUNCTION F cosh(F x) {
  F half = detail::halfExp(abs(x));
  return half + F(0.25) / half;
}

namespace detail {
/// Beyond this log(2 a) is asinh and acosh without error, and squares could
/// overflow.
template <typename F> constexpr double kLarge = isWide<F> ? 0x1p28 : 0x1p13;
} // namespace detail

template <typename F> MPC_FUNCTION F asinh(F x) {
  F a = abs(x), square = a * a;
  auto large = a > F(detail::kLarge<F>);
  F sum = a + square / (F(1.0) + sqrt(square + F(1.0)));
  F result = log1p(select(large, a - F(1.0), sum));
  result = select(large, result + F(detail::FloatFormat<F>::ln2), result);
  return copySign(result, x);
}

template <typename F> MPC_FUNCTION F acosh(F x) {
  using Format = detail::FloatFormat<F>;
  F t = x - F(1.0);
  auto large = x > F(detail::kLarge<F>);
  F sum = t + sqrt(t * (t + F(2.0)));
  F result = log1p(select(large, t, sum));
  result = select(large, result + F(Format::ln2), result);
  // Far below 1 the sum above is a number again.
  return select(x < F(1.0), detail::nan<F>(), result);
}

template <typename F> MPC_FUNCTION F atanh(F x) {
  F a = abs(x);
  return copySign(log1p((a + a) / (F(1.0) - a)) * F(0.5), x);
}

} // namespace mpc

#endif // MPC_LIB_TARGET_MATH_HYPERBOLIC_H
