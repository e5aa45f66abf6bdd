//===- NarrowFloat.h - floats of 4 to 8 bits --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formats of the OCP Microscaling and FP8 specifications and their FNUZ
// variants, with conversion from and to f64.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_SUPPORT_NARROWFLOAT_H
#define MPC_SUPPORT_NARROWFLOAT_H

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace mpc {

/// A binary float format of at most eight bits. A code has, from its highest
/// bit, the sign (if the format has one), the biased exponent and the fraction;
/// bits above are ignored. Exponent 0 has subnormal numbers and zero, except in
/// a format without fraction, where it is a power of two as all others.
struct NarrowFloat {
  /// What the format has besides finite numbers.
  enum class Specials : uint8_t {
    /// Nothing: all codes are finite numbers (MX formats of 4 and 6 bits).
    None,
    /// The last code of either sign is NaN (FN).
    NaN,
    /// The code of minus zero is NaN (FNUZ).
    UnsignedZero,
    /// The last exponent has infinity and NaNs (IEEE 754).
    Infinity
  };
  /// Rounding of magnitudes. Nearest: ties to an even significand; that of a
  /// format without fraction is 1, so its ties round up. Down: finite numbers
  /// do not overflow, as in IEEE 754. Random: stochastic.
  enum class Rounding : uint8_t { Nearest, Down, Up, Random };

  int exponentBits, fractionBits, bias;
  Specials specials;
  bool isSigned = true;

  constexpr int bits() const { return isSigned + exponentBits + fractionBits; }
  /// Bit of the sign; 0 without one.
  constexpr unsigned signBit() const {
    return isSigned ? 1u << (bits() - 1) : 0;
  }
  /// Code of all bits but the sign.
  constexpr unsigned magnitudeMask() const {
    return (1u << (exponentBits + fractionBits)) - 1;
  }
  /// True if code 0 is zero, and numbers of exponent 0 are subnormal.
  constexpr bool hasZero() const { return fractionBits > 0; }
  constexpr bool hasNaN() const { return specials != Specials::None; }
  constexpr bool hasInfinity() const { return specials == Specials::Infinity; }

  /// Code of the largest finite number.
  constexpr unsigned largestCode() const {
    switch (specials) {
    case Specials::NaN:
      return magnitudeMask() - 1;
    case Specials::Infinity:
      return (magnitudeMask() >> fractionBits << fractionBits) - 1;
    default:
      return magnitudeMask();
    }
  }
  /// Code of NaN. Without a sign in formats with UnsignedZero; others combine
  /// it with the sign.
  constexpr unsigned nanCode() const {
    return specials == Specials::UnsignedZero ? signBit() : magnitudeMask();
  }
  /// Code of magnitudes that overflow without saturation: infinity, else NaN,
  /// else the largest number.
  constexpr unsigned overflowCode() const {
    return hasInfinity() ? largestCode() + 1
           : hasNaN()    ? nanCode()
                         : largestCode();
  }

  /// Largest finite, smallest normal and smallest positive number.
  constexpr double largest() const { return magnitudeOf(largestCode()); }
  constexpr double leastNormal() const {
    return powerOfTwo(hasZero() ? 1 - bias : -bias);
  }
  constexpr double least() const {
    return hasZero() ? powerOfTwo(1 - bias - fractionBits) : leastNormal();
  }

  /// Returns the number of a code of a finite number without sign.
  constexpr double magnitudeOf(unsigned code) const {
    uint64_t exponent = code >> fractionBits;
    uint64_t fraction = code & ((1u << fractionBits) - 1);
    if (exponent == 0 && hasZero())
      return double(fraction) * least();
    return std::bit_cast<double>((exponent + uint64_t(1023 - bias)) << 52 |
                                 fraction << (52 - fractionBits));
  }

  /// Returns the number that `code` represents. Exact.
  constexpr double decode(uint8_t code) const {
    unsigned magnitude = code & magnitudeMask();
    bool isNegative = code & signBit();
    double number = magnitudeOf(magnitude);
    if (magnitude > largestCode())
      number = hasInfinity() && magnitude == overflowCode()
                   ? std::numeric_limits<double>::infinity()
                   : std::numeric_limits<double>::quiet_NaN();
    if (specials == Specials::UnsignedZero && isNegative && magnitude == 0)
      number = std::numeric_limits<double>::quiet_NaN();
    return isNegative ? -number : number;
  }

  /// Returns the code of `value`, rounded once. Magnitudes beyond the largest
  /// number, after rounding, give overflowCode(), or the largest number with
  /// `saturate`. NaN keeps its sign where the format has one for it. A format
  /// without NaN gives the largest number for it with `saturate` (as NVIDIA's
  /// cvt.satfinite does), else the code of minus zero (as ml_dtypes does). A
  /// format without sign encodes the magnitude, and zero as the smallest
  /// number.
  ///
  /// Stochastic rounding adds the 31 highest bits of `random` to the first 31
  /// of the fraction |value| / step - floor(|value| / step), where `step` is
  /// the distance of the format's numbers around `value`, and rounds up on a
  /// carry: the probability is the fraction, up to 2^-31. For normal numbers
  /// this is the addition of random bits to the truncated significand bits of
  /// PTX's cvt.rs.
  [[gnu::always_inline]] uint8_t encode(double value, bool saturate = true,
                                        Rounding rounding = Rounding::Nearest,
                                        uint32_t random = 0) const {
    unsigned sign = std::signbit(value) ? signBit() : 0;
    if (std::isnan(value)) {
      if (!hasNaN())
        return uint8_t(saturate ? largestCode() : signBit());
      return uint8_t(nanCode() | sign);
    }
    double magnitude = std::abs(value);
    if (!hasZero())
      magnitude = std::max(magnitude, least());
    // The code rounded down, and the fraction of a step, in units of 2^-64.
    uint64_t code, fraction;
    if (magnitude < leastNormal()) {
      double steps = magnitude * (1 / least());
      auto whole = int64_t(steps);
      code = uint64_t(whole);
      fraction = uint64_t(int64_t((steps - double(whole)) * 0x1p63)) << 1;
    } else {
      int dropped = 52 - fractionBits;
      auto pattern = std::bit_cast<uint64_t>(magnitude);
      code = (pattern >> dropped) - (uint64_t(1023 - bias) << fractionBits);
      fraction = pattern << (64 - dropped);
    }
    // A carry into the exponent yields the next code, as intended.
    code += roundsUp(code, fraction, rounding, random);
    bool isBounded = rounding == Rounding::Down && std::isfinite(value);
    if (code > largestCode())
      code = saturate || isBounded ? largestCode() : overflowCode();
    if (specials == Specials::UnsignedZero && code == 0)
      sign = 0;
    return uint8_t(code | sign);
  }

private:
  /// 2^`exponent`, a normal number.
  static constexpr double powerOfTwo(int exponent) {
    return std::bit_cast<double>(uint64_t(exponent + 1023) << 52);
  }

  [[gnu::always_inline]] bool roundsUp(uint64_t code, uint64_t fraction,
                                       Rounding rounding,
                                       uint32_t random) const {
    constexpr uint64_t kHalf = uint64_t(1) << 63;
    switch (rounding) {
    case Rounding::Down:
      return false;
    case Rounding::Up:
      return fraction != 0;
    case Rounding::Random:
      return ((fraction >> 33) + (random >> 1)) >> 31;
    default:
      return fraction > kHalf - (!hasZero() || code % 2 != 0);
    }
  }
};

/// Micikevicius et al., "FP8 Formats for Deep Learning", arXiv 2209.05433.
inline constexpr NarrowFloat kFloat8E4M3FN{4, 3, 7, NarrowFloat::Specials::NaN};
inline constexpr NarrowFloat kFloat8E5M2{5, 2, 15,
                                         NarrowFloat::Specials::Infinity};
/// Noune et al., "8-bit Numerical Formats for Deep Neural Networks", arXiv
/// 2206.02915.
inline constexpr NarrowFloat kFloat8E4M3FNUZ{
    4, 3, 8, NarrowFloat::Specials::UnsignedZero};
inline constexpr NarrowFloat kFloat8E5M2FNUZ{
    5, 2, 16, NarrowFloat::Specials::UnsignedZero};
/// OCP Microscaling Formats (MX) Specification 1.0, sections 5.3 and 5.4.
inline constexpr NarrowFloat kFloat4E2M1FN{2, 1, 1,
                                           NarrowFloat::Specials::None};
inline constexpr NarrowFloat kFloat6E2M3FN{2, 3, 1,
                                           NarrowFloat::Specials::None};
inline constexpr NarrowFloat kFloat6E3M2FN{3, 2, 3,
                                           NarrowFloat::Specials::None};
inline constexpr NarrowFloat kFloat8E8M0FNU{8, 0, 127,
                                            NarrowFloat::Specials::NaN,
                                            /*isSigned=*/false};

} // namespace mpc

#endif // MPC_SUPPORT_NARROWFLOAT_H
