//===- Float8.h - 8-bit floats ----------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The type f8E4M3FN: sign, 4 exponent bits with bias 7, 3 fraction bits, no
// infinities (Micikevicius et al., "FP8 Formats for Deep Learning", arXiv
// 2209.05433).
//
//===----------------------------------------------------------------------===//

#ifndef MPC_SUPPORT_FLOAT8_H
#define MPC_SUPPORT_FLOAT8_H

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace mpc {

/// Largest finite number, and number of significant bits.
inline constexpr double kLargestFloat8 = 448;
inline constexpr int kFloat8Bits = 4;
/// Code of NaN, without a sign.
inline constexpr uint8_t kNanFloat8 = 0x7f;

// Inline: weights are rounded by the hundred million.

/// Returns the number that `code` represents.
inline double decodeFloat8(uint8_t code) {
  uint64_t exponent = code >> 3 & 15, fraction = code & 7;
  double magnitude =
      exponent == 0
          ? double(fraction) * 0x1p-9
          : std::bit_cast<double>((exponent + 1023 - 7) << 52 | fraction << 49);
  if ((code & kNanFloat8) == kNanFloat8)
    magnitude = std::numeric_limits<double>::quiet_NaN();
  return code & 0x80 ? -magnitude : magnitude;
}

/// Returns the code of the nearest number, ties to even, saturating at 448.
inline uint8_t encodeFloat8(double value) {
  uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value))
    return sign | kNanFloat8;
  double magnitude = std::min(std::abs(value), kLargestFloat8);
  // Subnormals below 2^-6 have a fixed step of 2^-9. Adding a large constant
  // rounds to a multiple of the step and leaves it in the low bits.
  constexpr double kSteps = 0x1.8p52;
  if (magnitude < 0x1p-6)
    return uint8_t(sign |
                   uint8_t(std::bit_cast<uint64_t>(magnitude * 512 + kSteps)));
  // Keep 3 of 52 fraction bits. A carry into the exponent yields the next code,
  // as intended.
  constexpr int kDropped = 49;
  uint64_t bits = std::bit_cast<uint64_t>(magnitude);
  bits += (uint64_t(1) << (kDropped - 1)) - 1 + (bits >> kDropped & 1);
  return uint8_t(sign | uint8_t((bits >> kDropped) - ((1023 - 7) << 3)));
}

} // namespace mpc

#endif // MPC_SUPPORT_FLOAT8_H
