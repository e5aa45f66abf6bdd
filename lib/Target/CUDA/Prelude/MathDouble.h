//===- MathDouble.h - functions of f64 --------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The functions of Math.h and its neighbours on doubles, by the mathematics
// library of each side: a GPU's last bits may differ from the host's.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_PRELUDE_MATHDOUBLE_H
#define MPC_TARGET_CUDA_PRELUDE_MATHDOUBLE_H

#ifdef MPC_ON_DEVICE
#define MPC_LIBRARY(name) ::name
#else
#define MPC_LIBRARY(name) __builtin_##name
#endif

namespace mpc {

#define MPC_DOUBLE_1(name, library)                                            \
  MPC_FUNCTION double name(double x) { return MPC_LIBRARY(library)(x); }
#define MPC_DOUBLE_2(name, library)                                            \
  MPC_FUNCTION double name(double x, double y) {                               \
    return MPC_LIBRARY(library)(x, y);                                         \
  }
MPC_DOUBLE_1(abs, fabs)
MPC_DOUBLE_1(acos, acos)
MPC_DOUBLE_1(acosh, acosh)
MPC_DOUBLE_1(asin, asin)
MPC_DOUBLE_1(asinh, asinh)
MPC_DOUBLE_1(atan, atan)
MPC_DOUBLE_1(atanh, atanh)
MPC_DOUBLE_1(ceil, ceil)
MPC_DOUBLE_1(cos, cos)
MPC_DOUBLE_1(cosh, cosh)
MPC_DOUBLE_1(erf, erf)
MPC_DOUBLE_1(exp, exp)
MPC_DOUBLE_1(expm1, expm1)
MPC_DOUBLE_1(floor, floor)
MPC_DOUBLE_1(log, log)
MPC_DOUBLE_1(log1p, log1p)
MPC_DOUBLE_1(roundEven, rint)
MPC_DOUBLE_1(sin, sin)
MPC_DOUBLE_1(sinh, sinh)
MPC_DOUBLE_1(sqrt, sqrt)
MPC_DOUBLE_1(tan, tan)
MPC_DOUBLE_1(tanh, tanh)
MPC_DOUBLE_1(trunc, trunc)
MPC_DOUBLE_2(atan2, atan2)
MPC_DOUBLE_2(copySign, copysign)
MPC_DOUBLE_2(pow, pow)
MPC_DOUBLE_2(rem, fmod)
#undef MPC_DOUBLE_1
#undef MPC_DOUBLE_2

MPC_FUNCTION bool isNan(double x) { return x != x; }
MPC_FUNCTION bool isFinite(double x) { return x - x == 0.0; }

/// A NaN wins; +0 is larger than -0.
MPC_FUNCTION double maximum(double x, double y) {
  if (isNan(x) || x > y)
    return x;
  if (isNan(y) || y > x)
    return y;
  return x == 0.0 ? x + y : x;
}
MPC_FUNCTION double minimum(double x, double y) {
  if (isNan(x) || x < y)
    return x;
  if (isNan(y) || y < x)
    return y;
  return x == 0.0 ? -(-x - y) : x;
}

MPC_FUNCTION double rsqrt(double x) { return 1.0 / sqrt(x); }

MPC_FUNCTION double sigmoid(double x) {
  double power = exp(-abs(x));
  return (x < 0.0 ? power : 1.0) / (power + 1.0);
}
MPC_FUNCTION double softplus(double x) {
  return (x > 0.0 || isNan(x) ? x : 0.0) + log1p(exp(-abs(x)));
}
MPC_FUNCTION double gelu(double x) {
  // At -infinity the limit, not 0 times infinity.
  if (x < -40.0)
    return -0.0;
  return x * 0.5 * MPC_LIBRARY(erfc)(x * -0.707106781186547524401);
}
MPC_FUNCTION double geluTanh(double x) {
  if (x < -40.0)
    return -0.0;
  double factor = fma(x * x, 0.044715, 1.0);
  return x * sigmoid(x * 1.59576912160573071176 * factor);
}

/// Rounded once: the float in between keeps a bit of what it lost.
namespace detail {
MPC_FUNCTION float toOdd(double x) {
  float nearest = static_cast<float>(x);
  double back = static_cast<double>(nearest);
  if (back == x || isNan(x) || !isFinite(nearest))
    return nearest;
  // The float next to x towards zero, its last bit set.
  unsigned bits = bitsOf(nearest);
  if (abs(back) > abs(x))
    bits -= 1u;
  return floatOf(bits | 1u);
}
} // namespace detail
MPC_FUNCTION half toHalf(double x) { return toHalf(detail::toOdd(x)); }
MPC_FUNCTION bfloat16 toBfloat16(double x) {
  return toBfloat16(detail::toOdd(x));
}

//===----------------------------------------------------------------------===//
// Numbers win over NaNs
//===----------------------------------------------------------------------===//

MPC_FUNCTION float maximumNumber(float x, float y) {
  return isNan(x) ? y : isNan(y) ? x : maximum(x, y);
}
MPC_FUNCTION float minimumNumber(float x, float y) {
  return isNan(x) ? y : isNan(y) ? x : minimum(x, y);
}
MPC_FUNCTION double maximumNumber(double x, double y) {
  return isNan(x) ? y : isNan(y) ? x : maximum(x, y);
}
MPC_FUNCTION double minimumNumber(double x, double y) {
  return isNan(x) ? y : isNan(y) ? x : minimum(x, y);
}

} // namespace mpc

#undef MPC_LIBRARY

#endif // MPC_TARGET_CUDA_PRELUDE_MATHDOUBLE_H
