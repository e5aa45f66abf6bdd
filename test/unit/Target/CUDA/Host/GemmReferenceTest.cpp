//===- GemmReferenceTest.cpp - host reference of library GEMMs ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Epilogues that write and read auxiliary buffers, bias gradients and 8-bit
// floats, against formulas on numbers that are exact in every type. GEMMs with
// a bias, a residual or ReLU: HostDeviceTest.cpp.
//
//===----------------------------------------------------------------------===//

#include "Target/CUDA/Host/GemmReference.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/bit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace mpc;

namespace {

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// The buffers of a problem, zero at first.
class Buffers {
public:
  explicit Buffers(const GemmProblem &problem) : slots(*problem.slots()) {
    for (const GemmProblem::Slot &slot : slots)
      storage.emplace_back(size_t(slot.bytes));
  }
  std::vector<std::byte> &at(GemmProblem::Role role) {
    for (size_t i = 0; i < slots.size(); ++i)
      if (slots[i].role == role)
        return storage[i];
    ADD_FAILURE() << "no buffer of role " << int(role);
    return storage.front();
  }
  template <typename T> T *as(GemmProblem::Role role) {
    return reinterpret_cast<T *>(at(role).data());
  }
  Status compute(const GemmProblem &problem) {
    std::vector<void *> pointers;
    for (std::vector<std::byte> &buffer : storage)
      pointers.push_back(buffer.data());
    return computeGemm(problem, pointers);
  }

private:
  std::vector<GemmProblem::Slot> slots;
  std::vector<std::vector<std::byte>> storage;
};

using Role = GemmProblem::Role;

/// Small integers of both signs.
void fill(float *numbers, int64_t count, int seed) {
  for (int64_t i = 0; i < count; ++i)
    numbers[i] = float((i * 7 + seed) % 11 - 5);
}

/// Element [m, n] of a * b for one batch, from f32 operands.
double productAt(Buffers &buffers, const GemmProblem &p, int64_t line,
                 int64_t column) {
  int64_t batch = line / p.m, row = line % p.m;
  const float *a = buffers.as<float>(Role::A) + batch * p.m * p.k,
              *b = buffers.as<float>(Role::B) + batch * p.k * p.n;
  double sum = 0;
  for (int64_t k = 0; k < p.k; ++k)
    sum += a[row * p.k + k] * b[k * p.n + column];
  return sum;
}

GemmProblem smallProblem() {
  GemmProblem problem;
  problem.m = 3;
  problem.n = 136;
  problem.k = 4;
  problem.batch = 2;
  return problem;
}

Buffers drawn(const GemmProblem &problem) {
  Buffers buffers(problem);
  fill(buffers.as<float>(Role::A), problem.batch * problem.m * problem.k, 1);
  fill(buffers.as<float>(Role::B), problem.batch * problem.k * problem.n, 2);
  return buffers;
}

TEST(GemmReference, ReluKeepsABitForEachElement) {
  GemmProblem p = smallProblem();
  p.activation = GemmProblem::Activation::Relu;
  p.auxiliary = true;
  Buffers forward = drawn(p);
  ASSERT_TRUE(forward.compute(p).ok());
  // Rows of 136 bits start at multiples of 256.
  ASSERT_EQ(forward.at(Role::Auxiliary).size(), size_t(2 * 3 * 32));
  GemmProblem back = smallProblem();
  back.activation = GemmProblem::Activation::ReluGradient;
  Buffers backward = drawn(back);
  backward.at(Role::Auxiliary) = forward.at(Role::Auxiliary);
  ASSERT_TRUE(backward.compute(back).ok());
  int positive = 0;
  for (int64_t line = 0; line < 6; ++line)
    for (int64_t column = 0; column < 136; ++column) {
      double sum = productAt(forward, p, line, column);
      int bit =
          int(forward.at(Role::Auxiliary)[size_t(line * 32 + column / 8)]) >>
              column % 8 &
          1;
      positive += bit;
      ASSERT_EQ(bit, sum > 0);
      int64_t at = line * 136 + column;
      ASSERT_EQ(forward.as<float>(Role::Result)[at], std::max(sum, 0.0));
      ASSERT_EQ(backward.as<float>(Role::Result)[at], sum > 0 ? sum : 0);
    }
  EXPECT_GT(positive, 100);
  EXPECT_LT(positive, 700);
}

TEST(GemmReference, GeluKeepsItsInput) {
  GemmProblem p = smallProblem();
  p.result = ElementType::BF16;
  p.activation = GemmProblem::Activation::GeluTanh;
  p.auxiliary = true;
  Buffers forward = drawn(p);
  ASSERT_TRUE(forward.compute(p).ok());
  GemmProblem back = smallProblem();
  back.result = ElementType::BF16;
  back.activation = GemmProblem::Activation::GeluTanhGradient;
  Buffers backward = drawn(back);
  backward.at(Role::Auxiliary) = forward.at(Role::Auxiliary);
  ASSERT_TRUE(backward.compute(back).ok());
  auto widened = [](uint16_t bits) {
    return llvm::bit_cast<float>(uint32_t(bits) << 16);
  };
  auto gelu = [](double x) {
    return x / 2 *
           (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  };
  for (int64_t line = 0; line < 6; ++line)
    for (int64_t column = 0; column < 136; ++column) {
      // Integers of two digits are exact in bf16.
      double sum = productAt(forward, p, line, column);
      int64_t at = line * 136 + column;
      ASSERT_EQ(widened(forward.as<uint16_t>(Role::Auxiliary)[at]), sum);
      ASSERT_NEAR(widened(forward.as<uint16_t>(Role::Result)[at]), gelu(sum),
                  0x1p-8 * std::abs(gelu(sum)) + 1e-6);
      // The slope by differences: exact to the fourth order of the step.
      double step = 1e-3;
      double slope = (8 * (gelu(sum + step) - gelu(sum - step)) -
                      (gelu(sum + 2 * step) - gelu(sum - 2 * step))) /
                     (12 * step);
      ASSERT_NEAR(widened(backward.as<uint16_t>(Role::Result)[at]), sum * slope,
                  0x1p-8 * std::abs(sum * slope) + 1e-6);
    }
}

TEST(GemmReference, SumsBesideTheProduct) {
  for (bool transpose : {false, true}) {
    GemmProblem p = smallProblem();
    p.batch = 1;
    p.transposeA = p.transposeB = transpose;
    p.biasGradient = GemmProblem::BiasGradient::A;
    Buffers ofA = drawn(p);
    ASSERT_TRUE(ofA.compute(p).ok());
    const float *a = ofA.as<float>(Role::A), *b = ofA.as<float>(Role::B);
    for (int64_t m = 0; m < p.m; ++m) {
      float sum = 0;
      for (int64_t k = 0; k < p.k; ++k)
        sum += transpose ? a[k * p.m + m] : a[m * p.k + k];
      ASSERT_EQ(ofA.as<float>(Role::BiasGradient)[m], sum);
    }
    p.biasGradient = GemmProblem::BiasGradient::B;
    Buffers ofB = drawn(p);
    ASSERT_TRUE(ofB.compute(p).ok());
    EXPECT_EQ(ofB.at(Role::Result), ofA.at(Role::Result));
    for (int64_t n = 0; n < p.n; ++n) {
      float sum = 0;
      for (int64_t k = 0; k < p.k; ++k)
        sum += transpose ? b[n * p.k + k] : b[k * p.n + n];
      ASSERT_EQ(ofB.as<float>(Role::BiasGradient)[n], sum);
    }
  }
  GemmProblem p = smallProblem();
  p.batch = 1;
  p.activation = GemmProblem::Activation::ReluGradient;
  p.biasGradient = GemmProblem::BiasGradient::Result;
  Buffers buffers = drawn(p);
  // Every second element passes.
  for (std::byte &bits : buffers.at(Role::Auxiliary))
    bits = std::byte(0x55);
  ASSERT_TRUE(buffers.compute(p).ok());
  for (int64_t n = 0; n < p.n; ++n) {
    double sum = 0;
    for (int64_t m = 0; m < p.m; ++m)
      sum += n % 2 ? 0 : productAt(buffers, p, m, n);
    ASSERT_EQ(buffers.as<float>(Role::BiasGradient)[n], sum);
  }
}

// Operand scales apply to the accumulators before the bias, the result's scale
// after the absolute maximum is recorded, and overflows saturate.
TEST(GemmReference, ScalesEightBits) {
  GemmProblem p;
  p.m = p.n = p.k = 16;
  p.transposeB = true;
  p.operandA = ElementType::F8E4M3FN;
  p.operandB = ElementType::F8E5M2;
  p.result = ElementType::F8E4M3FN;
  p.scales = p.resultScale = p.amax = p.bias = true;
  Buffers buffers(p);
  auto *a = buffers.as<uint8_t>(Role::A), *b = buffers.as<uint8_t>(Role::B);
  for (int i = 0; i < 256; ++i) {
    a[i] = narrowFloatOf(p.operandA).encode(float((i * 7 + 1) % 11 - 5));
    b[i] = narrowFloatOf(p.operandB).encode(float((i * 5 + 2) % 7 - 3));
  }
  *buffers.as<float>(Role::ScaleA) = 0.5f;
  *buffers.as<float>(Role::ScaleB) = 0.25f;
  *buffers.as<float>(Role::ResultScale) = 16.0f;
  for (int n = 0; n < 16; ++n)
    buffers.as<uint16_t>(Role::Bias)[n] = uint16_t(
        llvm::bit_cast<uint32_t>(float(n % 5) * (n == 7 ? -64 : 1)) >> 16);
  ASSERT_TRUE(buffers.compute(p).ok());
  float largest = 0;
  bool saturates = false;
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 16; ++n) {
      float sum = 0;
      for (int k = 0; k < 16; ++k)
        sum += narrowFloatOf(p.operandA).decode(a[m * 16 + k]) *
               narrowFloatOf(p.operandB).decode(b[n * 16 + k]);
      float value = sum * 0.125f +
                    llvm::bit_cast<float>(
                        uint32_t(buffers.as<uint16_t>(Role::Bias)[n]) << 16);
      largest = std::max(largest, std::abs(value));
      saturates |= std::abs(16 * value) > 448;
      ASSERT_EQ(buffers.as<uint8_t>(Role::Result)[m * 16 + n],
                narrowFloatOf(p.result).encode(16 * value));
    }
  EXPECT_TRUE(saturates);
  EXPECT_EQ(*buffers.as<float>(Role::Amax), largest);
}

// Emulated f32 is f32: a sum that tf32 and bf16x2 would lose.
TEST(GemmReference, EmulatedF32KeepsItsPrecision) {
  GemmProblem p;
  p.compute = GemmProblem::Compute::Bf16x9;
  Buffers buffers(p);
  *buffers.as<float>(Role::A) = 1 + 0x1p-23f;
  *buffers.as<float>(Role::B) = 1;
  ASSERT_TRUE(buffers.compute(p).ok());
  EXPECT_EQ(*buffers.as<float>(Role::Result), 1 + 0x1p-23f);
  p.compute = GemmProblem::Compute::Tf32;
  ASSERT_TRUE(buffers.compute(p).ok());
  EXPECT_EQ(*buffers.as<float>(Role::Result), 1);
}

TEST(GemmReference, RefusesWhatNoLibraryHas) {
  GemmProblem p;
  std::array<void *, 3> none = {};
  p.biasGradient = GemmProblem::BiasGradient::Result;
  Status status = computeGemm(p, none);
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(status.text(), "sums a result without an activation gradient");
  p.biasGradient = GemmProblem::BiasGradient::None;
  p.bias = true;
  EXPECT_EQ(computeGemm(p, none).text(), "has 4 buffers, but got 3");
}

} // namespace
