//===- ArenaPlannerTests.cpp - tests of ArenaPlanner ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Exe/Transforms/ArenaPlanner.h"

#include "gtest/gtest.h"

#include <random>

using namespace mpc;

namespace {

struct Life {
  int64_t bytes, first, last;
};

/// Plans and checks that buffers with overlapping live ranges are disjoint,
/// aligned and in bounds.
ArenaPlanner checkedPlan(const std::vector<Life> &lives) {
  ArenaPlanner planner(64);
  for (const Life &life : lives)
    planner.add(life.bytes, life.first, life.last);
  planner.plan();
  for (size_t i = 0; i < lives.size(); ++i) {
    int64_t begin = planner.offsetOf(i), end = begin + lives[i].bytes;
    EXPECT_EQ(begin % 64, 0) << "buffer " << i;
    EXPECT_GE(begin, 0) << "buffer " << i;
    EXPECT_LE(end, planner.arenaBytes()) << "buffer " << i;
    for (size_t j = 0; j < i; ++j) {
      bool together =
          lives[i].first <= lives[j].last && lives[j].first <= lives[i].last;
      int64_t other = planner.offsetOf(j);
      EXPECT_TRUE(!together || end <= other || other + lives[j].bytes <= begin)
          << "buffers " << i << " and " << j;
    }
  }
  EXPECT_GE(planner.arenaBytes(), planner.lowerBound());
  return planner;
}

TEST(ArenaPlanner, nothing_needs_nothing) {
  EXPECT_EQ(checkedPlan({}).arenaBytes(), 0);
}

TEST(ArenaPlanner, a_chain_needs_two_buffers) {
  std::vector<Life> lives;
  for (int64_t step = 0; step < 10; ++step)
    lives.push_back({1024, step, step + 1});
  EXPECT_EQ(checkedPlan(lives).arenaBytes(), 2048);
}

TEST(ArenaPlanner, sizes_round_up_to_the_alignment) {
  EXPECT_EQ(checkedPlan({{1, 0, 1}, {65, 1, 2}}).arenaBytes(), 192);
}

TEST(ArenaPlanner, a_gap_between_long_lives_is_used) {
  // The second buffer dies early; the fourth fits into its place.
  ArenaPlanner planner =
      checkedPlan({{128, 0, 9}, {256, 0, 2}, {128, 0, 9}, {256, 4, 6}});
  EXPECT_EQ(planner.arenaBytes(), 512);
}

TEST(ArenaPlanner, empty_buffers_take_no_room) {
  EXPECT_EQ(checkedPlan({{0, 0, 3}, {64, 0, 3}}).arenaBytes(), 64);
}

TEST(ArenaPlanner, random_lives_never_overlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<Life> lives;
    for (int i = 0; i < 60; ++i) {
      int64_t first = random() % 40;
      lives.push_back(
          {int64_t(random() % 5000), first, first + int64_t(random() % 12)});
    }
    ArenaPlanner planner = checkedPlan(lives);
    EXPECT_LE(planner.arenaBytes(), 2 * planner.lowerBound());
  }
}

} // namespace

// Orders by size or time alone reach the bound in fewer of these.
TEST(ArenaPlanner, reaches_the_bound_where_fixed_orders_fail) {
  std::mt19937 engine(11);
  int reached = 0, plans = 200;
  for (int round = 0; round < plans; ++round) {
    std::vector<Life> lives;
    for (int64_t step = 0; step < 12; ++step)
      lives.push_back({64 * int64_t(1 + engine() % 8), step,
                       step + 1 + int64_t(engine() % 4)});
    ArenaPlanner planner = checkedPlan(lives);
    reached += planner.arenaBytes() == planner.lowerBound();
  }
  EXPECT_GE(reached, plans * 95 / 100);
}

TEST(ArenaPlanner, equal_buffers_get_equal_places) {
  std::vector<Life> lives;
  for (int64_t step = 0; step < 30; ++step)
    lives.push_back({64 * (1 + step * 7 % 11), step, step + 1 + step % 5});
  ArenaPlanner first = checkedPlan(lives), second = checkedPlan(lives);
  for (size_t i = 0; i < lives.size(); ++i)
    EXPECT_EQ(first.offsetOf(i), second.offsetOf(i));
}
