//===- Math.h - functions with one text for both sides ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Written with correctly rounded operations alone, so a GPU and the host give
// the same bits. Ranges and polynomials are those of the CPU backend.
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
// Exponentials and logarithms
//===----------------------------------------------------------------------===//

/// 2^n for n within [-126, 127].
MPC_FUNCTION float powerOfTwo(int n) {
  return floatOf(static_cast<unsigned>(n + 127) << 23);
}

struct ExpParts {
  /// x = n * ln 2 + rest, |rest| <= ln 2 / 2.
  int n;
  float rest;
};

MPC_FUNCTION ExpParts splitExp(float x) {
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
  const float rounder = 12582912.0f;
  float shifted = fma(x, 1.44269504088896340736f, rounder);
  float n = shifted - rounder;
  float rest = fma(n, -0.693145752f, x);
  rest = fma(n, -1.42860677e-6f, rest);
  return {static_cast<int>(bitsOf(shifted) - 0x4b400000u), rest};
}

MPC_FUNCTION float exp(float x) {
  // Outside these the result is 0 or infinity; a NaN passes both.
  float clamped = x > 106.0f ? 106.0f : x;
  clamped = clamped < -106.0f ? -106.0f : clamped;
  if (isNan(x))
    return x;
  ExpParts parts = splitExp(clamped);
  float r = parts.rest;
  float p = 1.381435018e-3f;
  p = fma(p, r, 8.368850907e-3f);
  p = fma(p, r, 0.0416684006f);
  p = fma(p, r, 0.1666651953f);
  p = fma(p, r, 0.4999999337f);
  float mantissa = fma(r * r, p, r) + 1.0f;
  // Two factors: the result may be subnormal or the power alone too large.
  int first = parts.n >> 1;
  return mantissa * powerOfTwo(first) * powerOfTwo(parts.n - first);
}

MPC_FUNCTION float expm1(float x) {
  if (isNan(x) || x == 0.0f)
    return x;
  float clamped = x > 89.0f ? 89.0f : x;
  clamped = clamped < -20.0f ? -20.0f : clamped;
  ExpParts parts = splitExp(clamped);
  float r = parts.rest;
  float p = 1.991432284e-4f;
  p = fma(p, r, 1.394120982e-3f);
  p = fma(p, r, 8.333272767e-3f);
  p = fma(p, r, 0.04166635231f);
  p = fma(p, r, 0.1666666682f);
  p = fma(p, r, 0.5000000047f);
  float core = fma(r * r, p, r);
  // Half the result first: 2^n itself may be infinite.
  float halfPower = powerOfTwo(parts.n - 1);
  float sum = fma(core, halfPower, halfPower - 0.5f);
  return sum + sum;
}

MPC_FUNCTION float log(float x) {
  if (x == 0.0f)
    return floatOf(0xff800000u);
  if (x < 0.0f)
    return floatOf(0x7fffffffu);
  if (!isFinite(x))
    return x;
  bool subnormal = x < 1.1754943508222875e-38f;
  unsigned pattern = bitsOf(subnormal ? x * 8388608.0f : x);
  // The mantissa within [2/3, 4/3).
  int exponent = static_cast<int>(pattern - 0x3f2aaaabu) >> 23;
  float f = floatOf(pattern - (static_cast<unsigned>(exponent) << 23)) - 1.0f;
  float n = static_cast<float>(exponent) - (subnormal ? 23.0f : 0.0f);
  float p = -0.12950835f;
  p = fma(p, f, 0.1400355924f);
  p = fma(p, f, -0.1216663306f);
  p = fma(p, f, 0.1400145173f);
  p = fma(p, f, -0.1668235547f);
  p = fma(p, f, 0.2001072653f);
  p = fma(p, f, -0.2499971569f);
  p = fma(p, f, 0.3333320883f);
  p = fma(p, f, -0.5000000122f);
  float r = fma(f * f, p, f);
  return fma(n, 0.693145752f, fma(n, 1.42860677e-6f, r));
}

MPC_FUNCTION float log1p(float x) {
  float u = x + 1.0f;
  if (u == 1.0f)
    return x;
  if (u == 0.0f || !isFinite(u))
    return log(u);
  // What the sum lost, to first order.
  float lost = x - (u - 1.0f);
  return log(u) + lost / u;
}

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

MPC_FUNCTION float sigmoid(float x) {
  // The form whose power cannot overflow.
  float power = exp(-abs(x));
  return (x < 0.0f ? power : 1.0f) / (power + 1.0f);
}

MPC_FUNCTION float tanh(float x) {
  float a = abs(x);
  if (a < 0.55f) {
    float square = x * x;
    float p = 2.362114806e-3f;
    p = fma(p, square, -8.385884822e-3f);
    p = fma(p, square, 0.02177419964f);
    p = fma(p, square, -0.05395845895f);
    p = fma(p, square, 0.133332866f);
    p = fma(p, square, -0.3333333259f);
    return fma(x * square, p, x);
  }
  // 1 - 2 / (e^2a + 1), which is 1 long before 20.
  float clamped = a > 20.0f ? 20.0f : a;
  float power = exp(clamped + clamped);
  return copySign(1.0f - 2.0f / (power + 1.0f), x);
}

MPC_FUNCTION float erf(float x) {
  float a = abs(x);
  if (a < 0.92f) {
    float square = x * x;
    float p = 8.316768991e-5f;
    p = fma(p, square, -8.130018934e-4f);
    p = fma(p, square, 5.199908241e-3f);
    p = fma(p, square, -0.02685894277f);
    p = fma(p, square, 0.1128368723f);
    p = fma(p, square, -0.3761263319f);
    p = fma(p, square, 0.128379167f);
    return fma(x, p, x);
  }
  // 1 - e^P(a), P = log erfc.
  float clamped = a > 4.0f ? 4.0f : a;
  float p = -2.10974414e-5f;
  p = fma(p, clamped, 4.344889861e-4f);
  p = fma(p, clamped, -4.171184642e-3f);
  p = fma(p, clamped, 0.02511973162f);
  p = fma(p, clamped, -0.1082805356f);
  p = fma(p, clamped, -0.6333465224f);
  p = fma(p, clamped, -1.12951511f);
  p = fma(p, clamped, 1.747197189e-4f);
  return copySign(1.0f - exp(p), x);
}

} // namespace mpc

#endif // MPC_TARGET_CUDA_PRELUDE_MATH_H
