//===- WeightStorageTests.cpp - weights as kernels read them --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/QuantizedWeightStorage.h"

#include "gtest/gtest.h"

using namespace mpc;

namespace {

TargetInfo target(const char *name) { return *TargetInfo::parse(name); }

/// 2048 x 2048 weights of so many bits, multiplied as `type`.
DequantizedGemmWeights weights(int64_t rows, PolicyType type, double wideBits,
                               double narrowBits) {
  constexpr int64_t kCount = 2048 * 2048;
  return {rows, type, kCount, wideBits / 8 * kCount, narrowBits / 8 * kCount};
}

/// The most rows for which it pays, of powers of two; 0: none.
int64_t mostRows(const char *name, PolicyType type, double wideBits,
                 double narrowBits) {
  int64_t most = 0;
  for (int64_t rows = 1; rows <= 4096; rows *= 2)
    if (isDequantizedGemmFaster(weights(rows, type, wideBits, narrowBits),
                                target(name)))
      most = rows;
  return most;
}

TEST(WeightStorageTest, FewRowsWaitForMemory) {
  for (const char *name :
       {"cuda:sm_75", "cuda:sm_80", "cuda:sm_86", "cuda:sm_90a", "cuda:sm_100"})
    for (int64_t rows : {1, 8}) {
      EXPECT_TRUE(isDequantizedGemmFaster(
          weights(rows, PolicyType::Float16, 16, 8), target(name)))
          << name;
      EXPECT_TRUE(isDequantizedGemmFaster(
          weights(rows, PolicyType::Float16, 16, 4.5), target(name)))
          << name;
      EXPECT_TRUE(isDequantizedGemmFaster(
          weights(rows, PolicyType::Float32, 32, 16), target(name)))
          << name;
    }
}

/// Nothing is saved once multiplying takes as long as reading.
TEST(WeightStorageTest, ManyRowsMultiply) {
  EXPECT_EQ(mostRows("cuda:sm_90a", PolicyType::BFloat16, 16, 4.5), 128);
  EXPECT_EQ(mostRows("cuda:sm_90a", PolicyType::BFloat16, 16, 8), 128);
  EXPECT_EQ(mostRows("cuda:sm_90a", PolicyType::Float32, 32, 8), 16);
}

TEST(WeightStorageTest, NothingIsGainedByFewBytes) {
  TargetInfo info = target("cuda:sm_90a");
  DequantizedGemmWeights small{1, PolicyType::BFloat16, 1024, 2048, 512};
  EXPECT_FALSE(isDequantizedGemmFaster(small, info));
  EXPECT_FALSE(
      isDequantizedGemmFaster(weights(1, PolicyType::BFloat16, 16, 16), info));
  EXPECT_FALSE(isDequantizedGemmFaster(
      weights(1, PolicyType::BFloat16, 16, 15.5), info));
}

/// Without known rates, few rows count as memory-bound.
TEST(WeightStorageTest, UnknownRates) {
  EXPECT_EQ(mostRows("cuda:sm_87", PolicyType::BFloat16, 16, 4.5), 8);
}

} // namespace
