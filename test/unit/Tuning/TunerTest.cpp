//===- TunerTest.cpp - error budgets held by measurement ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Tuning/Tuner.h"

#include "gtest/gtest.h"

#include <cmath>
#include <numeric>

using namespace mpc;

namespace {

constexpr int kVariables = 40;

/// Low-precision variable i saves i + 1 with a predicted error of 1e-8 squared.
BudgetSearchProblem plainSpace() {
  BudgetSearchProblem space{std::vector<int>(kVariables, 2),
                            std::vector<bool>(kVariables, false),
                            {}};
  space.plan = [](const Choice &choice, double) {
    PricedConfiguration priced{choice, 0, 0};
    for (int i = 0; i < kVariables; ++i) {
      priced.cost += choice[i] ? 0 : i + 1;
      priced.error += choice[i] ? 1e-8 : 0;
    }
    return priced;
  };
  return space;
}

double narrowCount(const Choice &choice) {
  return std::accumulate(choice.begin(), choice.end(), 0);
}

TuningResult tune(const Budget &budget,
                  const std::function<double(const Choice &)> &error,
                  int *asked = nullptr) {
  BudgetSearch search(plainSpace());
  TuningCallbacks questions;
  questions.measure = [&](const Choice &choice) {
    if (asked)
      ++*asked;
    return std::optional(Measurement{error(choice), std::nullopt});
  };
  return tuneToBudget(search, budget, questions);
}

/// Errors are `factor` times what was predicted.
std::function<double(const Choice &)> scaled(double factor) {
  return [factor](const Choice &choice) {
    return factor * std::sqrt(1e-8 * narrowCount(choice));
  };
}

TEST(TunerTest, SpendsTheBudgetWhereErrorsAreAsPredicted) {
  TuningResult result = tune({Budget::Measure::Rms, 4.05e-4}, scaled(1));
  ASSERT_TRUE(result.best);
  EXPECT_EQ(narrowCount(result.best->priced.choice), 16);
  EXPECT_LE(result.best->measured, 4.05e-4);
  EXPECT_TRUE(result.culprits.empty());
}

TEST(TunerTest, TightensWhereErrorsAreLarger) {
  TuningResult result = tune({Budget::Measure::Rms, 4e-4}, scaled(3));
  ASSERT_TRUE(result.best);
  EXPECT_LE(result.best->measured, 4e-4);
  EXPECT_EQ(narrowCount(result.best->priced.choice), 1);
}

TEST(TunerTest, LoosensWhereErrorsAreSmaller) {
  TuningResult result = tune({Budget::Measure::Rms, 4e-4}, scaled(0.7));
  ASSERT_TRUE(result.best);
  EXPECT_LE(result.best->measured, 4e-4);
  EXPECT_GE(narrowCount(result.best->priced.choice), 26);
}

/// Two variables break everything, which nothing predicted.
TEST(TunerTest, FindsWhatBreaksTheBudgetAlone) {
  int asked = 0;
  TuningResult result = tune(
      {Budget::Measure::Rms, 1e-2},
      [](const Choice &choice) {
        return choice[7] || choice[31] ? INFINITY : scaled(1)(choice);
      },
      &asked);
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.culprits, (std::vector<size_t>{7, 31}));
  EXPECT_EQ(narrowCount(result.best->priced.choice), kVariables - 2);
  EXPECT_LE(asked, 40);
}

TEST(TunerTest, ABudgetBelowFloat32IsOutOfReach) {
  TuningResult result =
      tune({Budget::Measure::Rms, 0}, [](const Choice &) { return 1e-7; });
  EXPECT_FALSE(result.best);
  ASSERT_TRUE(result.widest);
  EXPECT_EQ(result.widest->measured, 1e-7);
}

TEST(TunerTest, ABudgetOfNothingLeavesFloat32) {
  TuningResult result = tune({Budget::Measure::Rms, 0}, scaled(1));
  ASSERT_TRUE(result.best);
  EXPECT_EQ(narrowCount(result.best->priced.choice), 0);
}

TEST(TunerTest, KeepsTheBestWhenStopped) {
  BudgetSearch search(plainSpace());
  int points = 0;
  TuningCallbacks questions;
  questions.measure = [&](const Choice &choice) {
    ++points;
    return std::optional(Measurement{scaled(0.5)(choice), std::nullopt});
  };
  questions.stop = [&] { return points >= 2; };
  TuningResult result =
      tuneToBudget(search, {Budget::Measure::Rms, 4e-4}, questions);
  EXPECT_TRUE(result.isStopped);
  ASSERT_TRUE(result.best);
  EXPECT_LT(result.best->priced.cost, result.widest->priced.cost);
}

/// Start configurations are measured, and win if they cost less than the result
/// of the search over predicted costs.
TEST(TunerTest, NeverLosesToAStart) {
  BudgetSearchProblem space = plainSpace();
  Choice start(kVariables, 0);
  for (int i = 0; i < 8; ++i)
    start[i] = 1;
  space.starts = {start};
  BudgetSearch search(space);
  TuningCallbacks questions;
  // The start is cheaper than it looks.
  questions.measure = [&](const Choice &choice) {
    return std::optional(Measurement{
        scaled(1)(choice), choice == start ? 1 : 100 - narrowCount(choice)});
  };
  TuningResult result =
      tuneToBudget(search, {Budget::Measure::Rms, 4e-4}, questions);
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.best->priced.choice, start);
  EXPECT_EQ(result.best->cost, 1);
}

/// Measured costs are what counts, and half of what is priced.
TEST(TunerTest, SpendsACostOnTheLeastError) {
  BudgetSearch search(plainSpace());
  BudgetSearchProblem space = plainSpace();
  TuningCallbacks questions;
  questions.measure = [&](const Choice &choice) {
    return std::optional(
        Measurement{scaled(1)(choice), 100 + 0.5 * space.plan(choice, 0).cost});
  };
  TuningResult result =
      tuneToCost(search, Budget::Measure::Rms, 0.7, questions);
  ASSERT_TRUE(result.best);
  ASSERT_TRUE(result.widest);
  EXPECT_EQ(result.widest->cost, 100 + 0.5 * kVariables * (kVariables + 1) / 2);
  EXPECT_LE(result.best->cost, 0.7 * result.widest->cost);
  EXPECT_GE(result.best->cost, 0.6 * result.widest->cost);
  // A few large savings err less than many small ones.
  EXPECT_LE(narrowCount(result.best->priced.choice), 12);
}

TEST(TunerTest, ACostBelowTheCheapestIsOutOfReach) {
  BudgetSearch search(plainSpace());
  TuningCallbacks questions;
  questions.measure = [&](const Choice &choice) {
    return std::optional(Measurement{scaled(1)(choice), 100});
  };
  EXPECT_FALSE(tuneToCost(search, Budget::Measure::Rms, 0.9, questions).best);
}

TEST(TunerTest, AllOfTheCostLeavesEverythingWide) {
  BudgetSearch search(plainSpace());
  TuningCallbacks questions;
  questions.measure = [&](const Choice &choice) {
    return std::optional(Measurement{scaled(1)(choice), 100});
  };
  TuningResult result = tuneToCost(search, Budget::Measure::Rms, 1, questions);
  ASSERT_TRUE(result.best);
  EXPECT_EQ(narrowCount(result.best->priced.choice), 0);
}

TEST(TunerTest, EndsWhereAMeasurementFails) {
  BudgetSearch search(plainSpace());
  TuningCallbacks questions;
  questions.measure = [](const Choice &) {
    return std::optional<Measurement>();
  };
  EXPECT_FALSE(tuneToBudget(search, {Budget::Measure::Rms, 1}, questions).best);
}

} // namespace
