//===- Math.h - what functions of numbers are made of -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Extremes, doubles, and the operations that lib/Target/Math is written in,
// whose functions are those of the CPU's kernels, too. The library of each side
// is asked for what is exact, and for sines of any double: there alone the last
// bits of a GPU may differ from the host's.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_PRELUDE_MATH_H
#define MPC_TARGET_CUDA_PRELUDE_MATH_H

namespace mpc {

//===----------------------------------------------------------------------===//
// Extremes and classes
//===----------------------------------------------------------------------===//

MPC_FUNCTION bool isNan(float x) { return x != x; }
MPC_FUNCTION bool isFinite(float x) {
  return (bitsOf(x) & 0x7f800000u) != 0x7f800000u;
}

/// NaN, 0x7fffffff, where an operand is one; +0 is larger than -0.
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

/// NaN, 0x7fffffff, where an operand is one; -0 is smaller than +0.
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

//===----------------------------------------------------------------------===//
// What lib/Target/Math is written in
//===----------------------------------------------------------------------===//

template <typename T> MPC_FUNCTION T select(bool condition, T x, T y) {
  return condition ? x : y;
}
/// The side that is not chosen costs nothing.
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

/// No instruction multiplies by powers of two.
template <typename F> MPC_FUNCTION constexpr bool scalesAtOnce(F) {
  return false;
}
template <typename F> MPC_FUNCTION F scaleAtOnce(F x, F) { return x; }

template <typename F> MPC_FUNCTION F rsqrt(F x) { return F(1.0) / sqrt(x); }

} // namespace mpc

#endif // MPC_TARGET_CUDA_PRELUDE_MATH_H
