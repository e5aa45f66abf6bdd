//===- NarrowFormTests.cpp - lossless encodings of constants --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/LosslessEncoding.h"
#include "mpc/Support/NarrowFloat.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <random>

using namespace mpc;
using Kind = LosslessPanels::Kind;

namespace {

/// The dequantized values of an encoding, position by position.
std::vector<float> widened(const LosslessPanels &form, int64_t count,
                           int64_t depth, int64_t columns) {
  std::vector<float> numbers;
  int64_t groups = depth / form.group;
  for (int64_t panel = 0; panel < count; ++panel)
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t column = 0; column < columns; ++column) {
        int64_t place = (panel * groups + k / form.group) * columns + column;
        int64_t at = (panel * depth + k) * columns + column;
        double value = 0;
        switch (form.kind) {
        case Kind::BFloat16: {
          uint16_t half;
          std::memcpy(&half, &form.values[2 * at], 2);
          uint32_t bits = uint32_t(half) << 16;
          float number;
          std::memcpy(&number, &bits, 4);
          numbers.push_back(number);
          continue;
        }
        case Kind::Float16: {
          uint16_t half;
          std::memcpy(&half, &form.values[2 * at], 2);
          int exponent = half >> 10 & 31;
          double fraction = half & 1023;
          value = exponent ? std::ldexp(1024 + fraction, exponent - 25)
                           : std::ldexp(fraction, -24);
          numbers.push_back(float(half & 0x8000 ? -value : value));
          continue;
        }
        case Kind::Int16: {
          int16_t integer;
          std::memcpy(&integer, &form.values[2 * at], 2);
          value = integer;
          break;
        }
        case Kind::Float8:
          value = kFloat8E4M3FN.decode(uint8_t(form.values[at]));
          break;
        case Kind::Int8:
          value = int8_t(form.values[at]);
          break;
        case Kind::UnsignedInt8:
          value = uint8_t(form.values[at]);
          break;
        case Kind::Nibbles:
          at = (panel * depth / 2 + k / 2) * columns + column;
          value = uint8_t(form.values[at]) >> (k % 2 * 4) & 15;
          break;
        }
        if (!form.offsets.empty()) {
          numbers.push_back(
              std::fmaf(float(value), form.scales[place], form.offsets[place]));
          continue;
        }
        value -=
            double(form.zeros.empty() ? form.commonZero : form.zeros[place]);
        numbers.push_back(float(value * double(form.scales[place])));
      }
  return numbers;
}

/// Panels of scale * integer, each scale for `group` positions of a column.
std::vector<float> gridded(int64_t count, int64_t depth, int64_t columns,
                           int64_t group, int64_t low, int64_t high,
                           unsigned seed, bool roundScale = false) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int64_t> integer(low, high);
  std::uniform_real_distribution<float> real(0.01f, 1.0f);
  std::vector<float> scales(count * (depth / group) * columns), numbers;
  for (float &scale : scales) {
    scale = real(engine);
    if (roundScale)
      scale = std::ldexp(std::round(std::ldexp(scale, 7)), -7);
  }
  for (int64_t panel = 0; panel < count; ++panel)
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t column = 0; column < columns; ++column)
        numbers.push_back(
            scales[(panel * (depth / group) + k / group) * columns + column] *
            float(integer(engine)));
  return numbers;
}

TEST(NarrowFormTest, GridsHoldTheirNumbersWhateverTheScale) {
  std::mt19937 engine(5);
  std::uniform_real_distribution<float> real(1e-6f, 1e6f);
  std::uniform_int_distribution<int> integer(-8, 7);
  for (int i = 0; i < 200; ++i) {
    float scale = real(engine);
    std::vector<float> values;
    for (int j = 0; j < 32; ++j)
      values.push_back(scale * float(integer(engine)));
    std::optional<IntegerGrid> grid = findGrid(values, 16);
    ASSERT_TRUE(grid) << scale;
    for (float value : values) {
      double number = std::nearbyint(value / double(grid->scale));
      EXPECT_EQ(float(number * double(grid->scale)), value);
    }
  }
}

TEST(NarrowFormTest, NoGridWhereThereAreTooManyLevels) {
  EXPECT_FALSE(findGrid({1, 2, 16}, 16));
  EXPECT_TRUE(findGrid({1, 2, 15}, 16));
  EXPECT_FALSE(findGrid({-8, 1, 8}, 16));
  EXPECT_FALSE(findGrid({1, std::sqrt(2.0f)}, 256));
  EXPECT_FALSE(findGrid({1, INFINITY}, 256));
  EXPECT_FALSE(findGrid({1, NAN}, 256));
  // Zero belongs to every grid.
  EXPECT_FALSE(findGrid({100, 101}, 16));
}

TEST(NarrowFormTest, FindsTheFewestBytes) {
  struct Case {
    int64_t group, low, high;
    Kind kind;
  };
  for (Case c :
       {Case{64, -8, 7, Kind::Nibbles}, Case{32, -8, 7, Kind::Nibbles},
        Case{16, -3, 12, Kind::Nibbles}, Case{64, -128, 127, Kind::Int8},
        Case{32, -20, 235, Kind::UnsignedInt8}}) {
    std::vector<float> numbers = gridded(2, 64, 8, c.group, c.low, c.high, 3);
    std::optional<LosslessPanels> form =
        findLosslessEncoding(numbers, 2, 64, 8, /*run=*/64);
    ASSERT_TRUE(form) << c.group;
    EXPECT_EQ(form->kind, c.kind) << c.group;
    EXPECT_EQ(form->group, c.group);
    EXPECT_EQ(widened(*form, 2, 64, 8), numbers);
    // Positions that are read one by one share neither scale nor byte.
    form = findLosslessEncoding(numbers, 2, 64, 8, /*run=*/1);
    EXPECT_EQ(bool(form), c.group == 64);
    EXPECT_TRUE(!form || form->kind == Kind::Int8);
    form = findLosslessEncoding(numbers, 2, 64, 8, /*run=*/32);
    ASSERT_EQ(bool(form), true);
    EXPECT_EQ(form->group, c.group);
  }
}

/// Blocks of 32 as ggml's Q8_0 and Q4_0 store them: f16 scales of either sign,
/// also where all integers of a block have a common divisor.
TEST(NarrowFormTest, FindsTheScalesOfBlocks) {
  constexpr int64_t kDepth = 128, kColumns = 4, kBlock = 32;
  std::mt19937 engine(9);
  for (bool areNibbles : {true, false}) {
    std::vector<float> numbers(kDepth * kColumns);
    for (int64_t column = 0; column < kColumns; ++column)
      for (int64_t block = 0; block < kDepth / kBlock; ++block) {
        float scale = std::ldexp(float(1024 + engine() % 1024), -20);
        if (areNibbles && engine() % 2)
          scale = -scale;
        int step = block == 1 ? 3 : 1;
        for (int64_t i = 0; i < kBlock; ++i) {
          int integer = i == 0       ? (areNibbles ? -8 : 127)
                        : areNibbles ? int(engine() % 16) - 8
                                     : int(engine() % 255) - 127;
          if (step > 1)
            integer = integer % 3 * step;
          numbers[(block * kBlock + i) * kColumns + column] =
              scale * float(integer);
        }
      }
    std::optional<LosslessPanels> form =
        findLosslessEncoding(numbers, 1, kDepth, kColumns, /*run=*/kDepth);
    ASSERT_TRUE(form);
    EXPECT_EQ(form->kind, areNibbles ? Kind::Nibbles : Kind::Int8);
    EXPECT_EQ(form->group, kBlock);
    EXPECT_TRUE(form->zeros.empty());
    EXPECT_EQ(form->commonZero, areNibbles ? 8 : 0);
    for (float scale : form->scales)
      EXPECT_TRUE(exactHalf(scale)) << scale;
    EXPECT_EQ(widened(*form, 1, kDepth, kColumns), numbers);
  }
}

/// Blocks with a minimum, as in ggml's Q4_1 and Q5_1 (f16 scales and minima)
/// and Q4_K and Q5_K (f16 times six bits). Some blocks do not use the integer
/// 0, some have a common divisor, one number, or no minimum.
TEST(NarrowFormTest, FindsTheMinimaOfBlocks) {
  constexpr int64_t kDepth = 128, kColumns = 24, kBlock = 32;
  std::mt19937 engine(11);
  for (int64_t levels : {16, 32})
    for (int factor : {1, 63}) {
      std::vector<float> numbers(kDepth * kColumns);
      for (int64_t column = 0; column < kColumns; ++column)
        for (int64_t block = 0; block < kDepth / kBlock; ++block) {
          float scale = std::ldexp(float(1024 + engine() % 1024), -20),
                least = -std::ldexp(float(1024 + engine() % 1024), -17);
          if (factor > 1) {
            scale *= float(1 + int(engine() % unsigned(factor)));
            least *= float(int(engine() % unsigned(factor + 1)));
          }
          int64_t first = engine() % 3, step = 1 + engine() % 3;
          if (column == 3)
            step = levels;
          for (int64_t i = 0; i < kBlock; ++i) {
            auto integer = int64_t(engine() % uint64_t(levels));
            integer = std::max(integer / step * step, first);
            numbers[(block * kBlock + i) * kColumns + column] =
                std::fmaf(float(integer), scale, least);
          }
        }
      std::optional<LosslessPanels> form =
          findLosslessEncoding(numbers, 1, kDepth, kColumns, /*run=*/kDepth);
      ASSERT_TRUE(form);
      EXPECT_EQ(form->kind, levels == 16 ? Kind::Nibbles : Kind::UnsignedInt8);
      EXPECT_EQ(form->group, kBlock);
      EXPECT_TRUE(form->zeros.empty());
      ASSERT_EQ(form->offsets.size(), form->scales.size());
      if (factor == 1)
        for (float scale : form->scales)
          EXPECT_TRUE(exactHalf(scale)) << scale;
      EXPECT_EQ(widened(*form, 1, kDepth, kColumns), numbers);
      numbers[77] = std::nextafterf(numbers[77], 1.0f);
      form = findLosslessEncoding(numbers, 1, kDepth, kColumns, kDepth);
      EXPECT_TRUE(!form || widened(*form, 1, kDepth, kColumns) == numbers);
    }
  EXPECT_FALSE(findOffsetGrid({1, 2, INFINITY}, 16, 24));
  EXPECT_FALSE(findOffsetGrid({1, 2, NAN}, 16, 24));
  EXPECT_FALSE(findOffsetGrid({1, 2, 2.5f, 17}, 16, 24));
  EXPECT_FALSE(findOffsetGrid({}, 16, 24));
}

/// Scales of ggml's K formats: f16 times an integer per group of 256 positions,
/// with groups whose integers have a common divisor or are all zero.
TEST(NarrowFormTest, SharesFactorsOfScales) {
  constexpr int64_t kDepth = 512, kColumns = 5;
  std::mt19937 engine(21);
  for (bool hasOffsets : {true, false}) {
    int64_t block = hasOffsets ? 32 : 16;
    std::vector<float> numbers(kDepth * kColumns);
    for (int64_t column = 0; column < kColumns; ++column)
      for (int64_t first = 0; first < kDepth; first += 256) {
        float factor = std::ldexp(float(1024 + engine() % 1024), -20),
              leastFactor = std::ldexp(float(1024 + engine() % 1024), -16);
        for (int64_t group = 0; group < 256 / block; ++group) {
          float scale = factor * float(engine() % 64), least = 0;
          if (hasOffsets)
            least = -leastFactor * float(1 + engine() % 63);
          auto step = int64_t(1 + engine() % 4);
          for (int64_t i = 0; i < block; ++i) {
            int64_t integer = hasOffsets ? int64_t(engine() % 16)
                                         : int64_t(engine() % 64) - 32;
            integer = integer / step * step;
            numbers[(first + group * block + i) * kColumns + column] =
                std::fmaf(float(integer), scale, least);
          }
        }
      }
    std::optional<LosslessPanels> form =
        findLosslessEncoding(numbers, 1, kDepth, kColumns, /*run=*/kDepth);
    ASSERT_TRUE(form);
    EXPECT_EQ(form->group, block);
    EXPECT_EQ(form->kind, hasOffsets ? Kind::Nibbles : Kind::Int8);
    EXPECT_EQ(widened(*form, 1, kDepth, kColumns), numbers);
    ASSERT_TRUE(form->shared) << hasOffsets;
    EXPECT_EQ(form->shared->group, 256 / block);
    for (float factor : form->shared->factors)
      EXPECT_TRUE(exactHalf(factor)) << factor;
    for (size_t i = 0; i < form->scales.size(); ++i) {
      size_t line = i / kColumns / size_t(form->shared->group);
      EXPECT_EQ(form->scales[i],
                float(form->shared->values[i]) *
                    form->shared->factors[line * kColumns + i % kColumns]);
    }
  }
}

TEST(NarrowFormTest, FindsFloats) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<float> bf16, f16, f32;
  for (int i = 0; i < 64; ++i) {
    float value = normal(engine);
    int exponent;
    float mantissa = std::frexp(value, &exponent);
    bf16.push_back(
        std::ldexp(std::round(std::ldexp(mantissa, 8)), exponent - 8));
    f16.push_back(
        std::ldexp(std::round(std::ldexp(mantissa, 11)), exponent - 11));
    f32.push_back(value);
  }
  f16[3] = 0x1p-24f;
  f16[4] = -65504;
  std::optional<LosslessPanels> form =
      findLosslessEncoding(bf16, 1, 8, 8, /*run=*/8);
  ASSERT_TRUE(form);
  EXPECT_EQ(form->kind, Kind::BFloat16);
  EXPECT_EQ(widened(*form, 1, 8, 8), bf16);
  form = findLosslessEncoding(f16, 1, 8, 8, /*run=*/8);
  ASSERT_TRUE(form);
  EXPECT_EQ(form->kind, Kind::Float16);
  EXPECT_EQ(widened(*form, 1, 8, 8), f16);
  EXPECT_FALSE(findLosslessEncoding(f32, 1, 8, 8, /*run=*/8));
  EXPECT_FALSE(findLosslessEncoding({}, 0, 8, 8, /*run=*/8));
}

/// 16-bit integers times a scale of nine bits are exact in f32.
TEST(NarrowFormTest, FindsIntegersOfSixteenBits) {
  for (unsigned seed : {1, 2, 3}) {
    std::vector<float> numbers =
        gridded(2, 64, 8, 64, -32768, 32767, seed, /*roundScale=*/true);
    std::optional<LosslessPanels> form =
        findLosslessEncoding(numbers, 2, 64, 8, /*run=*/64);
    ASSERT_TRUE(form);
    EXPECT_EQ(form->kind, Kind::Int16);
    EXPECT_EQ(form->group, 64);
    EXPECT_EQ(widened(*form, 2, 64, 8), numbers);
  }
  // A signed range would need 17 bits.
  EXPECT_FALSE(findLosslessEncoding({-32770, 0, 1, 32770}, 1, 4, 1, /*run=*/4));
  EXPECT_FALSE(findLosslessEncoding({1, 1.2345678f}, 1, 2, 1, /*run=*/2));
  EXPECT_FALSE(findExactGrid({1, INFINITY}, 256));
  EXPECT_FALSE(findExactGrid({0x1p60f, 1}, 65536));
  // Only normal numbers can be scales.
  EXPECT_FALSE(findExactGrid({0x1p-140f, 0x1.8p-138f}, 256));
  std::optional<IntegerGrid> grid = findExactGrid({-6, 0, 9}, 16);
  ASSERT_TRUE(grid);
  EXPECT_EQ(grid->scale, 3);
  EXPECT_EQ(grid->least, -2);
  EXPECT_EQ(grid->most, 3);
}

TEST(NarrowFormTest, ZerosAreTheNarrowest) {
  std::vector<float> zeros(128, 0.0f);
  std::optional<LosslessPanels> form =
      findLosslessEncoding(zeros, 1, 16, 8, /*run=*/16);
  ASSERT_TRUE(form);
  EXPECT_EQ(form->kind, Kind::Nibbles);
  EXPECT_EQ(widened(*form, 1, 16, 8), zeros);
}

TEST(NarrowFormTest, FindsFloatsOfEightBits) {
  constexpr int64_t kDepth = 48, kColumns = 4;
  std::mt19937 engine(3);
  std::vector<float> scales, numbers;
  for (int64_t column = 0; column < kColumns; ++column)
    scales.push_back(float(1000 + engine() % 60000) * 0x1p-20f);
  for (int64_t k = 0; k < kDepth; ++k)
    for (float scale : scales) {
      uint8_t code = engine();
      numbers.push_back((code & kFloat8E4M3FN.nanCode()) ==
                                kFloat8E4M3FN.nanCode()
                            ? 0
                            : float(kFloat8E4M3FN.decode(code)) * scale);
    }
  std::optional<LosslessPanels> form =
      findLosslessEncoding(numbers, 1, kDepth, kColumns, /*run=*/kDepth);
  ASSERT_TRUE(form);
  EXPECT_EQ(form->kind, Kind::Float8);
  EXPECT_EQ(widened(*form, 1, kDepth, kColumns), numbers);
  // Five bits are too many.
  numbers[5] = 17 * scales[1];
  form = findLosslessEncoding(numbers, 1, kDepth, kColumns, /*run=*/kDepth);
  EXPECT_TRUE(!form || form->kind != Kind::Float8);
}

} // namespace
