//===- LossScaleChoiceTest.cpp - choice of the loss scale -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Tuning/LossScaleChoice.h"

#include "gtest/gtest.h"

using namespace mpc;

namespace {

TEST(LossScaleChoiceTest, LiftsWhatWouldFlush) {
  RangeRecorder gradients;
  gradients.add("a", {0x1p-20, -0x1p-30, 0}, 0);
  gradients.add("b", {0x1p-10}, 0);
  LossScaleChoice choice = chooseLossScale(gradients);
  // From 2^-30 to 2^-14; 2^-10 becomes 2^6.
  EXPECT_EQ(choice.power, 16);
  EXPECT_EQ(choice.scale(), 65536);
  EXPECT_EQ(choice.flushed, 0);
  EXPECT_EQ(choice.subnormal, 0);
  EXPECT_DOUBLE_EQ(choice.flushedUnscaled, 1 / 3.0);
  EXPECT_DOUBLE_EQ(choice.subnormalUnscaled, 1 / 3.0);
  EXPECT_EQ(choice.largest, "b");
  EXPECT_TRUE(choice.flushing.empty());
}

TEST(LossScaleChoiceTest, TheLargestStaysBelowOverflow) {
  auto choose = [](double small) {
    RangeRecorder gradients;
    gradients.add("large", {100.0}, 0);
    gradients.add("small", {small}, 0);
    return chooseLossScale(gradients);
  };
  EXPECT_EQ(choose(0x1p-31).power, 6);
  EXPECT_TRUE(choose(0x1p-31).flushing.empty());
  // 2^8 would save it, but make 25,600 of the largest.
  LossScaleChoice choice = choose(0x1p-33);
  EXPECT_EQ(choice.power, 0);
  ASSERT_EQ(choice.flushing.size(), 1u);
  EXPECT_EQ(choice.flushing[0].first, "small");
  EXPECT_EQ(choice.flushing[0].second, 1);
}

TEST(LossScaleChoiceTest, WhatNeedsNoScaleGetsNone) {
  RangeRecorder gradients;
  gradients.add("a", {0.5, 2.0, 0x1p-14}, 0);
  EXPECT_EQ(chooseLossScale(gradients).power, 0);
  EXPECT_EQ(chooseLossScale(RangeRecorder()).power, 0);
}

} // namespace
