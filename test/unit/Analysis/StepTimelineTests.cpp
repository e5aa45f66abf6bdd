//===- StepTimelineTests.cpp - overlap simulation of several ranks --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/OverlapSimulation.h"

#include "gtest/gtest.h"

using namespace mpc;

namespace {

TimelineItem launch(double seconds, size_t needed = 0) {
  return {seconds, false, needed};
}
TimelineItem message(double seconds) { return {seconds, true}; }

TEST(StepTimelineTest, NothingTakesNoTime) {
  EXPECT_EQ(simulateStep({}).seconds, 0);
}

TEST(StepTimelineTest, MessagesOverlapLaterLaunches) {
  StepTimeline step = simulateStep({launch(1), message(2), launch(3)});
  EXPECT_DOUBLE_EQ(step.seconds, 4);
  EXPECT_DOUBLE_EQ(step.launchSeconds, 4);
  EXPECT_DOUBLE_EQ(step.messageSeconds, 2);
  EXPECT_DOUBLE_EQ(step.exposedSeconds(), 0);
}

TEST(StepTimelineTest, ALaunchWaitsForWhatItNeeds) {
  EXPECT_DOUBLE_EQ(
      simulateStep({launch(1), message(2), launch(1), launch(1, 1)}).seconds,
      4);
  // One that needs the first does not wait for the second.
  EXPECT_DOUBLE_EQ(
      simulateStep({message(1), message(5), launch(1, 1), launch(1)}).seconds,
      6);
}

TEST(StepTimelineTest, MessagesAreSequential) {
  EXPECT_DOUBLE_EQ(simulateStep({message(2), message(2), launch(1, 2)}).seconds,
                   5);
  EXPECT_DOUBLE_EQ(
      simulateStep({launch(1), message(2), launch(3), message(1), launch(0.5)})
          .seconds,
      5);
}

TEST(StepTimelineTest, TheEndWaitsForAll) {
  StepTimeline step = simulateStep({launch(1), message(4)});
  EXPECT_DOUBLE_EQ(step.seconds, 5);
  EXPECT_DOUBLE_EQ(step.exposedSeconds(), 4);
}

TEST(StepTimelineTest, MessagesThatTakeTheProcessorHideNothing) {
  StepTimeline step = simulateStep({launch(1), message(2), launch(3)}, 1);
  EXPECT_DOUBLE_EQ(step.seconds, 6);
  EXPECT_DOUBLE_EQ(step.exposedSeconds(), 2);
  // A wait is no slower for it.
  EXPECT_DOUBLE_EQ(simulateStep({message(2), launch(3, 1)}, 1).seconds, 5);
  EXPECT_DOUBLE_EQ(simulateStep({message(2), launch(4)}, 0.5).seconds, 5);
}

} // namespace
