//===- WeightRoundingTests.cpp - rounding of stored weights ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/FakeQuantization.h"

#include "mpc/Analysis/LosslessEncoding.h"
#include "mpc/Support/NarrowFloat.h"

#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace mpc;

namespace {

std::vector<float> drawn(size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float &value : values)
    value = normal(engine);
  return values;
}

std::vector<float> rounded(std::vector<float> values,
                           const WeightFormat &format) {
  roundWeights(values, format);
  return values;
}

double squaredError(const std::vector<float> &a, const std::vector<float> &b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
  return sum;
}

WeightFormat format(WeightType type, bool zeroPoint = false, bool clip = true) {
  WeightFormat made;
  made.type = type;
  made.zeroPoint = zeroPoint;
  made.clip = clip;
  return made;
}

TEST(WeightRoundingTest, RoundsFloatsToNearestEven) {
  std::vector<float> values = {1.00390625f, 1.01171875f, 3.4e38f, -0.0f,
                               0x1p-140f};
  EXPECT_EQ(rounded(values, format(WeightType::BFloat16)),
            (std::vector<float>{1.0f, 1.015625f, INFINITY, 0.0f, 0.0f}));
  EXPECT_EQ(rounded({1.00048828125f, 65519.0f, 65520.0f, 0x1.8p-24f, 0x1p-26f},
                    format(WeightType::Float16)),
            (std::vector<float>{1.0f, 65504.0f, INFINITY, 0x1p-23f, 0.0f}));
}

/// Integers of 16 bits are stored in no more, and err little.
TEST(WeightRoundingTest, SixteenBitsAreStoredInSixteen) {
  for (unsigned seed : {1, 2, 3}) {
    std::vector<float> values = drawn(512, seed),
                       made = rounded(values, format(WeightType::Int16));
    std::optional<LosslessPanels> form =
        findLosslessEncoding(made, 1, 512, 1, /*run=*/512);
    ASSERT_TRUE(form);
    EXPECT_EQ(form->kind, LosslessPanels::Kind::Int16);
    // Steps are a 32,767th of about four deviations.
    EXPECT_LT(std::sqrt(squaredError(values, made) / 512), 5e-5);
  }
}

/// Without clipping the largest is held, and nothing is off by more than half a
/// step.
TEST(WeightRoundingTest, HoldsTheLargestWithoutClipping) {
  for (unsigned seed : {1, 2, 3})
    for (WeightType type : {WeightType::Int8, WeightType::Int4})
      for (bool zeroPoint : {false, true}) {
        if (zeroPoint && type == WeightType::Int8)
          continue;
        std::vector<float> values = drawn(64, seed);
        WeightFormat plain = format(type, zeroPoint, /*clip=*/false);
        WeightScale scale = chooseScale(values, plain);
        std::vector<float> result = rounded(values, plain);
        for (size_t i = 0; i < values.size(); ++i)
          EXPECT_LE(std::abs(result[i] - values[i]), 0.52 * scale.scale);
      }
}

/// In 16-bit matmuls the weight is scale * integer as well.
TEST(WeightRoundingTest, ProductsFitTheTypeThatIsMultiplied) {
  struct Form {
    WeightType type;
    bool zeroPoint;
    int bits;
    WeightType rounds;
  };
  for (Form form :
       {Form{WeightType::Int8, false, kBFloat16Bits, WeightType::BFloat16},
        Form{WeightType::Int8, false, kFloat16Bits, WeightType::Float16},
        Form{WeightType::Int4, false, kBFloat16Bits, WeightType::BFloat16},
        Form{WeightType::Int4, true, kBFloat16Bits, WeightType::BFloat16}})
    for (bool clip : {false, true})
      for (unsigned seed = 0; seed < 20; ++seed) {
        std::vector<float> values = drawn(64, seed);
        WeightFormat narrow = format(form.type, form.zeroPoint, clip);
        roundWeights(values, narrow, form.bits);
        EXPECT_EQ(values, rounded(values, format(form.rounds)));
        int64_t levels = form.type == WeightType::Int8 ? 256 : 16;
        EXPECT_TRUE(findGrid(values, levels));
      }
}

TEST(WeightRoundingTest, ClippingNeverCosts) {
  for (WeightType type : {WeightType::Int8, WeightType::Int4}) {
    double clipped = 0, whole = 0;
    for (unsigned seed = 0; seed < 20; ++seed) {
      std::vector<float> values = drawn(32, seed);
      if (seed % 2)
        values[7] = 9;
      double least = squaredError(values, rounded(values, format(type)));
      double most = squaredError(
          values, rounded(values, format(type, false, /*clip=*/false)));
      EXPECT_LE(least, most);
      clipped += least;
      whole += most;
    }
    if (type == WeightType::Int4)
      EXPECT_LT(clipped, 0.99 * whole);
  }
}

/// Scales leave mantissa bits for the integer, so that the product is an f32
/// number: the encoding is recognized again, and rounding is idempotent.
TEST(WeightRoundingTest, GivesNumbersOfTheForm) {
  for (unsigned seed = 0; seed < 20; ++seed)
    for (WeightFormat form :
         {format(WeightType::Int8), format(WeightType::Int4),
          format(WeightType::Int4, /*zeroPoint=*/true)}) {
      std::vector<float> values = rounded(drawn(32, seed), form);
      std::optional<IntegerGrid> grid =
          findGrid(values, form.type == WeightType::Int8 ? 256 : 16);
      ASSERT_TRUE(grid) << form.describe() << " " << seed;
    }
}

TEST(WeightRoundingTest, OneSignUsesAllLevelsWithAZeroPoint) {
  std::vector<float> values;
  for (int i = 0; i < 16; ++i)
    values.push_back(float(i) / 4);
  EXPECT_EQ(rounded(values, format(WeightType::Int4, /*zeroPoint=*/true)),
            values);
  EXPECT_NE(rounded(values, format(WeightType::Int4)), values);
}

TEST(WeightRoundingTest, ZerosAreZerosAndTinyNumbersKeepTheirBits) {
  std::vector<float> zeros(8, 0.0f), least(8, 0x1p-149f);
  for (WeightType type :
       {WeightType::Int8, WeightType::Int4, WeightType::Float8}) {
    EXPECT_EQ(rounded(zeros, format(type)), zeros);
    EXPECT_EQ(rounded(least, format(type)), zeros);
    for (float scale : {0x1p-82f, 0x1p-101f, 0x1p-115f}) {
      std::vector<float> large = drawn(8, 1), tiny;
      for (float value : large)
        tiny.push_back(value * scale);
      std::vector<float> wanted = rounded(large, format(type));
      for (float &value : wanted)
        value *= scale;
      EXPECT_EQ(rounded(tiny, format(type)), wanted) << scale;
    }
  }
}

/// 8-bit floats: the error is at most half an ulp, and the encoding is
/// recognized again, also in bf16 matmuls.
TEST(WeightRoundingTest, Float8HoldsFourBits) {
  for (unsigned seed = 0; seed < 20; ++seed)
    for (int bits : {kFloat32Bits, kFloat16Bits, kBFloat16Bits})
      for (bool clip : {false, true}) {
        std::vector<float> values = drawn(64, seed), result = values;
        WeightFormat narrow = format(WeightType::Float8, false, clip);
        WeightScale scale = chooseScale(values, narrow, bits);
        roundWeights(result, narrow, bits);
        EXPECT_TRUE(findFloat8Scale(result));
        if (bits == kBFloat16Bits) {
          EXPECT_EQ(result, rounded(result, format(WeightType::BFloat16)));
        }
        for (size_t i = 0; i < values.size() && !clip; ++i)
          EXPECT_LE(
              std::abs(result[i] - values[i]),
              std::max(0x1p-4f * std::abs(values[i]), 0x1p-10f * scale.scale));
      }
}

/// Weights of large activations are rounded more accurately, at the cost of the
/// others: the error of the matmul is smaller.
TEST(WeightRoundingTest, MomentsWeighErrors) {
  for (WeightFormat form : {format(WeightType::Int8), format(WeightType::Int4),
                            format(WeightType::Int4, /*zeroPoint=*/true),
                            format(WeightType::Float8)}) {
    double plain = 0, weighed = 0;
    for (unsigned seed = 0; seed < 50; ++seed) {
      std::vector<float> values = drawn(32, seed), squares = drawn(32, ~seed);
      // Few channels are large, as after a norm of a language model.
      for (float &square : squares)
        square = std::exp(2 * square);
      auto errorOf = [&](llvm::ArrayRef<float> known) {
        std::vector<float> result = values;
        roundWeights(result, form, kFloat32Bits, known);
        double error = 0;
        for (size_t i = 0; i < values.size(); ++i) {
          double difference = double(result[i]) - double(values[i]);
          error += squares[i] * difference * difference;
        }
        return error;
      };
      double least = errorOf(squares), most = errorOf({});
      EXPECT_LE(least, most * (1 + 1e-5)) << form.describe() << " " << seed;
      weighed += least;
      plain += most;
    }
    EXPECT_LT(weighed, plain) << form.describe();
  }
}

} // namespace
