//===- Float8.h - numbers of eight bits -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The type f8E4M3FN: a sign, four bits of the exponent with a bias of 7, three
// of the fraction, no infinities (Micikevicius et al., "FP8 Formats for Deep
// Learning", arXiv 2209.05433).
//
//===----------------------------------------------------------------------===//

#ifndef MPC_SUPPORT_FLOAT8_H
#define MPC_SUPPORT_FLOAT8_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace mpc {

/// The largest number, and the significant bits of one.
inline constexpr double kLargestFloat8 = 448;
inline constexpr int kFloat8Bits = 4;
/// The code of NaN, without a sign.
inline constexpr uint8_t kNanFloat8 = 0x7f;

/// The number that `code` stands for.
inline double decodeFloat8(uint8_t code) {
  int exponent = code >> 3 & 15, fraction = code & 7;
  double magnitude = exponent == 0 ? std::ldexp(fraction, -9)
                                   : std::ldexp(8 + fraction, exponent - 10);
  if ((code & kNanFloat8) == kNanFloat8)
    magnitude = std::numeric_limits<double>::quiet_NaN();
  return code & 0x80 ? -magnitude : magnitude;
}

/// The code of the nearest number, ties to even, of 448 for all that is larger.
inline uint8_t encodeFloat8(double value) {
  uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value))
    return sign | kNanFloat8;
  double magnitude = std::min(std::abs(value), kLargestFloat8);
  // The least normal number is 2^-6; below, steps are as long as above it.
  int exponent = magnitude < 0x1p-6 ? -6 : std::ilogb(magnitude);
  // Eighths of the power of two. Where they round up to the next one, the code
  // is the next one, too.
  auto eighths = int(std::nearbyint(std::ldexp(magnitude, 3 - exponent)));
  return uint8_t(sign | ((exponent + 6) * 8 + eighths));
}

} // namespace mpc

#endif // MPC_SUPPORT_FLOAT8_H
