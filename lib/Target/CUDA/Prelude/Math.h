//===- Math.h - scalar math -------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Minimum and maximum, doubles, and the primitives of lib/Target/Math, whose
// functions CPU kernels share. Exact functions, and sin and cos of doubles,
// come from the platform's library: only the latter may differ between GPU and
// host, in the last bits.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_PRELUDE_MATH_H
#define MPC_TARGET_CUDA_PRELUDE_MATH_H

namespace mpc {

//===----------------------------------------------------------------------===//
// Minimum, maximum, classification
//===----------------------------------------------------------------------===//

MPC_FUNCTION bool isNan(float x) { return x != x; }
MPC_FUNCTION bool isFinite(float x) {
  return (bitsOf(x) & 0x7f800000u) != 0x7f800000u;
}

/// Returns NaN (0x7fffffff) if an operand is NaN; +0 is larger than -0.
MPC_FUNCTION float maximum(float x, float y) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
  return result;
#else
  float larger = x > y ? x : y > x ? y : floatOf(bitsOf(x) & bitsOf(y));
  return isNan(x) || isNan(y) ? floatOf(0x7fffffffu) : larger;
#endif
}

/// Returns NaN (0x7fffffff) if an operand is NaN; -0 is smaller than +0.
MPC_FUNCTION float minimum(float x, float y) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
  return result;
#else
  float smaller = x < y ? x : y < x ? y : floatOf(bitsOf(x) | bitsOf(y));
  return isNan(x) || isNan(y) ? floatOf(0x7fffffffu) : smaller;
#endif
}

//===----------------------------------------------------------------------===//
// Doubles
//===----------------------------------------------------------------------===//

#ifdef MPC_ON_DEVICE
#define MPC_LIBRARY(name) ::name
#else
#define MPC_LIBRARY(name) __builtin_##name
#endif
#define MPC_DOUBLE_1(name, library)                                            \
  MPC_FUNCTION double name(double x) { return MPC_LIBRARY(library)(x); }
#define MPC_DOUBLE_2(name, library)                                            \
  MPC_FUNCTION double name(double x, double y) {                               \
    return MPC_LIBRARY(library)(x, y);                                         \
  }
MPC_DOUBLE_1(abs, fabs)
MPC_DOUBLE_1(ceil, ceil)
MPC_DOUBLE_1(cos, cos)
MPC_DOUBLE_1(floor, floor)
MPC_DOUBLE_1(roundEven, rint)
MPC_DOUBLE_1(sin, sin)
MPC_DOUBLE_1(sqrt, sqrt)
MPC_DOUBLE_1(tan, tan)
MPC_DOUBLE_1(trunc, trunc)
MPC_DOUBLE_2(copySign, copysign)
MPC_DOUBLE_2(rem, fmod)
#undef MPC_DOUBLE_1
#undef MPC_DOUBLE_2
#undef MPC_LIBRARY

MPC_FUNCTION bool isNan(double x) { return x != x; }
MPC_FUNCTION bool isFinite(double x) { return x - x == 0.0; }

/// NaN if an operand is NaN; +0 is larger than -0.
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

/// Round to odd, so that the subsequent rounding to 16 bits is correct.
namespace detail {
MPC_FUNCTION float toOdd(double x) {
  float nearest = static_cast<float>(x);
  double back = static_cast<double>(nearest);
  if (back == x || isNan(x) || !isFinite(nearest))
    return nearest;
  // The float next to x towards zero, with its last bit set.
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
// Primitives of lib/Target/Math
//===----------------------------------------------------------------------===//

template <typename T> MPC_FUNCTION T select(bool condition, T x, T y) {
  return condition ? x : y;
}
/// Evaluates only the chosen side.
template <typename F, typename G>
MPC_FUNCTION auto choose(bool condition, F onTrue, G onFalse) {
  return condition ? onTrue() : onFalse();
}
template <typename F, typename G>
MPC_FUNCTION auto chooseRarely(bool condition, F onTrue, G onFalse) {
  return condition ? onTrue() : onFalse();
}

MPC_FUNCTION bool isNegative(unsigned x) { return x >> 31 != 0; }
MPC_FUNCTION bool isNegative(unsigned long long x) { return x >> 63 != 0; }
MPC_FUNCTION unsigned shiftSigned(unsigned x, int bits) {
  return static_cast<unsigned>(static_cast<int>(x) >> bits);
}
MPC_FUNCTION unsigned long long shiftSigned(unsigned long long x, int bits) {
  return static_cast<unsigned long long>(static_cast<long long>(x) >> bits);
}
MPC_FUNCTION float signedToFloat(unsigned x) {
  return static_cast<float>(static_cast<int>(x));
}
MPC_FUNCTION double signedToFloat(unsigned long long x) {
  return static_cast<double>(static_cast<long long>(x));
}

/// No instruction scales by a power of two.
template <typename F> MPC_FUNCTION constexpr bool scalesAtOnce(F) {
  return false;
}
template <typename F> MPC_FUNCTION F scaleAtOnce(F x, F) { return x; }

template <typename F> MPC_FUNCTION F rsqrt(F x) { return F(1.0) / sqrt(x); }

} // namespace mpc

#endif // MPC_TARGET_CUDA_PRELUDE_MATH_H
