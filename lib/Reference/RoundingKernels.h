//===- RoundingKernels.h - inline rounding of doubles -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rounding functors and functions for inner loops.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_REFERENCE_ROUNDINGKERNELS_H
#define MPC_LIB_REFERENCE_ROUNDINGKERNELS_H

#include "mpc/Reference/Interpreter.h"

#include "llvm/ADT/bit.h"

#include <cmath>
#include <limits>

namespace mpc::reference {

/// Rounds to a binary format of `Precision` significant bits and least normal
/// exponent `MinExponent`, in one step from the double: going through float
/// first would round twice.
template <int Precision, int MinExponent>
inline double roundToFormat(double value) {
  constexpr int maxExponent = 1 - MinExponent;
  constexpr int dropped = 53 - Precision;
  uint64_t bits = llvm::bit_cast<uint64_t>(value);
  int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023;
  if (exponent == 1024)
    return value; // infinity or NaN
  if (exponent < MinExponent) {
    // Adding 1.5 * 2^k rounds to multiples of the format's smallest subnormal.
    constexpr int shift = 52 + MinExponent - (Precision - 1);
    const double magic = std::ldexp(1.5, shift);
    return std::copysign((value + magic) - magic, value);
  }
  bits += (uint64_t(1) << (dropped - 1)) - 1 + ((bits >> dropped) & 1);
  bits &= ~((uint64_t(1) << dropped) - 1);
  double rounded = llvm::bit_cast<double>(bits);
  if (static_cast<int>((bits >> 52) & 0x7ff) - 1023 > maxExponent)
    return std::copysign(std::numeric_limits<double>::infinity(), value);
  return rounded;
}

struct RoundExact {
  double operator()(double value) const { return value; }
};
struct RoundF32 {
  double operator()(double value) const { return static_cast<float>(value); }
};
struct RoundF16 {
  double operator()(double value) const {
    return roundToFormat<11, -14>(value);
  }
};
struct RoundBF16 {
  double operator()(double value) const {
    return roundToFormat<8, -126>(value);
  }
};

/// The logistic function, in a form that does not overflow.
inline double sigmoid(double x) {
  if (x >= 0)
    return 1 / (1 + std::exp(-x));
  double power = std::exp(x);
  return power / (1 + power);
}

/// Calls `fn` with the functor that rounds to `type` in mode `rounding`.
template <typename Fn>
auto withRounding(Rounding rounding, mlir::Type type, Fn fn) {
  if (roundsToTypes(rounding)) {
    if (type.isF32())
      return fn(RoundF32());
    if (type.isF16())
      return fn(RoundF16());
    if (type.isBF16())
      return fn(RoundBF16());
  }
  return fn(RoundExact());
}

} // namespace mpc::reference

#endif // MPC_LIB_REFERENCE_ROUNDINGKERNELS_H
