//===- BudgetSearchTest.cpp - budget search against brute force -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Tuning/BudgetSearch.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

using namespace mpc;

namespace {

/// Variables with costs and errors of their own and between neighbours, as
/// casts are: two that differ pay.
struct Problem {
  std::vector<int> options;
  std::vector<bool> planned;
  /// By variable and option.
  std::vector<std::vector<double>> cost, error;
  struct Edge {
    size_t a, b;
    double cost;
  };
  std::vector<Edge> edges;

  PricedConfiguration price(const Choice &choice) const {
    PricedConfiguration priced{choice, 0, 0};
    for (size_t i = 0; i < choice.size(); ++i) {
      priced.cost += cost[i][choice[i]];
      priced.error += error[i][choice[i]];
    }
    for (const Edge &edge : edges)
      if ((choice[edge.a] > 0) != (choice[edge.b] > 0))
        priced.cost += edge.cost;
    return priced;
  }

  /// All choices of the free variables of `from`.
  template <typename Visit>
  void forAll(Choice from, size_t first, const Visit &visit) const {
    while (first < from.size() && from[first] != kFree)
      ++first;
    if (first == from.size())
      return visit(price(from));
    for (int option = 0; option < options[first]; ++option) {
      Choice next = from;
      next[first] = option;
      forAll(next, first + 1, visit);
    }
  }

  BudgetSearchProblem space() const {
    BudgetSearchProblem made{options, planned, {}};
    made.plan = [this](const Choice &choice, double price) {
      PricedConfiguration best;
      bool isFirst = true;
      auto weigh = [&](const PricedConfiguration &found) {
        return found.cost + (price == 0 ? 0 : price * found.error);
      };
      forAll(choice, 0, [&](const PricedConfiguration &found) {
        if (isFirst || weigh(found) < weigh(best))
          best = found;
        isFirst = false;
      });
      return best;
    };
    return made;
  }

  PricedConfiguration optimum(double limit) const {
    PricedConfiguration best;
    best.cost = INFINITY;
    forAll(Choice(options.size(), kFree), 0,
           [&](const PricedConfiguration &found) {
             if (found.error <= limit && found.cost < best.cost)
               best = found;
           });
    return best;
  }
};

/// Costs fall and errors rise from option to option, errors by powers of ten.
Problem drawProblem(std::mt19937 &random) {
  auto draw = [&](int most) {
    return std::uniform_int_distribution<int>(0, most)(random);
  };
  std::uniform_real_distribution<double> part(0, 1);
  Problem problem;
  int count = 1 + draw(11);
  for (int i = 0; i < count; ++i) {
    problem.planned.push_back(draw(1));
    problem.options.push_back(problem.planned.back() ? 2 : 2 + draw(1));
    double cost = 100 * (1 + draw(9)), error = 0;
    problem.cost.emplace_back();
    problem.error.emplace_back();
    for (int option = 0; option < problem.options.back(); ++option) {
      problem.cost.back().push_back(cost);
      problem.error.back().push_back(error);
      cost *= 0.4 + 0.5 * part(random);
      error = (error + 1e-7) * std::pow(10.0, 2 * part(random));
    }
  }
  for (int i = draw(2 * count); i > 0; --i)
    problem.edges.push_back(
        {size_t(draw(count - 1)), size_t(draw(count - 1)), 50.0 * draw(4)});
  return problem;
}

/// Never over the limit, and within 5 % of the optimum in 95 % of samples.
TEST(BudgetSearchTest, ComesCloseToBruteForce) {
  std::mt19937 random(20);
  constexpr int kProblems = 500;
  int close = 0;
  for (int i = 0; i < kProblems; ++i) {
    Problem problem = drawProblem(random);
    double most = 0;
    for (const std::vector<double> &errors : problem.error)
      most += errors.back();
    double limit =
        most * std::uniform_real_distribution<double>(0, 1.1)(random);
    BudgetSearch search(problem.space());
    std::optional<PricedConfiguration> found = search.within(limit);
    ASSERT_TRUE(found);
    EXPECT_LE(found->error, limit);
    EXPECT_EQ(found->cost, problem.price(found->choice).cost);
    close += found->cost <= 1.05 * problem.optimum(limit).cost;
  }
  EXPECT_GE(close, 95 * kProblems / 100);
  RecordProperty("close", close);
}

TEST(BudgetSearchTest, SeparableProblemsArePlannedByTheirOptions) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    Problem problem = drawProblem(random);
    problem.edges.clear();
    problem.planned.assign(problem.planned.size(), false);
    int plans = 0;
    BudgetSearchProblem counted = problem.space();
    counted.plan = [&](const Choice &choice, double) {
      ++plans;
      return problem.price(choice);
    };
    BudgetSearch search(makeSeparable(counted));
    double limit = 1e-5;
    std::optional<PricedConfiguration> found = search.within(limit);
    int options =
        std::accumulate(problem.options.begin(), problem.options.end(), 0);
    EXPECT_EQ(plans, 1 + options - int(problem.options.size()));
    ASSERT_TRUE(found);
    PricedConfiguration exact = problem.price(found->choice);
    EXPECT_NEAR(found->cost, exact.cost, 1e-9 * exact.cost);
    EXPECT_LE(exact.error, limit * (1 + 1e-9));
    EXPECT_LE(exact.cost, 1.05 * problem.optimum(limit).cost);
  }
}

TEST(BudgetSearchTest, NothingIsFoundWhereTheWidestErrsMore) {
  Problem problem{{2}, {false}, {{2, 1}}, {{0.5, 1}}, {}};
  BudgetSearch search(problem.space());
  EXPECT_FALSE(search.within(0.4));
  EXPECT_EQ(search.within(0.5)->choice, Choice{0});
  EXPECT_EQ(search.within(1)->choice, Choice{1});
}

TEST(BudgetSearchTest, AnInfiniteErrorIsNeverTaken) {
  Problem problem{
      {2, 2}, {false, true}, {{9, 1}, {9, 1}}, {{0, INFINITY}, {0, 1e-3}}, {}};
  BudgetSearch search(problem.space());
  EXPECT_EQ(search.within(1)->choice, (Choice{0, 1}));
}

TEST(BudgetSearchTest, WhatIsPinnedStays) {
  Problem problem{
      {2, 2}, {false, true}, {{9, 1}, {9, 1}}, {{0, 1e-9}, {0, 1e-9}}, {}};
  BudgetSearch search(problem.space());
  search.pin(0, 0);
  EXPECT_EQ(search.within(1)->choice, (Choice{0, 1}));
}

TEST(BudgetSearchTest, TheFrontTradesCostForError) {
  std::mt19937 random(4);
  for (int i = 0; i < 20; ++i) {
    Problem problem = drawProblem(random);
    BudgetSearch search(problem.space());
    std::vector<PricedConfiguration> front = search.front(8);
    ASSERT_FALSE(front.empty());
    for (size_t j = 1; j < front.size(); ++j) {
      EXPECT_GE(front[j].cost, front[j - 1].cost);
      EXPECT_LT(front[j].error, front[j - 1].error);
    }
    EXPECT_EQ(front.back().error, 0);
  }
}

TEST(BudgetSearchTest, NoVariablesAreNoProblem) {
  Problem problem;
  BudgetSearch search(problem.space());
  EXPECT_TRUE(search.within(0));
  EXPECT_EQ(search.front(4).size(), 1u);
}

TEST(BudgetSearchTest, StopsWhenAsked) {
  std::mt19937 random(4);
  Problem problem = drawProblem(random);
  BudgetSearch search(problem.space());
  ASSERT_TRUE(search.within(1e-7, [] { return true; }));
  EXPECT_LE(search.getPlans(), 4);
}

TEST(FindCulpritsTest, FindsEachByHalves) {
  std::mt19937 random(1);
  for (int i = 0; i < 50; ++i) {
    size_t count = 1 + random() % 200;
    std::vector<size_t> bad = {random() % count, random() % count};
    std::sort(bad.begin(), bad.end());
    bad.erase(std::unique(bad.begin(), bad.end()), bad.end());
    int asked = 0;
    std::vector<size_t> found =
        findCulprits(count, [&](const std::vector<size_t> &block) {
          ++asked;
          return std::any_of(block.begin(), block.end(), [&](size_t index) {
            return std::find(bad.begin(), bad.end(), index) != bad.end();
          });
        });
    EXPECT_EQ(found, bad);
    EXPECT_LE(asked, 4 * std::log2(count) + 6);
  }
  EXPECT_TRUE(findCulprits(9, [](const auto &) { return false; }).empty());
  EXPECT_TRUE(findCulprits(0, [](const auto &) { return true; }).empty());
}

} // namespace
