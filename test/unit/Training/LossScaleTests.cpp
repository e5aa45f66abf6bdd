//===- LossScaleTests.cpp - training that needs its loss scale ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two models whose gradients leave the range of f16: one at its lower end,
// where steps without a scale change nothing, one at its upper end, where the
// initial scale overflows.
//
//===----------------------------------------------------------------------===//

#include "../TemporaryModel.h"

#include "mpc/Training/LossScale.h"
#include "mpc/Training/Trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <tuple>

using namespace mpc;

namespace {

/// The gradient of %xw is 2 * 2^-18 / 256 = 2^-25 times the error, which is
/// below 1: f16 has nothing between 0 and 2^-24, and rounds it to 0.
constexpr const char *kTinyGradients = R"(
func.func @main(%x: tensor<32x16xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<32x8xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %w = mpc.constant dense<0.0> : tensor<16x8xf32> loc("fc.weight")
  %s = mpc.constant dense<0.001953125> : tensor<f32>
  %xw = mpc.matmul %x, %w : (tensor<32x16xf32>, tensor<16x8xf32>) -> tensor<32x8xf32> loc("fc")
  %y = mpc.mul %xw, %s : (tensor<32x8xf32>, tensor<f32>) -> tensor<32x8xf32> loc("shrink")
  return %y : tensor<32x8xf32>
}
)";

/// Inputs of 64 make the first layer's weight gradient many times the second's.
constexpr const char *kLargeGradients = R"(
func.func @main(%x: tensor<32x16xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<32x8xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %w1 = mpc.constant dense<0.0078125> : tensor<16x16xf32> loc("first.weight")
  %w2 = mpc.constant dense<0.0625> : tensor<16x8xf32> loc("second.weight")
  %gain = mpc.constant dense<0.25> : tensor<f32>
  %h = mpc.matmul %x, %w1 {mpc.layer = "body/first"} : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32> loc("first")
  %small = mpc.mul %h, %gain {mpc.layer = "body"} : (tensor<32x16xf32>, tensor<f32>) -> tensor<32x16xf32> loc("gain")
  %y = mpc.matmul %small, %w2 {mpc.layer = "body/second"} : (tensor<32x16xf32>, tensor<16x8xf32>) -> tensor<32x8xf32> loc("second")
  return %y : tensor<32x8xf32>
}
)";

class LossScaleTest : public TemporaryFolder {
protected:
  Result<Trainer> makeTrainer(const char *model, const std::string &policy,
                              const std::string &lossScale, double rate) {
    CompileOptions options;
    options.policy = policy;
    options.training.emplace();
    options.training->loss.kind = "mean_squared_error";
    options.training->optimizer.kind = "sgd";
    options.training->optimizer.numbers["momentum"] = 0.5;
    options.training->schedule.base = rate;
    options.training->lossScale = lossScale;
    return Trainer::create(*Device::cpu({.threads = 1}), writeModel(model),
                           options);
  }

  /// A batch whose eight targets are `times` the inputs' first features, or all
  /// the very first.
  std::vector<Buffer> batch(float magnitude, float times, bool same = false) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::vector<float> x(32 * 16), y(32 * 8);
    for (float &value : x)
      value = magnitude * normal(random);
    for (int64_t i = 0; i < 32; ++i)
      for (int64_t k = 0; k < 8; ++k)
        y[i * 8 + k] = times * x[i * 16 + (same ? 0 : k)];
    return {*Buffer::fromValues<float>({ElementType::F32, {32, 16}}, x),
            *Buffer::fromValues<float>({ElementType::F32, {32, 8}}, y)};
  }
};

/// The loss of one step.
double lossOfStep(Trainer &trainer, const std::vector<Buffer> &batch) {
  EXPECT_TRUE(trainer.step(batch).ok());
  Result<TrainingMetrics> metrics = trainer.takeMetrics();
  EXPECT_TRUE(metrics.ok()) << metrics.status().toString();
  return metrics.ok() ? metrics->loss : NAN;
}

/// The loss after 60 steps, as a share of the first one.
double remainingLoss(Trainer &trainer, const std::vector<Buffer> &batch) {
  double first = lossOfStep(trainer, batch), last = first;
  for (int i = 0; i < 60; ++i)
    last = lossOfStep(trainer, batch);
  return last / first;
}

TEST_F(LossScaleTest, GradientsBelowF16NeedAScale) {
  std::vector<Buffer> data = batch(0.5f, 0.001953125f * 0.5f);
  // The Hessian is about 2^-25 * 32 / 4 = 2^-22.
  const double rate = double(1 << 20);
  std::map<std::string, double> remaining;
  for (auto [name, policy, scale] :
       {std::tuple("float32", "float32", "none"),
        std::tuple("none", "mixed_float16", "none"),
        std::tuple("dynamic", "mixed_float16", "dynamic"),
        std::tuple("automatic", "mixed_float16", "")}) {
    Result<Trainer> trainer = makeTrainer(kTinyGradients, policy, scale, rate);
    ASSERT_TRUE(trainer.ok()) << trainer.status().toString();
    remaining[name] = remainingLoss(*trainer, data);
  }
  EXPECT_LT(remaining["float32"], 0.01);
  // Every gradient is 0: nothing was learnt at all.
  EXPECT_EQ(remaining["none"], 1.0);
  // With a scale, f16 follows f32 to within the rounding of its products.
  EXPECT_NEAR(remaining["dynamic"], remaining["float32"], 0.001);
  EXPECT_EQ(remaining["dynamic"], remaining["automatic"]);
}

/// The tensors of both states that differ, but the loss scale's own.
std::vector<std::string> changed(const std::vector<NamedTensor> &before,
                                 const std::vector<NamedTensor> &after) {
  std::vector<std::string> names;
  for (size_t i = 0; i < before.size(); ++i)
    if (!before[i].name.starts_with("loss_scale.") &&
        std::memcmp(before[i].data.data(), after[i].data.data(),
                    before[i].data.size()) != 0)
      names.push_back(before[i].name);
  return names;
}

TEST_F(LossScaleTest, AnOverflowIsNamedAndChangesNothing) {
  std::vector<Buffer> data = batch(64, 0.0625f, /*same=*/true);
  Result<Trainer> trainer =
      makeTrainer(kLargeGradients, "mixed_float16", "dynamic", 1e-3);
  ASSERT_TRUE(trainer.ok()) << trainer.status().toString();

  double first = NAN;
  int64_t skipped = 0;
  for (int i = 0; i < 40; ++i) {
    auto before = trainer->state();
    ASSERT_TRUE(before.ok());
    double loss = lossOfStep(*trainer, data);
    if (i == 0)
      first = loss;
    auto after = trainer->state();
    auto report = trainer->lossScale();
    ASSERT_TRUE(after.ok() && report.ok());
    std::vector<std::string> names = changed(*before, *after);
    if (report->skippedSteps == skipped) {
      EXPECT_FALSE(names.empty()) << "step " << i;
      continue;
    }
    // The record names the one gradient that overflowed, and its layer.
    skipped = report->skippedSteps;
    EXPECT_TRUE(names.empty()) << "step " << i << " changed " << names.front();
    EXPECT_TRUE(report->overflowed.starts_with("first.weight"))
        << report->overflowed;
    EXPECT_NE(report->overflowed.find("layer body/first"), std::string::npos)
        << report->overflowed;
    EXPECT_EQ(report->overflowedTensors, 1);
    EXPECT_EQ(report->scale, std::ldexp(1.0, 16 - int(skipped)));
  }
  EXPECT_GE(skipped, 1);
  EXPECT_LE(skipped, 8);
  EXPECT_LT(lossOfStep(*trainer, data), 0.5 * first);
}

TEST(LossScalePresetTest, SaysWhenTrainingIsToEnd) {
  std::string error;
  std::optional<LossScalePreset> preset =
      LossScalePreset::parse("deepspeed,min=2", error);
  ASSERT_TRUE(preset) << error;
  EXPECT_TRUE(preset->endsAt(2));
  EXPECT_FALSE(preset->endsAt(4));
  preset = LossScalePreset::parse("tf_keras", error);
  ASSERT_TRUE(preset) << error;
  EXPECT_FALSE(preset->endsAt(1));
}

} // namespace
