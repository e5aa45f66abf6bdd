//===- Float8.cpp - 8-bit floats on the host ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Float8.h"

#include <cmath>
#include <limits>

using namespace mpc;

namespace {
/// An 8-bit format: sign, exponent, mantissa.
struct Format {
  int mantissaBits, bias;
  /// Bits of the largest finite value.
  uint8_t largest;
  bool hasInfinity;
};
} // namespace

static Format formatOf(ElementType type) {
  return type == ElementType::F8E5M2 ? Format{2, 15, 0x7b, true}
                                     : Format{3, 7, 0x7e, false};
}

/// All bits but the sign: a NaN in both formats.
static constexpr uint8_t kNaN = 0x7f, kSign = 0x80;

/// Returns the value of the bits without sign, up to the largest finite value.
static float magnitudeOf(uint8_t bits, const Format &format) {
  int exponent = bits >> format.mantissaBits;
  int mantissa = bits & ((1 << format.mantissaBits) - 1);
  // Subnormals have the minimum exponent and no implicit leading one.
  if (exponent > 0)
    mantissa += 1 << format.mantissaBits;
  else
    exponent = 1;
  return std::ldexp(static_cast<float>(mantissa),
                    exponent - format.bias - format.mantissaBits);
}

float mpc::fromFloat8(uint8_t bits, ElementType type) {
  Format format = formatOf(type);
  uint8_t magnitude = bits & kNaN;
  float value = magnitude <= format.largest ? magnitudeOf(magnitude, format)
                : format.hasInfinity && magnitude == format.largest + 1
                    ? std::numeric_limits<float>::infinity()
                    : std::numeric_limits<float>::quiet_NaN();
  return bits & kSign ? -value : value;
}

uint8_t mpc::toFloat8(float value, ElementType type) {
  Format format = formatOf(type);
  if (std::isnan(value))
    return kNaN;
  uint8_t sign = std::signbit(value) ? kSign : 0;
  float magnitude = std::fabs(value);
  if (magnitude >= magnitudeOf(format.largest, format))
    return sign | format.largest;
  // Values increase with their bits: find the first that is too large, and its
  // predecessor.
  uint8_t above = 1;
  while (magnitudeOf(above, format) <= magnitude)
    ++above;
  uint8_t below = above - 1;
  // Differences of close values are exact.
  float up = magnitudeOf(above, format) - magnitude,
        down = magnitude - magnitudeOf(below, format);
  bool takesAbove = up < down || (up == down && below % 2 != 0);
  return sign | (takesAbove ? above : below);
}
