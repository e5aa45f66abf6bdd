//===- LaunchGroupingTest.cpp - grouping of independent launches ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/LaunchGrouping.h"

#include "llvm/ADT/SmallSet.h"

#include "gtest/gtest.h"

#include <random>

using namespace mpc;

namespace {

using Groups = std::vector<std::vector<unsigned>>;

/// The groups of launches that read `reads`, all of which may be grouped except
/// those in `apart`; at most `most` launches in a group.
Groups groupsOf(const Groups &reads, const std::vector<unsigned> &apart = {},
                unsigned window = 16, size_t most = 8) {
  llvm::SmallVector<LaunchDependences> launches;
  for (const std::vector<unsigned> &earlier : reads)
    launches.push_back(
        {llvm::SmallVector<unsigned>(earlier.begin(), earlier.end()), true});
  for (unsigned launch : apart)
    launches[launch].mayRunConcurrently = false;
  Groups result;
  for (auto &group : groupIndependentLaunches(
           launches, window, [&](llvm::ArrayRef<unsigned> group, unsigned) {
             return group.size() < most;
           }))
    result.emplace_back(group.begin(), group.end());
  return result;
}

TEST(SideBySide, ChainsStayApart) {
  EXPECT_EQ(groupsOf({{}, {0}, {1}}), (Groups{{0}, {1}, {2}}));
}

TEST(SideBySide, BranchesJoin) {
  // Both gradients of a matmul, twice.
  EXPECT_EQ(groupsOf({{}, {0}, {0}, {2}, {2}}), (Groups{{0}, {1, 2}, {3, 4}}));
}

TEST(SideBySide, WhatWaitsForAMemberDoesNotJoin) {
  EXPECT_EQ(groupsOf({{}, {0}, {}}), (Groups{{0, 2}, {1}}));
  EXPECT_EQ(groupsOf({{}, {}, {1}, {0}}), (Groups{{0, 1}, {2, 3}}));
}

TEST(SideBySide, OthersKeepTheirPosition) {
  EXPECT_EQ(groupsOf({{}, {}, {}}, {1}), (Groups{{0, 2}, {1}}));
  EXPECT_EQ(groupsOf({{}, {}, {}}, {0}), (Groups{{0}, {1, 2}}));
}

TEST(SideBySide, LookAheadIsLimited) {
  EXPECT_EQ(groupsOf({{}, {0}, {1}, {}}, {}, /*window=*/2),
            (Groups{{0}, {1, 3}, {2}}));
}

TEST(SideBySide, RefusedLaunchesComeLater) {
  EXPECT_EQ(groupsOf({{}, {}, {}}, {}, 16, /*most=*/2), (Groups{{0, 1}, {2}}));
}

/// Every launch is scheduled once, after all of its producers, for any graph.
TEST(SideBySide, OrdersOfRandomPrograms) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    Groups reads(2 + random() % 20);
    std::vector<unsigned> apart;
    for (unsigned launch = 0; launch < reads.size(); ++launch) {
      for (unsigned earlier = 0; earlier < launch; ++earlier)
        if (random() % 4 == 0)
          reads[launch].push_back(earlier);
      if (random() % 4 == 0)
        apart.push_back(launch);
    }
    std::vector<bool> done(reads.size(), false);
    size_t count = 0;
    unsigned last = 0;
    for (const std::vector<unsigned> &group :
         groupsOf(reads, apart, 1 + random() % 8, 1 + random() % 4)) {
      for (unsigned launch : group)
        for (unsigned earlier : reads[launch])
          EXPECT_TRUE(done[earlier]);
      for (unsigned launch : group)
        done[launch] = true;
      count += group.size();
      // Groups are in the order of their first launches.
      EXPECT_GE(group.front(), last);
      last = group.front();
    }
    EXPECT_EQ(count, reads.size());
  }
}

} // namespace
