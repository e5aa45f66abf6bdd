//===- LossTests.cpp - losses and training-mode ops -----------------------===//
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
// Losses
//===----------------------------------------------------------------------===//

class LossTest : public ReferenceTest {
protected:
  /// -log of the softmax of row `row` at `column`, by its definition.
  double surprise(int64_t row, int64_t column) const {
    double sum = 0;
    for (int64_t c = 0; c < 3; ++c)
      sum += std::exp(logits[row * 3 + c]);
    return std::log(sum) - logits[row * 3 + column];
  }
  double meanSurprise(int64_t row) const {
    return (surprise(row, 0) + surprise(row, 1) + surprise(row, 2)) / 3;
  }
  void expectLoss(const std::string &text, const Tensor &targets,
                  StringRef targetType, double loss) {
    expectFloats("mpc." + text + " : (tensor<4x3xf64>, " + targetType.str() +
                     ") -> tensor<f64>",
                 {floats("tensor<4x3xf64>", logits), targets}, "tensor<f64>",
                 {loss}, 1e-14);
  }

  const std::vector<double> logits = {0.5,  -1.25, 2.0, 1.5, 0.25, -0.75,
                                      -2.0, 0.125, 3.0, 0.0, 1.0,  -1.0};
};

TEST_F(LossTest, SoftmaxCrossEntropyOfClasses) {
  StringRef type = "tensor<4xi32>";
  Tensor classes = ints(type, {2, 0, 1, 1});
  double plain =
      (surprise(0, 2) + surprise(1, 0) + surprise(2, 1) + surprise(3, 1)) / 4;
  expectLoss("softmax_cross_entropy %0, %1", classes, type, plain);

  double smooth = 0;
  for (int64_t row = 0; row < 4; ++row)
    smooth += meanSurprise(row) / 4;
  expectLoss("softmax_cross_entropy %0, %1 label_smoothing(0.1)", classes, type,
             0.9 * plain + 0.1 * smooth);

  // Ignored rows count neither above nor below the line.
  expectLoss("softmax_cross_entropy %0, %1 ignore_index(1)", classes, type,
             (surprise(0, 2) + surprise(1, 0)) / 2);
  expectLoss("softmax_cross_entropy %0, %1 label_smoothing(0.1) "
             "ignore_index(1)",
             classes, type,
             (0.9 * (surprise(0, 2) + surprise(1, 0)) +
              0.1 * (meanSurprise(0) + meanSurprise(1))) /
                 2);
  expectLoss("softmax_cross_entropy %0, %1 ignore_index(-100)",
             ints(type, {-100, -100, -100, -100}), type, kNan);
}

TEST_F(LossTest, SoftmaxCrossEntropyOfProbabilities) {
  StringRef type = "tensor<4x3xf64>";
  std::vector<double> p = {0.2,  0.3,  0.5, 1.0, 0.0, 0.0,
                           0.25, 0.25, 0.5, 0.6, 0.4, 0.0};
  double plain = 0, smooth = 0;
  for (int64_t i = 0; i < 12; ++i) {
    plain += p[i] * surprise(i / 3, i % 3) / 4;
    smooth += surprise(i / 3, i % 3) / 12;
  }
  Tensor targets = floats(type, p);
  expectLoss("softmax_cross_entropy %0, %1", targets, type, plain);
  expectLoss("softmax_cross_entropy %0, %1 label_smoothing(0.2)", targets, type,
             0.8 * plain + 0.2 * smooth);
}

TEST_F(LossTest, LargeLogitsDoNotOverflow) {
  expectFloats(
      "mpc.softmax_cross_entropy %0, %1 : (tensor<1x2xf32>, "
      "tensor<1xi64>) -> tensor<f32>",
      {floats("tensor<1x2xf32>", {0x1p100, 0}), ints("tensor<1xi64>", {0})},
      "tensor<f32>", {0}, 0, Rounding::Declared);
  expectFloats(
      "mpc.sigmoid_cross_entropy %0, %1 : (tensor<2xf32>, tensor<2xf32>) -> "
      "tensor<f32>",
      {floats("tensor<2xf32>", {0x1p100, -0x1p100}),
       floats("tensor<2xf32>", {1, 0})},
      "tensor<f32>", {0}, 0, Rounding::Declared);
}

TEST_F(LossTest, RegressionLosses) {
  StringRef type = "tensor<4x3xf64>";
  std::vector<double> z(12);
  for (int64_t i = 0; i < 12; ++i)
    z[i] = 0.1 * static_cast<double>(i);
  double entropy = 0, square = 0, distance = 0, huber = 0;
  for (int64_t i = 0; i < 12; ++i) {
    double sigmoid = 1 / (1 + std::exp(-logits[i])), d = logits[i] - z[i];
    entropy -= z[i] * std::log(sigmoid) + (1 - z[i]) * std::log(1 - sigmoid);
    square += d * d;
    distance += std::fabs(d);
    huber += std::fabs(d) <= 0.5 ? d * d / 2 : 0.5 * (std::fabs(d) - 0.25);
  }
  Tensor targets = floats(type, z);
  expectLoss("sigmoid_cross_entropy %0, %1", targets, type, entropy / 12);
  expectLoss("mean_squared_error %0, %1", targets, type, square / 12);
  expectLoss("mean_absolute_error %0, %1", targets, type, distance / 12);
  expectLoss("huber %0, %1 delta(0.5)", targets, type, huber / 12);
}

//===----------------------------------------------------------------------===//
// Random numbers
//===----------------------------------------------------------------------===//

using RandomTest = ReferenceTest;

TEST_F(RandomTest, BitsAreThoseOfPhilox) {
  // The known answer for counter and key zero, then values of a second
  // implementation that gives all published answers.
  expectInts("mpc.random_bits %0 stream(0) : tensor<2xi64> -> tensor<1xi32>",
             {ints("tensor<2xi64>", {0, 0})}, "tensor<1xi32>", {0x6627e8d5});
  expectInts(
      "mpc.random_bits %0 stream(320440878) : tensor<2xi64> -> tensor<2x2xi32>",
      {ints("tensor<2xi64>", {0x299f31d0a4093822, 0x03707344})},
      "tensor<2x2xi32>",
      {static_cast<int32_t>(0xb60a410e), 0x61bd7780,
       static_cast<int32_t>(0xa53f3958), 0x3d51eb3f});
}

TEST_F(RandomTest, DropoutKeepsItsShareAndItsSum) {
  Tensor ones(type("tensor<100x100xf32>"));
  llvm::fill(ones.floats(), 1.0);
  auto drop = [&](int64_t step, StringRef stream) {
    return run(("mpc.dropout %0, %1 probability(0.25) stream(" + stream +
                ") : (tensor<100x100xf32>, tensor<2xi64>) -> "
                "tensor<100x100xf32>")
                   .str(),
               {ones, ints("tensor<2xi64>", {42, step})},
               {"tensor<100x100xf32>"}, Rounding::Declared)[0];
  };
  Tensor first = drop(0, "1");
  int64_t kept = 0;
  for (double value : first.floats()) {
    EXPECT_TRUE(value == 0 || value == static_cast<float>(4.0 / 3)) << value;
    kept += value != 0;
  }
  // 7500 expected, standard deviation 43.3: five of them.
  EXPECT_NEAR(static_cast<double>(kept), 7500, 217);
  // Another step or stream gives other samples, the same one the same samples.
  auto differs = [&](const Tensor &other) {
    return ArrayRef<double>(first.floats()) != ArrayRef<double>(other.floats());
  };
  EXPECT_FALSE(differs(drop(0, "1")));
  EXPECT_TRUE(differs(drop(1, "1")));
  EXPECT_TRUE(differs(drop(0, "2")));
}

//===----------------------------------------------------------------------===//
// Batch norm
//===----------------------------------------------------------------------===//

TEST_F(RandomTest, BatchNormUsesAndAveragesTheBatch) {
  // Channel 0 holds 0, 1, 2, 3 (mean 1.5, variance 1.25, unbiased 5/3), channel
  // 1 holds 2 everywhere.
  Tensor x = floats("tensor<2x2x2xf64>", {0, 1, 2, 2, 2, 3, 2, 2}),
         scale = floats("tensor<2xf64>", {2, 3}),
         bias = floats("tensor<2xf64>", {0.5, -1}),
         mean = floats("tensor<2xf64>", {10, 20}),
         variance = floats("tensor<2xf64>", {1, 4});
  SmallVector<Tensor> results =
      run("mpc.batch_norm_training %0, %1, %2, %3, %4 epsilon(0.3125) "
          "momentum(0.25) : (tensor<2x2x2xf64>, tensor<2xf64>, tensor<2xf64>, "
          "tensor<2xf64>, tensor<2xf64>) -> (tensor<2x2x2xf64>, "
          "tensor<2xf64>, tensor<2xf64>)",
          {x, scale, bias, mean, variance},
          {"tensor<2x2x2xf64>", "tensor<2xf64>", "tensor<2xf64>"});
  ASSERT_EQ(results.size(), 3u);
  // sqrt(1.25 + 0.3125) = 1.25.
  expectNear(results[0], {-1.9, -0.3, -1, -1, 1.3, 2.9, -1, -1}, 1e-15);
  expectNear(results[1], {7.875, 15.5}, 1e-15);
  expectNear(results[2], {0.75 + 0.25 * 5 / 3, 3}, 1e-15);
}

TEST_F(RandomTest, BatchNormOfOneElementKeepsTheBiasedVariance) {
  Tensor one = floats("tensor<1x1xf32>", {5}), c = floats("tensor<1xf32>", {1});
  SmallVector<Tensor> results =
      run("mpc.batch_norm_training %0, %1, %1, %1, %1 epsilon(1.0) "
          "momentum(0.5) : (tensor<1x1xf32>, tensor<1xf32>, tensor<1xf32>, "
          "tensor<1xf32>, tensor<1xf32>) -> (tensor<1x1xf32>, tensor<1xf32>, "
          "tensor<1xf32>)",
          {one, c}, {"tensor<1x1xf32>", "tensor<1xf32>", "tensor<1xf32>"},
          Rounding::Declared);
  ASSERT_EQ(results.size(), 3u);
  expectNear(results[0], {1}, 0);
  expectNear(results[1], {3}, 0);
  expectNear(results[2], {0.5}, 0);
}

} // namespace
