//===- CastPlacementTest.cpp - minimum-cut casts against brute force ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/CastPlacement.h"

#include "gtest/gtest.h"

#include <limits>
#include <random>

using namespace mpc;

namespace {

constexpr StorageLabel High = StorageLabel::High, Low = StorageLabel::Low;
using Labels = std::vector<StorageLabel>;

TEST(CastPlacementTest, AFreeValueTakesTheCheaperLabel) {
  PlacementProblem problem;
  problem.addNode(/*highCost=*/10, /*lowCost=*/3);
  problem.addNode(/*highCost=*/3, /*lowCost=*/10);
  EXPECT_EQ(solvePlacement(problem), (Labels{Low, High}));
}

TEST(CastPlacementTest, TiesAreHigh) {
  PlacementProblem problem;
  unsigned a = problem.addNode(5, 5), b = problem.addNode(0, 0);
  problem.casts.push_back({a, {b}, 2, 2});
  EXPECT_EQ(solvePlacement(problem), (Labels{High, High}));
}

TEST(CastPlacementTest, OneCastServesAllReaders) {
  // Three low readers: one cast for 5 is cheaper than storing low for 6; were
  // each to pay, it would be 15.
  PlacementProblem problem;
  unsigned value = problem.addNode(0, 6);
  PlacementProblem::Cast cast{value, {}, /*narrow=*/5, /*widen=*/0};
  for (int i = 0; i < 3; ++i)
    cast.readers.push_back(problem.addNode(0, 0, Low));
  problem.casts.push_back(cast);
  Labels labels = solvePlacement(problem);
  EXPECT_EQ(labels[value], High);
  EXPECT_EQ(cost(problem, labels), 5);
}

TEST(CastPlacementTest, DirectionsHaveTheirOwnPrices) {
  PlacementProblem problem;
  unsigned value = problem.addNode(0, 0), low = problem.addNode(0, 0, Low),
           high = problem.addNode(0, 0, High);
  problem.casts.push_back({value, {low, high}, /*narrow=*/7, /*widen=*/4});
  EXPECT_EQ(solvePlacement(problem)[value], Low) << "widening is cheaper";
  problem.casts.front().widen = 8;
  EXPECT_EQ(solvePlacement(problem)[value], High);
}

TEST(CastPlacementTest, AnEmptyProblemHasNoLabels) {
  EXPECT_TRUE(solvePlacement(PlacementProblem()).empty());
}

//===----------------------------------------------------------------------===//
// Random graphs
//===----------------------------------------------------------------------===//

/// A problem of at most 14 free values.
PlacementProblem randomProblem(std::mt19937 &random) {
  auto draw = [&](int64_t most) {
    return std::uniform_int_distribution<int64_t>(0, most)(random);
  };
  PlacementProblem problem;
  int64_t range = draw(1) ? 4 : 1000; // few prices make many ties
  int64_t free = draw(random() % 16 == 0 ? 14 : 8);
  for (int64_t i = 0; i < free; ++i)
    problem.addNode(draw(range), draw(range));
  for (int64_t i = draw(4); i > 0; --i)
    problem.addNode(draw(range), draw(range), draw(1) ? High : Low);
  if (problem.nodes.empty())
    return problem;
  for (int64_t i = draw(2 * problem.nodes.size()); i > 0; --i) {
    PlacementProblem::Cast cast;
    cast.value = draw(problem.nodes.size() - 1);
    for (int64_t reader = draw(3); reader >= 0; --reader)
      cast.readers.push_back(draw(problem.nodes.size() - 1));
    cast.narrow = draw(range);
    cast.widen = draw(range);
    problem.casts.push_back(cast);
  }
  return problem;
}

/// Least cost over all labels that respect the hard ones, and the values that
/// are low in every cheapest solution.
struct Optimum {
  int64_t cost = std::numeric_limits<int64_t>::max();
  Labels meet;
};

Optimum bruteForce(const PlacementProblem &problem) {
  std::vector<unsigned> free;
  Labels labels(problem.nodes.size(), High);
  for (unsigned i = 0; i < problem.nodes.size(); ++i)
    if (problem.nodes[i].hard)
      labels[i] = *problem.nodes[i].hard;
    else
      free.push_back(i);
  Optimum best;
  for (uint32_t bits = 0; bits < (1u << free.size()); ++bits) {
    for (unsigned i = 0; i < free.size(); ++i)
      labels[free[i]] = (bits >> i) & 1 ? Low : High;
    int64_t sum = cost(problem, labels);
    if (sum < best.cost)
      best = {sum, labels};
    else if (sum == best.cost)
      for (unsigned i : free)
        if (labels[i] == High)
          best.meet[i] = High;
  }
  return best;
}

TEST(CastPlacementTest, RandomGraphsMatchBruteForce) {
  std::mt19937 random(4);
  int64_t ties = 0;
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    PlacementProblem problem = randomProblem(random);
    Labels labels = solvePlacement(problem);
    ASSERT_EQ(labels.size(), problem.nodes.size());
    for (unsigned i = 0; i < labels.size(); ++i)
      if (problem.nodes[i].hard)
        ASSERT_EQ(labels[i], *problem.nodes[i].hard);
    if (labels.empty())
      continue;
    Optimum best = bruteForce(problem);
    ASSERT_EQ(cost(problem, labels), best.cost);
    // The fewest low values: low here is low in every cheapest solution.
    ASSERT_EQ(labels, best.meet);
    ASSERT_EQ(labels, solvePlacement(problem)) << "the same problem again";
    // Moving one value off the solution towards low never comes for free.
    for (unsigned i = 0; i < labels.size(); ++i) {
      if (problem.nodes[i].hard || labels[i] == Low)
        continue;
      Labels moved = labels;
      moved[i] = Low;
      ties += cost(problem, moved) == best.cost;
    }
  }
  EXPECT_GT(ties, 100) << "the draw should contain ties";
}

TEST(CastPlacementTest, LongChainsAreFast) {
  // A chain of 20,000 values whose ends are fixed: one cheapest place to cast.
  PlacementProblem problem;
  const unsigned length = 20000, cheapest = 12345;
  for (unsigned i = 0; i < length; ++i)
    problem.addNode();
  problem.nodes.front().hard = High;
  problem.nodes.back().hard = Low;
  for (unsigned i = 0; i + 1 < length; ++i)
    problem.casts.push_back({i, {i + 1}, i == cheapest ? 1 : 2, 2});
  Labels labels = solvePlacement(problem);
  EXPECT_EQ(cost(problem, labels), 1);
  EXPECT_EQ(labels[cheapest], High);
  EXPECT_EQ(labels[cheapest + 1], Low);
}

} // namespace
