//===- BucketPlanTests.cpp - tests of gradient bucketing ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/GradientBucketing.h"

#include "gtest/gtest.h"

#include <random>

using namespace mpc;
using llvm::SmallVector;

namespace {

/// The earliest end, and of its plans the fewest messages, by trying all.
std::pair<double, size_t> tryAll(llvm::ArrayRef<GradientMessageItem> items,
                                 const NetworkModel &network) {
  std::pair<double, size_t> best = {INFINITY, 0};
  for (unsigned cuts = 0; cuts < 1u << (items.size() - 1); ++cuts) {
    SmallVector<size_t> ends;
    for (size_t i = 0; i + 1 < items.size(); ++i)
      if (cuts >> i & 1)
        ends.push_back(i + 1);
    ends.push_back(items.size());
    best = std::min(best,
                    {bucketingEndSeconds(items, ends, network), ends.size()});
  }
  return best;
}

TEST(BucketPlanTest, NoItemsNeedNoMessage) {
  EXPECT_TRUE(planBuckets({}, {1e-5, 1e9}).empty());
}

TEST(BucketPlanTest, WhatIsReadyAtOnceGoesAtOnce) {
  SmallVector<GradientMessageItem> items(5, {1e-3, 1000});
  EXPECT_EQ(planBuckets(items, {1e-5, 1e9}), SmallVector<size_t>({5}));
}

TEST(BucketPlanTest, WhatIsReadyLongBeforeGoesAlone) {
  // 1 MB at 1 GB/s takes a millisecond, which the second item waits for anyway.
  SmallVector<GradientMessageItem> items = {{0, 1000000}, {2e-3, 1000000}};
  EXPECT_EQ(planBuckets(items, {1e-5, 1e9}), SmallVector<size_t>({1, 2}));
  // A message that costs more than the overlapped compute joins the next one.
  EXPECT_EQ(planBuckets(items, {1e-2, 1e9}), SmallVector<size_t>({2}));
}

TEST(BucketPlanTest, EndsAsEarlyAsAnyPlan) {
  std::mt19937 generator(7);
  auto draw = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(generator);
  };
  for (int round = 0; round < 300; ++round) {
    NetworkModel network = {std::pow(10, draw(-6, -3)),
                            std::pow(10, draw(7, 11))};
    SmallVector<GradientMessageItem> items;
    double ready = 0;
    for (int count = 1 + round % 12; count > 0; --count) {
      ready += std::pow(10, draw(-6, -3));
      items.push_back({ready, int64_t(std::pow(10, draw(1, 7)))});
    }
    SmallVector<size_t> ends = planBuckets(items, network);
    ASSERT_FALSE(ends.empty());
    EXPECT_TRUE(llvm::is_sorted(ends));
    EXPECT_EQ(ends.back(), items.size());
    auto [end, messages] = tryAll(items, network);
    EXPECT_DOUBLE_EQ(bucketingEndSeconds(items, ends, network), end) << round;
    EXPECT_EQ(ends.size(), messages) << round;
  }
}

} // namespace
