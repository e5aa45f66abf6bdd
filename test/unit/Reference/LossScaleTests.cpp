//===- LossScaleTests.cpp - scales, checks and learning rates -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReferenceTest.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

namespace {

//===----------------------------------------------------------------------===//
// loss_scale.update
//===----------------------------------------------------------------------===//

class LossScaleTest : public ReferenceTest {
protected:
  /// Scale, good steps and overflows left.
  struct State {
    double scale;
    int64_t good, left;
  };

  State after(State state, bool finite, const std::string &attributes) {
    SmallVector<Tensor> results =
        run("mpc.loss_scale.update %0, %1 hysteresis_left(%2) when(%3) {" +
                attributes +
                "} : (tensor<f32>, tensor<i32>, tensor<i32>, tensor<i1>) -> "
                "(tensor<f32>, tensor<i32>, tensor<i32>)",
            {floats("tensor<f32>", {state.scale}),
             ints("tensor<i32>", {state.good}),
             ints("tensor<i32>", {state.left}), ints("tensor<i1>", {finite})},
            {"tensor<f32>", "tensor<i32>", "tensor<i32>"}, Rounding::Declared);
    if (results.size() != 3)
      return {kNan, -1, -1};
    return {results[0].floats()[0], results[1].ints()[0], results[2].ints()[0]};
  }
  static void expect(State actual, State wanted) {
    EXPECT_EQ(actual.scale, wanted.scale);
    EXPECT_EQ(actual.good, wanted.good);
    EXPECT_EQ(actual.left, wanted.left);
  }

  const std::string base = "growth = 2.0, backoff = 0.5, interval = 3 : i64";
};

TEST_F(LossScaleTest, GrowsAfterTheIntervalAndBacksOffAtOnce) {
  expect(after({8, 0, 1}, true, base), {8, 1, 1});
  expect(after({8, 2, 1}, true, base), {16, 0, 1});
  // A counter from a longer interval grows at once.
  expect(after({8, 9, 1}, true, base), {16, 0, 1});
  expect(after({8, 2, 1}, false, base), {4, 0, 1});
}

TEST_F(LossScaleTest, BoundsHoldAndClampOutliers) {
  std::string bounded = base + ", min = 1.0, max = 24.0";
  expect(after({1, 0, 1}, false, bounded), {1, 0, 1});
  expect(after({0.25, 0, 1}, false, bounded), {1, 0, 1});
  expect(after({16, 2, 1}, true, bounded), {24, 0, 1});
}

TEST_F(LossScaleTest, KeepsTheScaleThatWouldNotBeFinite) {
  expect(after({0x1p127, 2, 1}, true, base), {kInf, 0, 1});
  expect(after({0x1p127, 2, 1}, true, base + ", keep_finite"), {0x1p127, 0, 1});
  expect(after({kInf, 0, 1}, false, base), {kInf, 0, 1});
}

TEST_F(LossScaleTest, HysteresisForgivesOverflows) {
  std::string forgiving = base + ", hysteresis = 3 : i64";
  expect(after({8, 2, 3}, false, forgiving), {8, 0, 2});
  expect(after({8, 2, 2}, false, forgiving), {8, 0, 1});
  expect(after({8, 2, 1}, false, forgiving), {4, 0, 1});
  // Refilled on growth only, or on every finite step.
  expect(after({8, 0, 1}, true, forgiving), {8, 1, 1});
  expect(after({8, 2, 1}, true, forgiving), {16, 0, 3});
  expect(after({8, 0, 1}, true, forgiving + ", refill_hysteresis"), {8, 1, 3});
}

TEST_F(LossScaleTest, ProductsAreRoundedOnce) {
  // 0.3 is no float; the product of the double and an f32 is rounded to f32.
  double scale = 12345.678955078125;
  std::string odd = "growth = 1.7, backoff = 0.3, interval = 1 : i64";
  expect(after({scale, 0, 1}, false, odd),
         {static_cast<float>(scale * 0.3), 0, 1});
  expect(after({scale, 0, 1}, true, odd),
         {static_cast<float>(scale * 1.7), 0, 1});
}

//===----------------------------------------------------------------------===//
// all_finite and global_norm
//===----------------------------------------------------------------------===//

class CheckTest : public ReferenceTest {
protected:
  /// Flag, first tensor, number of tensors.
  SmallVector<int64_t> check(ArrayRef<double> a, ArrayRef<double> b,
                             double unscale, StringRef mode = "multiply") {
    SmallVector<Tensor> results =
        run(("mpc.all_finite %0, %1 unscale(%2) names([\"a\", \"b\"]) "
             "{unscale_mode = #mpc<unscale_mode " +
             mode +
             ">} : (tensor<2xf16>, tensor<3xf32>, tensor<f32>) -> (tensor<i1>, "
             "tensor<2xi64>)")
                .str(),
            {floats("tensor<2xf16>", a), floats("tensor<3xf32>", b),
             floats("tensor<f32>", {unscale})},
            {"tensor<i1>", "tensor<2xi64>"}, Rounding::Declared);
    if (results.size() != 2)
      return {};
    return {results[0].ints()[0], results[1].ints()[0], results[1].ints()[1]};
  }
};

TEST_F(CheckTest, NamesTheFirstTensorAndCounts) {
  using Record = SmallVector<int64_t>;
  EXPECT_EQ(check({1, 2}, {3, 4, 5}, 1), (Record{1, -1, 0}));
  EXPECT_EQ(check({1, 2}, {3, kInf, kNan}, 1), (Record{0, 1, 1}));
  EXPECT_EQ(check({1, kNan}, {3, -kInf, 5}, 1), (Record{0, 0, 2}));
}

TEST_F(CheckTest, LooksAtUnscaledGradients) {
  using Record = SmallVector<int64_t>;
  EXPECT_EQ(check({1, 2}, {3, 1e30, 5}, 1e10), (Record{0, 1, 1}));
  EXPECT_EQ(check({1, 2}, {3, 1e30, 5}, 1e10, "divide"), (Record{1, -1, 0}));
  // The inverse of a scale of 0.
  EXPECT_EQ(check({1, 0}, {3, 4, 5}, kInf), (Record{0, 0, 2}));
}

TEST_F(CheckTest, NormIsTakenOfUnscaledGradients) {
  Tensor a = floats("tensor<2xf16>", {6, 0}), b = floats("tensor<1xf32>", {8}),
         half = floats("tensor<f32>", {0.5});
  expectFloats("mpc.global_norm %0, %1 : (tensor<2xf16>, tensor<1xf32>) -> "
               "tensor<f32>",
               {a, b}, "tensor<f32>", {10});
  expectFloats("mpc.global_norm %0, %1 unscale(%2) : (tensor<2xf16>, "
               "tensor<1xf32>, tensor<f32>) -> tensor<f32>",
               {a, b, half}, "tensor<f32>", {5}, 0, Rounding::Declared);
  // 300^2 is no f16: squares are f32.
  expectFloats("mpc.global_norm %0 : (tensor<2xf16>) -> tensor<f32>",
               {floats("tensor<2xf16>", {300, 400})}, "tensor<f32>", {500}, 0,
               Rounding::Declared);
}

// Rounding of a tensor's sum or norm changes the last bit of some norms.
TEST_F(CheckTest, NormRoundsPerTensor) {
  auto round = [](double value) -> double { return static_cast<float>(value); };
  auto root = [=](double value) { return round(std::sqrt(value)); };
  auto ofTwo = [&](const std::string &form, Tensor a, Tensor b, double norm) {
    expectFloats("mpc.global_norm %0, %1" + form +
                     " : (tensor<1xf32>, tensor<1xf32>) -> tensor<f32>",
                 {a, b}, "tensor<f32>", {norm}, 0, Rounding::Declared);
  };
  int ofSumsOnly = 0, ofNormsOnly = 0;
  for (int i = 0; i < 50; ++i) {
    double x = round(1.1 + i * 0.013), y = round(0.7 + i * 0.031);
    Tensor a = floats("tensor<1xf32>", {y}), b = floats("tensor<1xf32>", {x});
    // The square that is added is rounded with the sum in one tensor, and by
    // itself in one of its own.
    double fused = root(round(round(y * y) + x * x));
    expectFloats("mpc.global_norm %0 : (tensor<2xf32>) -> tensor<f32>",
                 {floats("tensor<2xf32>", {y, x})}, "tensor<f32>", {fused}, 0,
                 Rounding::Declared);
    double ofSums = root(round(round(y * y) + round(x * x)));
    ofTwo("", a, b, ofSums);
    double first = root(round(y * y)), second = root(round(x * x));
    double ofNorms = root(round(round(first * first) + second * second));
    ofTwo(" {of_norms}", a, b, ofNorms);
    ofSumsOnly += ofSums != fused;
    ofNormsOnly += ofNorms != ofSums;
  }
  EXPECT_GT(ofSumsOnly, 0);
  EXPECT_GT(ofNormsOnly, 0);
}

//===----------------------------------------------------------------------===//
// learning_rate
//===----------------------------------------------------------------------===//

class LearningRateTest : public ReferenceTest {
protected:
  void expectRate(const std::string &text, int64_t step, double rate) {
    expectFloats("mpc.learning_rate %0 " + text +
                     " : tensor<i64> -> tensor<f64>",
                 {ints("tensor<i64>", {step})}, "tensor<f64>", {rate}, 1e-15);
  }
};

TEST_F(LearningRateTest, FollowsItsSchedule) {
  expectRate("base(0.5)", 1000, 0.5);
  std::string warm = "base(0.5) {warmup = 4 : i64}";
  expectRate(warm, 0, 0.125);
  expectRate(warm, 3, 0.5);
  expectRate(warm, 4, 0.5);
  std::string steps =
      "base(0.5) kind(step) {warmup = 2 : i64, period = 3 : i64, gamma = 0.1}";
  expectRate(steps, 4, 0.5);
  expectRate(steps, 5, 0.05);
  expectRate(steps, 8, 0.005);
  std::string cosine = "base(0.5) kind(cosine) {warmup = 2 : i64, steps = 10 : "
                       "i64, final = 0.1}";
  expectRate(cosine, 1, 0.5);
  expectRate(cosine, 2, 0.5);
  expectRate(cosine, 6, 0.3);
  expectRate(cosine, 10, 0.1);
  expectRate(cosine, 99, 0.1);
  std::string linear = "base(0.5) kind(linear) {steps = 8 : i64, final = 0.1}";
  expectRate(linear, 2, 0.4);
  expectRate(linear, 9, 0.1);
}

} // namespace
