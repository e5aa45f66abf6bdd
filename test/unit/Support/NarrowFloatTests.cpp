//===- NarrowFloatTests.cpp - tests of 4- to 8-bit floats -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Against LLVM's APFloat, which has the formats as well.
//
//===----------------------------------------------------------------------===//

#include "mpc/Support/NarrowFloat.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/APInt.h"

#include <gtest/gtest.h>

#include <random>

using namespace mpc;
using llvm::APFloat;
using llvm::APInt;
using Rounding = NarrowFloat::Rounding;

static_assert(kFloat8E4M3FN.largest() == 448 &&
              kFloat8E5M2.largest() == 57344 &&
              kFloat8E4M3FNUZ.largest() == 240 &&
              kFloat8E5M2FNUZ.largest() == 57344 &&
              kFloat8E8M0FNU.largest() == 0x1p127 &&
              kFloat6E2M3FN.largest() == 7.5 && kFloat6E3M2FN.largest() == 28 &&
              kFloat4E2M1FN.largest() == 6);

namespace {

struct Case {
  const char *name;
  const NarrowFloat *format;
  const llvm::fltSemantics *semantics;
};

class NarrowFloatTest : public ::testing::TestWithParam<Case> {
protected:
  const NarrowFloat &format() const { return *GetParam().format; }
  const llvm::fltSemantics &semantics() const { return *GetParam().semantics; }

  /// The code of `value`, which does not overflow.
  unsigned expected(double value, APFloat::roundingMode mode) const {
    // APFloat flushes to zero, which a format without sign does not have.
    if (!format().isSigned)
      value = std::max(std::abs(value), format().least());
    APFloat number(value);
    bool loses = false;
    number.convert(semantics(), mode, &loses);
    return unsigned(number.bitcastToAPInt().getZExtValue());
  }

  /// True if `value` rounds to more than the largest number.
  bool overflows(double value, Rounding rounding) const {
    const NarrowFloat &f = format();
    double last = f.largest(), before = f.magnitudeOf(f.largestCode() - 1);
    double next = f.hasZero() ? 2 * last - before : 2 * last;
    double middle = last + (next - last) / 2;
    bool isEven = f.hasZero() && f.largestCode() % 2 == 0;
    double magnitude = std::abs(value);
    switch (rounding) {
    case Rounding::Up:
      return magnitude > last;
    case Rounding::Down:
      return std::isinf(magnitude);
    default:
      return isEven ? magnitude > middle : magnitude >= middle;
    }
  }

  void expectCode(double value, Rounding rounding = Rounding::Nearest) const {
    const NarrowFloat &f = format();
    unsigned sign = std::signbit(value) ? f.signBit() : 0;
    unsigned code = f.encode(value, /*saturate=*/false, rounding),
             saturated = f.encode(value, /*saturate=*/true, rounding);
    if (std::isnan(value)) {
      EXPECT_EQ(code, f.hasNaN() ? f.nanCode() | sign : f.signBit());
      EXPECT_EQ(saturated, f.hasNaN() ? code : f.largestCode());
      return;
    }
    if (overflows(value, rounding)) {
      EXPECT_EQ(code, f.overflowCode() | sign) << value;
      EXPECT_EQ(saturated, f.largestCode() | sign) << value;
      return;
    }
    auto mode = rounding == Rounding::Up     ? APFloat::rmTowardPositive
                : rounding == Rounding::Down ? APFloat::rmTowardZero
                                             : APFloat::rmNearestTiesToEven;
    EXPECT_EQ(code, expected(value, mode)) << value;
    EXPECT_EQ(saturated, code) << value;
  }

  std::vector<Rounding> roundings() const {
    if (format().hasZero())
      return {Rounding::Nearest};
    return {Rounding::Nearest, Rounding::Down, Rounding::Up};
  }

  /// Calls `check` with f32 numbers of every exponent: random fractions and
  /// those around the middle between two numbers.
  template <typename Fn> void forSampledFloats(Fn check) const {
    std::mt19937 engine(1);
    int dropped = 23 - format().fractionBits;
    for (uint32_t exponent = 0; exponent < 256; ++exponent)
      for (uint32_t i = 0; i < 96; ++i) {
        uint32_t fraction = engine() & 0x7fffff;
        if (i >= 32) { // kept bits, and dropped ones close to 0 or a half
          uint32_t half = i % 2 ? 0 : 1u << (dropped - 1);
          fraction = (fraction >> dropped << dropped | half) + i / 2 % 3 - 1;
          fraction &= 0x7fffff;
        }
        uint32_t bits = (i % 4 < 2 ? 0x80000000u : 0) | exponent << 23;
        check(double(std::bit_cast<float>(bits | fraction)));
      }
  }
};

std::string nameOfCase(const ::testing::TestParamInfo<Case> &info) {
  return info.param.name;
}

TEST_P(NarrowFloatTest, DecodesEveryCode) {
  const NarrowFloat &f = format();
  for (unsigned code = 0; code < 256; ++code) {
    unsigned used = code & ((1u << f.bits()) - 1);
    APFloat number(semantics(), APInt(unsigned(f.bits()), used));
    double given = f.decode(uint8_t(code));
    if (number.isNaN()) {
      EXPECT_TRUE(std::isnan(given)) << code;
      continue;
    }
    bool loses = false;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
    double wanted = number.convertToDouble();
    EXPECT_EQ(given, wanted) << code;
    EXPECT_EQ(std::signbit(given), std::signbit(wanted)) << code;
    // Numbers of the format survive every rounding.
    for (Rounding rounding :
         {Rounding::Nearest, Rounding::Down, Rounding::Up, Rounding::Random})
      EXPECT_EQ(f.encode(wanted, /*saturate=*/false, rounding, ~0u), used);
  }
}

TEST_P(NarrowFloatTest, EncodesEvery16BitFloat) {
  for (unsigned bits = 0; bits < 1u << 16; ++bits)
    for (const llvm::fltSemantics *from :
         {&APFloat::BFloat(), &APFloat::IEEEhalf()}) {
      APFloat number(*from, APInt(16, bits));
      bool loses = false;
      number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                     &loses);
      for (Rounding rounding : roundings())
        expectCode(number.convertToDouble(), rounding);
    }
}

TEST_P(NarrowFloatTest, EncodesF32OfEveryExponent) {
  forSampledFloats([&](double value) {
    for (Rounding rounding : roundings())
      expectCode(value, rounding);
  });
}

// Rounding f64 to f32 first would move these to ties.
TEST_P(NarrowFloatTest, RoundsF64Once) {
  const NarrowFloat &f = format();
  for (unsigned code = 0; code < f.largestCode(); ++code) {
    double low = f.magnitudeOf(code), high = f.magnitudeOf(code + 1);
    double middle = low + (high - low) / 2;
    EXPECT_EQ(f.encode(std::nextafter(middle, 0.0)), code);
    EXPECT_EQ(f.encode(std::nextafter(middle, high)), code + 1);
    EXPECT_EQ(f.encode(middle), !f.hasZero() || code % 2 ? code + 1 : code);
  }
}

// The share of random words that round up is the fraction of a step, of normal
// and subnormal numbers: exactly, if every value of the bits that count occurs
// once.
TEST_P(NarrowFloatTest, StochasticRoundingIsUnbiased) {
  const NarrowFloat &f = format();
  constexpr unsigned kCounts = 10; // bits of the fraction and of random words
  std::mt19937 engine(2);
  for (unsigned code = 0; code < f.largestCode(); ++code) {
    double low = f.magnitudeOf(code), high = f.magnitudeOf(code + 1);
    unsigned fraction = engine() & ((1u << kCounts) - 1);
    double value = low + (high - low) * std::ldexp(fraction, -int(kCounts));
    unsigned up = 0;
    for (uint32_t i = 0; i < 1u << kCounts; ++i) {
      uint32_t random = i << (32 - kCounts) | (engine() >> kCounts);
      unsigned given =
          f.encode(value, /*saturate=*/true, Rounding::Random, random);
      ASSERT_TRUE(given == code || given == code + 1) << value;
      up += given - code;
      if (f.isSigned)
        ASSERT_EQ(f.encode(-value, true, Rounding::Random, random),
                  given ? given | f.signBit()
                        : (f.specials == NarrowFloat::Specials::UnsignedZero
                               ? 0
                               : f.signBit()));
    }
    EXPECT_EQ(up, fraction) << value;
  }
}

// Chi-square of 2^16 random words in 64 cells of the fraction: the rate at
// which each cell rounds up.
TEST_P(NarrowFloatTest, StochasticRoundingHasTheRightRates) {
  const NarrowFloat &f = format();
  std::mt19937 engine(3);
  std::uniform_real_distribution<double> uniform;
  constexpr int kCells = 64, kDraws = 1 << 16;
  for (unsigned code : {f.largestCode() / 2, f.largestCode() - 1, 0u}) {
    double low = f.magnitudeOf(code), high = f.magnitudeOf(code + 1);
    std::vector<double> wanted(kCells), variance(kCells), up(kCells);
    for (int i = 0; i < kDraws; ++i) {
      auto value = float(low + (high - low) * uniform(engine));
      double share = (double(value) - low) / (high - low);
      int cell = std::min(int(share * kCells), kCells - 1);
      wanted[size_t(cell)] += share;
      variance[size_t(cell)] += share * (1 - share);
      up[size_t(cell)] +=
          f.encode(value, true, Rounding::Random, uint32_t(engine())) != code;
    }
    double chiSquare = 0;
    for (int cell = 0; cell < kCells; ++cell) {
      double difference = up[size_t(cell)] - wanted[size_t(cell)];
      chiSquare += difference * difference / variance[size_t(cell)];
    }
    // The 0.001 and 0.999 quantiles for 64 degrees of freedom.
    EXPECT_GT(chiSquare, 33.0);
    EXPECT_LT(chiSquare, 105.0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Formats, NarrowFloatTest,
    ::testing::Values(
        Case{"E4M3FN", &kFloat8E4M3FN, &APFloat::Float8E4M3FN()},
        Case{"E5M2", &kFloat8E5M2, &APFloat::Float8E5M2()},
        Case{"E4M3FNUZ", &kFloat8E4M3FNUZ, &APFloat::Float8E4M3FNUZ()},
        Case{"E5M2FNUZ", &kFloat8E5M2FNUZ, &APFloat::Float8E5M2FNUZ()},
        Case{"E8M0FNU", &kFloat8E8M0FNU, &APFloat::Float8E8M0FNU()},
        Case{"E2M3FN", &kFloat6E2M3FN, &APFloat::Float6E2M3FN()},
        Case{"E3M2FN", &kFloat6E3M2FN, &APFloat::Float6E3M2FN()},
        Case{"E2M1FN", &kFloat4E2M1FN, &APFloat::Float4E2M1FN()}),
    nameOfCase);

} // namespace
