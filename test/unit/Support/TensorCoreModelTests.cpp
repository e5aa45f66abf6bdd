//===- TensorCoreModelTests.cpp - arithmetic of tensor cores --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Support/TensorCoreModel.h"

#include "gtest/gtest.h"

#include <bit>
#include <cmath>
#include <random>
#include <vector>

using namespace mpc;

static constexpr TensorCoreType kTypes[] = {
    TensorCoreType::Float16, TensorCoreType::BFloat16,
    TensorCoreType::TensorFloat32, TensorCoreType::E4M3, TensorCoreType::E5M2};

static std::vector<TensorCoreFactor> factorsOf(const std::vector<float> &values,
                                               TensorCoreType type) {
  std::vector<TensorCoreFactor> factors;
  for (float value : values)
    factors.push_back(TensorCoreFactor::of(value, type));
  return factors;
}

static uint32_t bitsOf(float value) { return std::bit_cast<uint32_t>(value); }
static float floatOf(uint32_t bits) { return std::bit_cast<float>(bits); }

//===----------------------------------------------------------------------===//
// Measured on GPUs
//===----------------------------------------------------------------------===//

namespace {
/// One element of a GEMM as a GPU computed it: d = c + a * b, c and d as bits.
struct Measurement {
  const char *gpu;
  TensorCoreInstruction instruction;
  TensorCoreType type;
  int capability;
  uint32_t c, d;
  std::vector<float> a, b;
};
} // namespace

/// Validation data of Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor
/// Cores" (github.com/north-numerical-computing/MATLAB-tensor-core,
/// model_validation): of 5000 vectors per GPU and type one whose result neither
/// exact accumulation nor the other arithmetics give. All 155,000 vectors of
/// A100, A2, RTX 1000 Ada, L40S, H100, H200 and B200 equal the model.
static const std::vector<Measurement> &measurements() {
  static const std::vector<Measurement> all = {
      {"A100",
       TensorCoreInstruction::Mma,
       TensorCoreType::Float16,
       80,
       0x3f6a6da4u,
       0x3e865e58u,
       {-0x1.50cp-3f, 0x1.2f4p+0f, 0x1.cbcp-2f, 0x1.b2p+0f, 0x1.11p-3f,
        0x1.c3p-1f, 0x1.81cp-1f, -0x1.c5p-4f},
       {0x1.21cp-3f, 0x1.0bcp+1f, 0x1.e54p-4f, 0x1.afp-4f, -0x1.6p+0f,
        -0x1.3c4p+1f, -0x1.63cp+0f, -0x1.36cp-1f}},
      {"A100",
       TensorCoreInstruction::Mma,
       TensorCoreType::TensorFloat32,
       80,
       0x3f418c50u,
       0xbee5e08eu,
       {-0x1.8a4p-4f, 0x1.41p+0f, -0x1.5p-1f, 0x1.ae4p-1f},
       {0x1.aep-4f, -0x1.3ap+0f, 0x1.a54p-1f, 0x1.0dp+0f}},
      {"Ada",
       TensorCoreInstruction::Mma,
       TensorCoreType::E4M3,
       89,
       0x3ea00136u,
       0xbf120000u,
       {0x1.ep-1f,  0x1.ep+0f,  0x1.4p-1f,  0x1.ap+0f,  -0x1p+0f,  -0x1.2p+1f,
        -0x1.ap-1f, -0x1.cp-2f, 0x1p+0f,    -0x1.ap-2f, 0x1.ep-1f, -0x1p+0f,
        -0x1p+0f,   0x1.4p-1f,  -0x1.ep-2f, -0x1.ap-4f, 0x1.4p-2f, -0x1.4p+1f,
        -0x1.2p-4f, -0x1.6p-1f, 0x1.cp-2f,  -0x1.cp-2f, -0x1p-1f,  -0x1.ap-1f,
        -0x1.2p+1f, -0x1.ap-1f, -0x1.6p-1f, -0x1.6p-3f, 0x1.cp-2f, 0x1.cp+0f,
        0x1.8p+0f,  0x1.6p-2f},
       {-0x1.ep-2f, 0x1.cp-1f,  -0x1p-1f,   -0x1.ap-1f, -0x1.2p+0f, 0x1.2p-5f,
        -0x1.ep+0f, 0x1.2p+0f,  0x1.cp-2f,  -0x1.cp-3f, 0x1.8p-4f,  0x1.6p-1f,
        -0x1.ap+0f, 0x1.8p+0f,  -0x1.4p-2f, -0x1.ap-2f, -0x1.cp-2f, 0x1.6p+0f,
        0x1.cp-2f,  0x1.4p-1f,  -0x1.2p-3f, -0x1.4p-1f, -0x1.4p-2f, -0x1p+0f,
        0x1.2p-4f,  -0x1.2p+0f, -0x1.cp-1f, 0x1.4p-3f,  0x1p-2f,    -0x1.2p+0f,
        -0x1p+0f,   -0x1.ep-1f}},
      {"L40S",
       TensorCoreInstruction::Mma,
       TensorCoreType::E5M2,
       89,
       0x3f57123bu,
       0x3e030000u,
       {0x1.cp-1f,  0x1.cp+0f,  0x1.4p-1f,  0x1.8p+0f,  -0x1p+0f,  -0x1p+1f,
        -0x1.8p-1f, -0x1.cp-2f, 0x1p+0f,    -0x1.8p-2f, 0x1.cp-1f, -0x1p+0f,
        -0x1p+0f,   0x1.4p-1f,  -0x1.cp-2f, -0x1.8p-4f, 0x1.4p-2f, -0x1.4p+1f,
        -0x1p-4f,   -0x1.4p-1f, 0x1.cp-2f,  -0x1.cp-2f, -0x1p-1f,  -0x1.8p-1f,
        -0x1p+1f,   -0x1.8p-1f, -0x1.4p-1f, -0x1.4p-3f, 0x1.cp-2f, 0x1.cp+0f,
        0x1.8p+0f,  0x1.4p-2f},
       {-0x1.cp-2f, 0x1.cp-1f, -0x1p-1f,   -0x1.8p-1f, -0x1p+0f,   0x1p-5f,
        -0x1.cp+0f, 0x1p+0f,   0x1.cp-2f,  -0x1.cp-3f, 0x1.8p-4f,  0x1.4p-1f,
        -0x1.8p+0f, 0x1.8p+0f, -0x1.4p-2f, -0x1.8p-2f, -0x1.cp-2f, 0x1.4p+0f,
        0x1.cp-2f,  0x1.4p-1f, -0x1p-3f,   -0x1.4p-1f, -0x1.4p-2f, -0x1p+0f,
        0x1p-4f,    -0x1p+0f,  -0x1.cp-1f, 0x1.4p-3f,  0x1p-2f,    -0x1p+0f,
        -0x1p+0f,   -0x1.cp-1f}},
      {"H100",
       TensorCoreInstruction::Mma,
       TensorCoreType::BFloat16,
       90,
       0x3f2201f4u,
       0xc0ec4665u,
       {-0x1.74p-1f, 0x1.d2p-2f, -0x1.d2p+0f, -0x1.84p-1f, -0x1.9p-1f,
        -0x1.6cp+0f, -0x1.a4p-1f, -0x1.02p+0f, -0x1.2ep-1f, -0x1.aep-2f,
        -0x1.eap-3f, 0x1.9ap-4f, -0x1.aap-3f, 0x1.18p+0f, 0x1.54p+0f,
        0x1.56p-2f},
       {-0x1.bap+0f, -0x1.56p+0f, 0x1.72p-8f, 0x1.32p+0f, 0x1.b4p-1f,
        0x1.06p+1f, 0x1.04p-3f, 0x1.8cp+0f, 0x1.76p-3f, 0x1.aap+0f, -0x1.6ap-6f,
        0x1.0ep-2f, 0x1.8cp-1f, -0x1.7ep-3f, -0x1.32p+0f, 0x1.5p-1f}},
      {"H200",
       TensorCoreInstruction::Wgmma,
       TensorCoreType::E4M3,
       90,
       0x00000000u,
       0x409de800u,
       {-0x1.6p+0f, -0x1.4p+0f, -0x1.2p-3f, -0x1.6p-2f, 0x1.ep-1f,  0x1.4p+0f,
        -0x1.2p-1f, -0x1.2p-1f, -0x1.8p+0f, -0x1.6p+0f, -0x1p-2f,   0x1.4p+0f,
        -0x1.2p+0f, -0x1.4p-1f, 0x1.ep+0f,  0x1.4p-4f,  0x1.ap+0f,  0x1.ap-3f,
        -0x1.6p-3f, -0x1.8p-1f, 0x1.2p-1f,  -0x1.2p+0f, -0x1.4p-4f, 0x1.8p+0f,
        0x1.ep-2f,  -0x1.ap-2f, 0x1.ap-6f,  -0x1.4p-2f, 0x1.ep-1f,  0x1.ep-3f,
        -0x1.6p+0f, 0x1.ap-1f},
       {-0x1.2p-3f, 0x1.8p+0f,  0x1p+1f,    -0x1.2p-1f, 0x1.ep-2f,  0x1.2p+1f,
        -0x1.2p+0f, -0x1.4p+0f, -0x1.4p+0f, 0x1p+0f,    0x1p+0f,    0x1.4p+0f,
        0x1p+0f,    -0x1.ep-2f, 0x1.2p-3f,  -0x1.2p-3f, -0x1p+0f,   0x1.ep-2f,
        -0x1.4p-4f, 0x1p-3f,    -0x1.ap+0f, 0x1.6p-1f,  -0x1.cp-2f, 0x1.2p+0f,
        0x1.6p-1f,  0x1.ap-6f,  -0x1.2p-3f, -0x1.cp-1f, 0x1.2p-2f,  -0x1.4p+0f,
        -0x1p-1f,   0x1.8p+0f}},
      {"B200",
       TensorCoreInstruction::Mma,
       TensorCoreType::E5M2,
       100,
       0x3f01684fu,
       0xc10ddf7cu,
       {-0x1p+1f,   -0x1p-1f,   -0x1.4p-1f, -0x1.4p-2f, -0x1.cp-6f, 0x1p-4f,
        0x1.cp-1f,  -0x1.8p-2f, 0x1.4p+0f,  0x1p-4f,    0x1p+1f,    -0x1.8p-1f,
        -0x1.4p-5f, 0x1p-1f,    0x1.4p-1f,  -0x1.4p+0f, -0x1.8p-2f, 0x1p-1f,
        -0x1p+0f,   0x1p+0f,    0x1.cp-3f,  0x1p-1f,    -0x1.8p+0f, 0x1.4p+0f,
        -0x1.8p-3f, 0x1.4p-1f,  0x1.4p-1f,  0x1.cp-6f,  -0x1.4p+0f, -0x1.cp+0f,
        -0x1p+0f,   -0x1.4p-1f},
       {0x1.cp-2f,  -0x1.cp-1f, -0x1.8p-2f, 0x1.4p-2f, 0x1p-14f,  -0x1p-1f,
        0x1p-3f,    -0x1.cp-2f, 0x1.cp-1f,  -0x1p+0f,  -0x1p+0f,  -0x1p+0f,
        -0x1.8p+0f, 0x1p+0f,    -0x1.8p-1f, 0x1p-1f,   -0x1p-2f,  -0x1p+1f,
        0x1.4p-2f,  -0x1.cp-2f, 0x1p+0f,    -0x1p+1f,  0x1.8p-3f, -0x1.cp-2f,
        0x1p-2f,    -0x1.cp-4f, -0x1.cp-1f, 0x1.cp-1f, 0x1.4p+0f, 0x1.cp-1f,
        0x1.4p-1f,  0x1.8p+0f}},
  };
  return all;
}

TEST(TensorCoreModel, GivesTheBitsMeasuredOnGpus) {
  for (const Measurement &m : measurements()) {
    auto arithmetic =
        TensorCoreArithmetic::of(m.instruction, m.type, m.capability);
    auto a = factorsOf(m.a, m.type), b = factorsOf(m.b, m.type);
    float d =
        arithmetic.multiplyAdd(a.data(), b.data(), int(a.size()), floatOf(m.c));
    EXPECT_EQ(bitsOf(d), m.d)
        << m.gpu << " gives " << floatOf(m.d) << ", the model " << d;
  }
}

//===----------------------------------------------------------------------===//
// The published formula
//===----------------------------------------------------------------------===//

/// Exponent and fraction bits of a type.
static std::pair<int, int> formatOf(TensorCoreType type) {
  switch (type) {
  case TensorCoreType::Float16:
    return {5, 10};
  case TensorCoreType::BFloat16:
    return {8, 7};
  case TensorCoreType::TensorFloat32:
    return {8, 10};
  case TensorCoreType::E4M3:
    return {4, 3};
  case TensorCoreType::E5M2:
    return {5, 2};
  }
  return {0, 0};
}

static int leastExponent(TensorCoreType type) {
  return 2 - (1 << (formatOf(type).first - 1));
}

/// One fused step in double, as the papers write it: exact, because sums of at
/// most 33 terms have less than 53 bits.
static double fusedStep(const TensorCoreArithmetic &arithmetic,
                        TensorCoreType type, const double *a, const double *b,
                        int count, double c) {
  auto exponentOf = [](double value, int least) {
    return std::max(std::ilogb(value), least);
  };
  int least = leastExponent(type), largest = arithmetic.minExponent;
  if (c != 0)
    largest = std::max(largest, exponentOf(c, -126));
  for (int k = 0; k < count; ++k)
    if (a[k] * b[k] != 0)
      largest =
          std::max(largest, exponentOf(a[k], least) + exponentOf(b[k], least));
  double unit = std::ldexp(1.0, largest - arithmetic.fractionBits);
  double sum = std::trunc(c / unit);
  for (int k = 0; k < count; ++k)
    sum += std::trunc(a[k] * b[k] / unit);
  sum *= unit;
  if (sum == 0)
    return 0;
  unit = std::ldexp(1.0, exponentOf(sum, -126) - arithmetic.resultBits);
  return std::trunc(sum / unit) * unit + 0.0;
}

/// A random value of `type`, of either sign, with exponents of up to `range`
/// below a random one, also subnormal or zero.
static float randomValue(std::mt19937 &random, TensorCoreType type, int top,
                         int range) {
  auto [exponentBits, fractionBits] = formatOf(type);
  int exponent = top - int(random() % unsigned(range));
  double value =
      1 + double(random() % (1u << fractionBits)) / double(1 << fractionBits);
  int least = leastExponent(type);
  double unit = std::ldexp(1.0, std::max(exponent, least) - fractionBits);
  value = std::trunc(std::ldexp(value, exponent) / unit) * unit;
  return float(random() % 2 ? -value : value);
}

TEST(TensorCoreModel, EqualsThePublishedFormula) {
  std::mt19937 random(1);
  for (int capability : {75, 80, 89, 90, 100, 120})
    for (TensorCoreInstruction instruction :
         {TensorCoreInstruction::Mma, TensorCoreInstruction::Wgmma})
      for (TensorCoreType type : kTypes) {
        auto arithmetic =
            TensorCoreArithmetic::of(instruction, type, capability);
        if (arithmetic.isConverted)
          continue;
        int largest = (1 << (formatOf(type).first - 1)) - 1,
            count = arithmetic.products;
        for (int repeat = 0; repeat < 10000; ++repeat) {
          // From a few binades to the type's whole range.
          int range = repeat % 3 == 0 ? 4 : repeat % 3 == 1 ? 40 : 300;
          int top = int(random() % unsigned(2 * largest)) - largest + 1;
          top = std::min({top, largest - 1, 62});
          std::vector<float> a, b;
          for (int k = 0; k < count; ++k) {
            a.push_back(randomValue(random, type, top, range));
            b.push_back(randomValue(random, type, top, range));
          }
          float c = randomValue(random, TensorCoreType::TensorFloat32, 2 * top,
                                range) *
                    1.0009765f;
          std::vector<double> x(a.begin(), a.end()), y(b.begin(), b.end());
          auto left = factorsOf(a, type), right = factorsOf(b, type);
          float d = arithmetic.multiplyAdd(left.data(), right.data(), count, c);
          double expected =
              fusedStep(arithmetic, type, x.data(), y.data(), count, double(c));
          ASSERT_EQ(bitsOf(d), bitsOf(float(expected)))
              << d << " instead of " << expected << " on sm_" << capability;
        }
      }
}

/// fp8 mma.sync of sm_90 and sm_100, from its SASS: two HMMA.16816.F32, bytes 0
/// and 1 of every word and then 2 and 3, and FADD.
TEST(TensorCoreModel, AddsConvertedProductsToTheAccumulator) {
  auto arithmetic = TensorCoreArithmetic::of(TensorCoreInstruction::Mma,
                                             TensorCoreType::E4M3, 90);
  auto half = TensorCoreArithmetic::of(TensorCoreInstruction::Mma,
                                       TensorCoreType::Float16, 90);
  std::mt19937 random(2);
  for (int repeat = 0; repeat < 10000; ++repeat) {
    std::vector<TensorCoreFactor> a, b, left[2], right[2];
    for (int k = 0; k < 32; ++k) {
      a.push_back(
          TensorCoreFactor::of(randomValue(random, TensorCoreType::E4M3, 3, 10),
                               TensorCoreType::E4M3));
      b.push_back(
          TensorCoreFactor::of(randomValue(random, TensorCoreType::E4M3, 3, 10),
                               TensorCoreType::E4M3));
      left[k / 2 % 2].push_back(a.back());
      right[k / 2 % 2].push_back(b.back());
    }
    float c = randomValue(random, TensorCoreType::TensorFloat32, 7, 20);
    float product = half.multiplyAdd(left[0].data(), right[0].data(), 16, 0);
    product = half.multiplyAdd(left[1].data(), right[1].data(), 16, product);
    EXPECT_EQ(arithmetic.multiplyAdd(a.data(), b.data(), 32, c), c + product);
  }
}

//===----------------------------------------------------------------------===//
// Special values
//===----------------------------------------------------------------------===//

TEST(TensorCoreModel, PropagatesInfinitiesAndCanonicalNans) {
  const float infinity = INFINITY, nan = floatOf(0xffc12345);
  for (TensorCoreType type : kTypes)
    for (int capability : {80, 90}) {
      auto arithmetic = TensorCoreArithmetic::of(TensorCoreInstruction::Mma,
                                                 type, capability);
      auto compute = [&](std::vector<float> a, std::vector<float> b, float c) {
        auto left = factorsOf(a, type), right = factorsOf(b, type);
        return bitsOf(arithmetic.multiplyAdd(left.data(), right.data(),
                                             int(a.size()), c));
      };
      EXPECT_EQ(compute({nan}, {1}, 0), 0x7fffffffu);
      EXPECT_EQ(compute({1}, {1}, nan), 0x7fffffffu);
      EXPECT_EQ(compute({1}, {1}, -infinity), 0xff800000u);
      // Neither positive nor negative products leave a sign on zero.
      EXPECT_EQ(compute({-0.0f}, {1}, -0.0f), 0u);
      EXPECT_EQ(compute({1, -1}, {1, 1}, 0), 0u);
      if (type == TensorCoreType::E4M3)
        continue; // no infinities
      EXPECT_EQ(compute({infinity, 1}, {-1, 1}, 5), 0xff800000u);
      EXPECT_EQ(compute({infinity}, {0}, 0), 0x7fffffffu);
      EXPECT_EQ(compute({infinity, infinity}, {1, -1}, 0), 0x7fffffffu);
      EXPECT_EQ(compute({infinity}, {-1}, infinity), 0x7fffffffu);
    }
}

TEST(TensorCoreModel, KeepsSubnormalsAndOverflowsToInfinity) {
  auto arithmetic = TensorCoreArithmetic::of(TensorCoreInstruction::Mma,
                                             TensorCoreType::BFloat16, 80);
  auto compute = [&](std::vector<float> a, std::vector<float> b, float c) {
    auto left = factorsOf(a, TensorCoreType::BFloat16),
         right = factorsOf(b, TensorCoreType::BFloat16);
    return arithmetic.multiplyAdd(left.data(), right.data(), int(a.size()), c);
  };
  EXPECT_EQ(compute({0x1p-130f}, {0x1p-10f}, 0), 0x1p-140f);
  EXPECT_EQ(compute({0}, {0}, 0x1p-149f), 0x1p-149f);
  EXPECT_EQ(compute({0x1p100f}, {0x1p100f}, 0), INFINITY);
  // Products beyond f32 cancel before the result is converted.
  EXPECT_EQ(compute({0x1p100f, -0x1p100f}, {0x1p100f, 0x1p100f}, 0), 0);
  // A zero times a large number does not move the grid.
  EXPECT_EQ(compute({0}, {0x1p127f}, 1.0000001f), 1.0000001f);
}
