//===- BudgetTest.cpp - error budgets -------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Tuning/Budget.h"

#include "mlir/IR/MLIRContext.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace mpc;
using mpc::reference::Tensor;
using Measure = Budget::Measure;

namespace {

class BudgetTest : public ::testing::Test {
protected:
  Tensor tensor(llvm::ArrayRef<int64_t> shape,
                const std::vector<double> &values) {
    Tensor made(
        mlir::RankedTensorType::get(shape, mlir::Float32Type::get(&context)));
    std::copy(values.begin(), values.end(), made.floats().begin());
    return made;
  }
  double error(Measure measure, const Tensor &wanted, const Tensor &actual) {
    ErrorMeter meter(measure);
    meter.add(wanted, actual);
    return meter.value();
  }
  /// Mean error that the seeds of `outputs` predict for the `changed` output.
  double predicted(Measure measure, const Tensor &output,
                   const Tensor &changed) {
    std::mt19937_64 generator(7);
    double sum = 0;
    constexpr int kDraws = 4000;
    for (int draw = 0; draw < kDraws; ++draw) {
      auto seeds = generateSeeds(measure, output, generator);
      double product = 0;
      for (int64_t i = 0; i < output.size(); ++i)
        product += seeds.front()->floats()[i] *
                   (changed.floats()[i] - output.floats()[i]);
      sum += product * product;
    }
    return errorOf(measure, sum / kDraws);
  }
  mlir::MLIRContext context;
};

TEST_F(BudgetTest, ReadsWhatItWrites) {
  for (const char *text : {"rms 0.001", "max 0.01", "kl 0.0001", "top1 0.1%",
                           "rms 0", "cosine 0.0001", "perplexity 1%"}) {
    llvm::Expected<Budget> budget = Budget::parse(text);
    ASSERT_TRUE(bool(budget)) << llvm::toString(budget.takeError());
    EXPECT_EQ(budget->text(), text);
  }
  EXPECT_EQ(llvm::cantFail(Budget::parse("top1 0.5%")).limit, 0.005);
  EXPECT_EQ(llvm::cantFail(Budget::parse("  rms   1e-3 ")).limit, 0.001);
}

// Masked elements do not count in the scale of the other logits.
TEST_F(BudgetTest, MasksHideNoError) {
  Tensor wanted = tensor({2, 3}, {1, -1, -1e9, 1, 1, -1e9}),
         actual = tensor({2, 3}, {1.5, -1, -1e9, 1, 1, -1e9});
  double found = error(Measure::Rms, wanted, actual);
  EXPECT_NEAR(found, 0.5 / std::sqrt(6.0), 1e-6);
  EXPECT_NEAR(predicted(Measure::Rms, wanted, actual), found, 1e-3);
}

TEST_F(BudgetTest, RefusesWhatIsNoBudget) {
  for (const char *text : {"", "rms", "rms -1", "rms nan", "rms inf", "mean 1",
                           "1e-3", "rms 1e-3 max 2", "rms 1e-3x"}) {
    llvm::Expected<Budget> budget = Budget::parse(text);
    EXPECT_FALSE(bool(budget)) << text;
    if (!budget)
      EXPECT_NE(llvm::toString(budget.takeError()).find("top1 0.1%"),
                std::string::npos);
  }
}

TEST_F(BudgetTest, MeasuresEachErrorAsItIsDefined) {
  Tensor wanted = tensor({2, 3}, {3, 0, 0, 0, 4, 0}),
         actual = tensor({2, 3}, {3, 0, 0.5, 4.5, 4, 0});
  EXPECT_DOUBLE_EQ(error(Measure::Rms, wanted, actual),
                   std::sqrt(0.25 + 4.5 * 4.5) / 5);
  EXPECT_DOUBLE_EQ(error(Measure::Max, wanted, actual), 4.5);
  EXPECT_DOUBLE_EQ(error(Measure::Top1, wanted, actual), 0.5);
  EXPECT_NEAR(error(Measure::Cosine, tensor({2}, {3, 4}), tensor({2}, {4, 3})),
              1 - 24.0 / 25, 1e-12);
  EXPECT_EQ(error(Measure::Cosine, tensor({2}, {0, 0}), tensor({2}, {1, 0})),
            1);
  Tensor p = tensor({2}, {0.25, 0.75}), q = tensor({2}, {0.5, 0.5});
  EXPECT_NEAR(error(Measure::Kl, p, q),
              0.25 * std::log(0.5) + 0.75 * std::log(1.5), 1e-12);
  Tensor logits = tensor({2}, {std::log(1.0), std::log(3.0)});
  EXPECT_NEAR(error(Measure::Kl, logits, tensor({2}, {0, 0})),
              error(Measure::Kl, p, q), 1e-12);
}

TEST_F(BudgetTest, WhatCeasesToBeFiniteBreaksEveryBudget) {
  Tensor wanted = tensor({2}, {1, 2});
  for (Measure measure :
       {Measure::Rms, Measure::Max, Measure::Kl, Measure::Top1})
    for (double bad : {std::nan(""), HUGE_VAL})
      EXPECT_EQ(error(measure, wanted, tensor({2}, {1, bad})), INFINITY);
  // Elements that were not finite before cause no error.
  Tensor broken = tensor({2}, {1, std::nan("")});
  for (Measure measure :
       {Measure::Rms, Measure::Max, Measure::Kl, Measure::Top1})
    EXPECT_EQ(error(measure, broken, broken), 0);
}

/// An infinity is neither the other one nor no number.
TEST_F(BudgetTest, WhatIsNotFiniteHasToBeTheSame) {
  double none = std::nan("");
  for (Measure measure : {Measure::Rms, Measure::Max, Measure::Kl,
                          Measure::Top1, Measure::Cosine})
    for (auto [wanted, actual] :
         {std::pair(HUGE_VAL, -HUGE_VAL), {HUGE_VAL, none}, {none, -HUGE_VAL}})
      EXPECT_EQ(
          error(measure, tensor({2}, {1, wanted}), tensor({2}, {1, actual})),
          INFINITY);
  EXPECT_EQ(cosineOf(tensor({2}, {1, 2}), tensor({2}, {1, none})), -1);
  EXPECT_EQ(cosineOf(tensor({2}, {1, HUGE_VAL}), tensor({2}, {1, HUGE_VAL})),
            1);
}

/// For independent small changes the mean square of seeds is the error.
TEST_F(BudgetTest, SeedsPredictSmallChanges) {
  Tensor logits = tensor({2, 3}, {0.3, 1.2, -0.5, 2.0, 0.1, 0.2}),
         changed =
             tensor({2, 3}, {0.3002, 1.1997, -0.4999, 2.0001, 0.1004, 0.1998});
  for (Measure measure : {Measure::Rms, Measure::Kl})
    EXPECT_NEAR(predicted(measure, logits, changed) /
                    error(measure, logits, changed),
                1, 0.08)
        << stringify(measure).str();
  // Scaling an output does not change its angle.
  EXPECT_LE(error(Measure::Cosine, logits, changed),
            1.1 * predicted(Measure::Cosine, logits, changed));
  Tensor p = tensor({1, 3}, {0.2, 0.5, 0.3}),
         q = tensor({1, 3}, {0.2003, 0.4999, 0.2998});
  EXPECT_NEAR(predicted(Measure::Kl, p, q) / error(Measure::Kl, p, q), 1, 0.08);
  double ratio = predicted(Measure::Max, logits, changed) /
                 error(Measure::Max, logits, changed);
  EXPECT_GT(ratio, 0.5);
  EXPECT_LT(ratio, 2);
}

TEST_F(BudgetTest, SeedsOfTop1AreTheMarginsInverse) {
  std::mt19937_64 generator(1);
  auto seeds =
      generateSeeds(Measure::Top1, tensor({1, 3}, {1.0, 3.0, 2.5}), generator);
  EXPECT_EQ(std::fabs(seeds.front()->floats()[1]), 2.0);
  EXPECT_EQ(seeds.front()->floats()[2], -seeds.front()->floats()[1]);
  EXPECT_EQ(seeds.front()->floats()[0], 0.0);
}

TEST_F(BudgetTest, SeedsLeaveOutWhatIsNotFinite) {
  std::mt19937_64 generator(1);
  for (Measure measure :
       {Measure::Rms, Measure::Max, Measure::Kl, Measure::Top1}) {
    auto seeds =
        generateSeeds(measure, tensor({2}, {std::nan(""), 1}), generator);
    ASSERT_TRUE(seeds.front());
    EXPECT_EQ(seeds.front()->floats()[0], 0);
    EXPECT_TRUE(std::isfinite(seeds.front()->floats()[1]));
  }
}

TEST_F(BudgetTest, TextsAreMeasuredOverAllTokens) {
  // Uniform over two tokens, then 3/4 and 1/4; the other model is uniform.
  double skewed = std::log(3.0);
  Tensor wanted = tensor({1, 2, 2}, {5, 5, skewed, 0});
  Tensor actual = tensor({1, 2, 2}, {0, 0, 7, 7});
  NextTokenMeter meter;
  meter.add(wanted, actual, {1, 0});
  // The first row has no divergence, so the mean is half of the second's.
  double divergence = 0.75 * std::log(1.5) + 0.25 * std::log(0.5);
  EXPECT_NEAR(meter.divergence(), divergence / 2, 1e-12);
  EXPECT_EQ(meter.error(Measure::Kl), meter.divergence());
  // Only the first row has a next token, with the probability 1/2 in both.
  EXPECT_NEAR(meter.perplexity(), 2, 1e-12);
  EXPECT_NEAR(meter.referencePerplexity(), 2, 1e-12);
  EXPECT_EQ(meter.error(Measure::Perplexity), 0);
  EXPECT_EQ(meter.flips(), 0);
  // A second window: the next token has 1/4, and 1/10 in the other model, whose
  // most likely one differs.
  meter.add(tensor({1, 2, 2}, {skewed, 0, 0, 0}),
            tensor({1, 2, 2}, {-std::log(9.0), 0, 0, 0}), {0, 0});
  EXPECT_NEAR(meter.referencePerplexity(), std::sqrt(2 / 0.75), 1e-12);
  EXPECT_NEAR(meter.perplexity(), std::sqrt(2 / 0.1), 1e-12);
  EXPECT_NEAR(meter.error(Measure::Perplexity), std::sqrt(7.5) - 1, 1e-12);
  EXPECT_NEAR(meter.error(Measure::Top1), 0.25, 1e-12);
}

TEST_F(BudgetTest, APerplexityThatFallsIsNoError) {
  NextTokenMeter meter;
  meter.add(tensor({1, 2, 2}, {0, 0, 0, 0}), tensor({1, 2, 2}, {0, 1, 0, 0}),
            {0, 1});
  EXPECT_LT(meter.perplexity(), meter.referencePerplexity());
  EXPECT_EQ(meter.error(Measure::Perplexity), 0);
}

TEST_F(BudgetTest, ALogitThatIsNotFiniteMakesTheErrorInfinite) {
  NextTokenMeter meter;
  meter.add(tensor({1, 1, 2}, {0, 0}), tensor({1, 1, 2}, {0, INFINITY}), {0});
  for (Measure measure : {Measure::Kl, Measure::Top1, Measure::Perplexity})
    EXPECT_TRUE(std::isinf(meter.error(measure)));
}

TEST_F(BudgetTest, LogitsWithoutADistributionMakeTheErrorInfinite) {
  NextTokenMeter meter;
  meter.add(tensor({1, 1, 2}, {0, NAN}), tensor({1, 1, 2}, {0, NAN}), {0});
  for (Measure measure : {Measure::Kl, Measure::Top1, Measure::Perplexity})
    EXPECT_TRUE(std::isinf(meter.error(measure)));
}

TEST_F(BudgetTest, ComparesPerplexitiesThatOverflow) {
  NextTokenMeter meter;
  meter.add(tensor({1, 2, 2}, {1000, 0, 0, 0}),
            tensor({1, 2, 2}, {1000.5, 0, 0, 0}), {0, 1});
  EXPECT_TRUE(std::isinf(meter.referencePerplexity()));
  EXPECT_NEAR(meter.error(Measure::Perplexity), std::expm1(0.5), 1e-12);
}

TEST_F(BudgetTest, PredictsTheRiseOfThePerplexityOfItsOwnText) {
  Tensor output = tensor({1, 3}, {0.3, -0.2, 0.7});
  Tensor changed = tensor({1, 3}, {0.31, -0.22, 0.69});
  double kl = error(Measure::Kl, output, changed);
  EXPECT_NEAR(predicted(Measure::Perplexity, output, changed), kl, 0.1 * kl);
  EXPECT_NEAR(errorOf(Measure::Perplexity, squareOf(Measure::Perplexity, 0.5)),
              0.5, 1e-12);
}

} // namespace
