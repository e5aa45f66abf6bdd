//===- KernelTimesTest.cpp - kernel times of configurations ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Tuning/KernelTimeModel.h"

#include "gtest/gtest.h"

#include <numeric>

using namespace mpc;

namespace {

/// Two matmuls of three types and the value between them.
KernelTimeModel layers() {
  return KernelTimeModel({{{"a"}, /*isProduct=*/true},
                          {{"b"}, /*isProduct=*/true, /*reads=*/{2}},
                          {{"relu"}, /*isProduct=*/false}});
}

TEST(KernelTimesTest, MixesWhatWasTimedPartByPart) {
  KernelTimeModel times = layers();
  EXPECT_EQ(times.secondsOf({0, 0, 0}), 0);
  times.add({0, 0, 0}, {{{"a", "relu"}, 5}, {{"b"}, 7}});
  times.add({1, 1, 0}, {{{"a", "relu"}, 6}, {{"b"}, 4}});
  EXPECT_EQ(times.secondsOf({0, 0, 0}), 12);
  EXPECT_EQ(times.secondsOf({1, 0, 0}), 13);
  EXPECT_EQ(times.secondsOf({0, 1, 0}), 9);
  // Nearest is what multiplies the same.
  EXPECT_EQ(times.secondsOf({1, 1, 1}), 10);
  // The value is read by the one and written by the other.
  times.add({0, 0, 1}, {{{"a", "relu"}, 5.5}, {{"b"}, 8}});
  EXPECT_EQ(times.secondsOf({0, 0, 1}), 13.5);
  EXPECT_EQ(times.secondsOf({0, 1, 1}), 9.5);
}

/// Ops that share a kernel in one configuration and are separate in another are
/// counted once.
TEST(KernelTimesTest, WhatEverSharesAKernelIsOnePart) {
  KernelTimeModel times = layers();
  times.add({0, 0, 0}, {{{"a", "relu", "b"}, 10}});
  times.add({1, 1, 0}, {{{"a"}, 4}, {{"relu"}, 1}, {{"b"}, 4}});
  EXPECT_EQ(times.secondsOf({0, 0, 0}), 10);
  EXPECT_EQ(times.secondsOf({1, 1, 0}), 9);
  EXPECT_EQ(times.secondsOf({1, 0, 0}), 9.5);
}

TEST(KernelTimesTest, KernelsWithoutAVariableDoNotCount) {
  KernelTimeModel times = layers();
  times.add({0, 0, 0}, {{{"a", "relu"}, 5}, {{"b"}, 7}, {{"softmax"}, 100}});
  EXPECT_EQ(times.secondsOf({0, 0, 0}), 12);
}

constexpr int kVariables = 10;

/// Option 1 of variable i saves 10, 2 saves 14; of the odd ones it is faster
/// in option 1, of all slower in option 2.
BudgetSearchProblem plainSpace() {
  BudgetSearchProblem space{std::vector<int>(kVariables, 3),
                            std::vector<bool>(kVariables, false),
                            {}};
  space.plan = [](const Choice &choice, double) {
    PricedConfiguration priced{choice, 1000, 0};
    for (int option : choice) {
      priced.cost -= option == 2 ? 14 : option == 1 ? 10 : 0;
      priced.error += option ? 1 : 0;
    }
    return priced;
  };
  return space;
}

double seconds(const Choice &choice) {
  double sum = 100;
  for (int i = 0; i < kVariables; ++i)
    sum += choice[i] == 2 ? 1 : choice[i] == 1 ? (i % 2 ? -0.5 : 0.5) : 0;
  return sum;
}

TEST(TimedSearchTest, HoldsTheTimeAndSavesTheMost) {
  struct Case {
    double most, cost;
  };
  // All in option 1 take 100 and cost 900; each second more buys a half or two
  // thirds of one in option 2, each second less is two of option 0.
  for (auto [most, cost] : {Case{97.5, 950}, Case{98, 940}, Case{100, 900},
                            Case{102, 888}, Case{120, 860}}) {
    std::optional<PricedConfiguration> found =
        cheapestInTime(plainSpace(), seconds, /*limit=*/1e9, most);
    ASSERT_TRUE(found) << most;
    EXPECT_LE(seconds(found->choice), most);
    // A price leaves a gap, which the search for what is within closes.
    BudgetSearchProblem space = plainSpace();
    space.starts = {found->choice};
    BudgetSearch search(withinTime(space, seconds, most));
    std::optional<PricedConfiguration> closed = search.within(1e9);
    ASSERT_TRUE(closed);
    EXPECT_LE(seconds(closed->choice), most);
    EXPECT_LE(closed->cost, cost) << most;
  }
}

TEST(TimedSearchTest, NothingIsFoundOutOfReach) {
  EXPECT_FALSE(cheapestInTime(plainSpace(), seconds, /*limit=*/1e9, 90));
  // Within this error all types are wide.
  EXPECT_FALSE(cheapestInTime(plainSpace(), seconds, /*limit=*/0, 99));
}

TEST(ChooseRivalTest, NeedsNoMoreThanTheBestBuiltInOne) {
  // float32, a 16-bit policy, and what was tuned.
  std::vector<TuningCandidate> rivals = {{100, 10, true}, {50, 11, true}};
  CandidateNoise noise{0.001, 0.005};
  EXPECT_EQ(chooseTuningCandidate(rivals, noise), 1u);
  rivals.push_back({30, 11.2, false});
  EXPECT_EQ(chooseTuningCandidate(rivals, noise), 1u) << "slower";
  rivals.push_back({40, 11.02, false});
  EXPECT_EQ(chooseTuningCandidate(rivals, noise), 3u)
      << "as fast as clocks can tell";
  rivals.push_back({40.01, 9, false});
  EXPECT_EQ(chooseTuningCandidate(rivals, noise), 4u)
      << "as many bytes, and faster";
  rivals.push_back({60, 1, false});
  EXPECT_EQ(chooseTuningCandidate(rivals, noise), 4u) << "faster, and dearer";
}

TEST(ChooseRivalTest, TheBarIsTheFasterOfBuiltInOnesThatCostTheSame) {
  std::vector<TuningCandidate> rivals = {
      {100, 10, true}, {50, 11, true}, {50, 6, true}, {45, 7, false}};
  EXPECT_EQ(chooseTuningCandidate(rivals, {0.001, 0.005}), 2u);
}

} // namespace
