//===- TrainerTests.cpp - tests of training on the CPU --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../TemporaryModel.h"

#include "mpc/Training/Trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string_view>

using namespace mpc;

namespace {

constexpr int64_t kBatch = 16, kFeatures = 12, kClasses = 3;

/// Two layers with random weights from --init.
constexpr const char *kModel = R"(
func.func @main(%x: tensor<16x12xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<16x3xf32> {mpc.role = #mpc.role<output>, mpc.name = "logits"}) {
  %w1 = mpc.constant dense<0.0> : tensor<12x24xf32> loc("w1")
  %b1 = mpc.constant dense<0.0> : tensor<24xf32> loc("b1")
  %w2 = mpc.constant dense<0.0> : tensor<24x3xf32> loc("w2")
  %b2 = mpc.constant dense<0.0> : tensor<3xf32> loc("b2")
  %0 = mpc.matmul %x, %w1 {mpc.layer = "net/fc1"} : (tensor<16x12xf32>, tensor<12x24xf32>) -> tensor<16x24xf32> loc("fc1")
  %1 = mpc.add %0, %b1 {mpc.layer = "net/fc1"} : (tensor<16x24xf32>, tensor<24xf32>) -> tensor<16x24xf32> loc("fc1_bias")
  %2 = mpc.relu %1 : tensor<16x24xf32> loc("act")
  %3 = mpc.matmul %2, %w2 {mpc.layer = "net/fc2"} : (tensor<16x24xf32>, tensor<24x3xf32>) -> tensor<16x3xf32> loc("fc2")
  %4 = mpc.add %3, %b2 {mpc.layer = "net/fc2"} : (tensor<16x3xf32>, tensor<3xf32>) -> tensor<16x3xf32> loc("fc2_bias")
  return %4 : tensor<16x3xf32>
}
)";

/// Points around one centre per class.
Dataset points(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x;
  std::vector<int32_t> y;
  for (int64_t i = 0; i < count; ++i) {
    auto label = int32_t(random() % kClasses);
    y.push_back(label);
    for (int64_t k = 0; k < kFeatures; ++k)
      x.push_back((k % kClasses == label ? 1.0f : 0.0f) + normal(random));
  }
  return *Dataset::fromArrays(
      {{"x",
        *Buffer::fromValues<float>({ElementType::F32, {count, kFeatures}}, x)}},
      *Buffer::fromValues<int32_t>({ElementType::I32, {count}}, y));
}

class TrainerTest : public TemporaryFolder {
protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    model = writeModel(kModel);
  }

  Result<Trainer> tryTrainer(const CompileOptions &options) {
    return Trainer::create(*Device::cpu({.threads = 2}), model, options);
  }
  Trainer makeTrainer(const CompileOptions &options) {
    Result<Trainer> trainer = tryTrainer(options);
    if (!trainer.ok()) {
      std::string why = trainer.status().toString();
      for (const std::string &note : trainer.status().notes())
        why += "\n  " + note;
      throw std::runtime_error(why);
    }
    return std::move(*trainer);
  }
  static CompileOptions options(const std::string &policy) {
    CompileOptions options;
    options.policy = policy;
    options.training.emplace();
    options.training->initialSeed = 1;
    options.training->schedule.base = 0.01;
    return options;
  }

  std::string model;
};

bool sameBits(const std::vector<NamedTensor> &a,
              const std::vector<NamedTensor> &b) {
  if (a.size() != b.size())
    return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].name != b[i].name ||
        !std::ranges::equal(a[i].data.as<uint8_t>(), b[i].data.as<uint8_t>()))
      return false;
  return true;
}

FitReport fit(Trainer &trainer, const Dataset &data,
              const FitOptions &options) {
  Result<FitReport> report = trainer.fit(data, options);
  EXPECT_TRUE(report.ok()) << report.status().toString();
  return report.ok() ? *report : FitReport();
}

class TrainerPolicyTest : public TrainerTest,
                          public testing::WithParamInterface<const char *> {};

} // namespace

INSTANTIATE_TEST_SUITE_P(Policies, TrainerPolicyTest,
                         testing::Values("float32", "mixed_float16",
                                         "mixed_bfloat16"));

TEST_P(TrainerPolicyTest, LearnsAndEvaluates) {
  Trainer trainer = makeTrainer(options(GetParam()));
  Dataset data = points(320, 1), test = points(64, 2);
  TrainingMetrics before = *trainer.evaluate(test, {});
  FitOptions choices;
  choices.epochs = 8;
  choices.test = &test;
  FitReport report = fit(trainer, data, choices);
  EXPECT_EQ(report.steps, 160);
  ASSERT_EQ(report.epochs.size(), 8u);
  // Guessing costs log 3; the points are far easier than that.
  EXPECT_LT(report.epochs.back().test->loss, 0.5 * before.loss);
  EXPECT_GT(*report.epochs.back().test->accuracy, 0.8);
  EXPECT_LT(report.train.loss, report.epochs.front().train.loss);
}

TEST_P(TrainerPolicyTest, ResumesToTheBit) {
  Dataset data = points(100, 1), test = points(32, 2);
  FitOptions choices;
  choices.seed = 7;
  choices.test = &test;
  choices.epochs = 3;
  choices.logEvery = 4;
  Trainer straight = makeTrainer(options(GetParam()));
  FitReport whole = fit(straight, data, choices);

  // A bit more than one epoch, so that the second run starts within an epoch.
  choices.checkpoints = (folder / "run").string();
  choices.steps = 9;
  {
    Trainer first = makeTrainer(options(GetParam()));
    EXPECT_EQ(fit(first, data, choices).steps, 9);
  }
  choices.steps.reset();
  choices.resume = true;
  Trainer second = makeTrainer(options(GetParam()));
  FitReport resumed = fit(second, data, choices);
  EXPECT_TRUE(sameBits(*straight.state(), *second.state()));
  EXPECT_EQ(resumed.steps, whole.steps);
  ASSERT_EQ(resumed.epochs.size(), whole.epochs.size());
  for (size_t i = 0; i < whole.epochs.size(); ++i) {
    EXPECT_EQ(resumed.epochs[i].train.loss, whole.epochs[i].train.loss) << i;
    EXPECT_EQ(resumed.epochs[i].test->loss, whole.epochs[i].test->loss) << i;
  }
}

TEST_P(TrainerPolicyTest, HalvesAreTheWholeStep) {
  Trainer whole = makeTrainer(options(GetParam())),
          halves = makeTrainer(options(GetParam()));
  Dataset data = points(64, 3);
  Batcher batcher = *whole.batcher(data, {});
  for (int64_t begin = 0; begin < 64; begin += kBatch) {
    std::vector<int64_t> rows;
    for (int64_t i = begin; i < begin + kBatch; ++i)
      rows.push_back(i);
    std::vector<Buffer> batch = *batcher.gather(rows);
    ASSERT_TRUE(whole.step(batch).ok());
    Status status = halves.forwardBackward(batch);
    ASSERT_TRUE(status.ok()) << status.toString();
    Result<std::vector<NamedTensor>> gradients = halves.gradients();
    ASSERT_TRUE(gradients.ok());
    EXPECT_EQ(gradients->size(), 4u);
    status = halves.apply();
    ASSERT_TRUE(status.ok()) << status.toString();
  }
  EXPECT_TRUE(sameBits(*whole.weights(), *halves.weights()));
  EXPECT_EQ(whole.takeMetrics()->loss, halves.takeMetrics()->loss);
}

TEST_F(TrainerTest, TrainsFromMemory) {
  std::string_view text(kModel);
  ModelSource source = ModelSource::fromBytes(
      "memory.mlir", SourceBytes::copyOf(std::as_bytes(std::span(text))));
  Dataset data = points(64, 3);
  FitOptions choices;
  Trainer fromFile = makeTrainer(options("mixed_float16"));
  Result<Trainer> fromBytes = Trainer::create(*Device::cpu({.threads = 2}),
                                              source, options("mixed_float16"));
  ASSERT_TRUE(fromBytes.ok()) << fromBytes.status().toString();
  fit(fromFile, data, choices);
  fit(*fromBytes, data, choices);
  EXPECT_TRUE(sameBits(*fromFile.state(), *fromBytes->state()));
}

/// The first batch of `data`.
static std::vector<Buffer> firstBatch(Trainer &trainer, const Dataset &data) {
  std::vector<int64_t> rows(kBatch);
  std::iota(rows.begin(), rows.end(), 0);
  return *trainer.batcher(data, {})->gather(rows);
}

TEST_F(TrainerTest, UnscaledGradientsAreThoseOfTheLoss) {
  Dataset data = points(kBatch, 4);
  Trainer wide = makeTrainer(options("float32"));
  ASSERT_TRUE(wide.forwardBackward(firstBatch(wide, data)).ok());
  std::vector<NamedTensor> truth = *wide.gradients();
  for (const char *preset : {"dynamic", "static=1024"}) {
    CompileOptions choices = options("mixed_float16");
    choices.training->lossScale = preset;
    Trainer trainer = makeTrainer(choices);
    ASSERT_TRUE(trainer.forwardBackward(firstBatch(trainer, data)).ok());
    double scale = trainer.lossScale()->scale;
    EXPECT_EQ(scale, preset == std::string("dynamic") ? 65536 : 1024);
    std::vector<NamedTensor> gradients =
        *trainer.gradients(GradientForm::Unscaled);
    ASSERT_EQ(gradients.size(), truth.size());
    for (size_t i = 0; i < truth.size(); ++i) {
      ASSERT_EQ(gradients[i].name, truth[i].name);
      std::span<const float> got = gradients[i].data.as<float>(),
                             wanted = truth[i].data.as<float>();
      double largest = 0;
      for (float value : wanted)
        largest = std::fmax(largest, std::fabs(value));
      for (size_t k = 0; k < wanted.size(); ++k)
        EXPECT_NEAR(got[k], wanted[k], 0x1p-8 * largest) << truth[i].name;
    }
  }
}

TEST_P(TrainerPolicyTest, GradientsThatAreSetAreApplied) {
  // In either form, the same gradients give the same step.
  Dataset data = points(kBatch, 4);
  Trainer plain = makeTrainer(options(GetParam()));
  ASSERT_TRUE(plain.step(firstBatch(plain, data)).ok());
  for (GradientForm form : {GradientForm::Scaled, GradientForm::Unscaled}) {
    Trainer trainer = makeTrainer(options(GetParam()));
    ASSERT_TRUE(trainer.forwardBackward(firstBatch(trainer, data)).ok());
    Status status = trainer.setGradients(*trainer.gradients(form), form);
    ASSERT_TRUE(status.ok()) << status.toString();
    ASSERT_TRUE(trainer.apply().ok());
    EXPECT_TRUE(sameBits(*plain.state(), *trainer.state()));
  }
  // Zeros for one parameter hold it, and it alone.
  CompileOptions choices = options(GetParam());
  choices.training->optimizer.kind = "sgd";
  Trainer trainer = makeTrainer(choices);
  std::vector<NamedTensor> before = *trainer.weights();
  ASSERT_TRUE(trainer.forwardBackward(firstBatch(trainer, data)).ok());
  std::vector<NamedTensor> gradients =
      *trainer.gradients(GradientForm::Unscaled);
  std::erase_if(gradients, [](const NamedTensor &gradient) {
    return gradient.name != "b1.gradient";
  });
  ASSERT_EQ(gradients.size(), 1u);
  std::ranges::fill(gradients[0].data.as<float>(), 0.0f);
  ASSERT_TRUE(trainer.setGradients(gradients, GradientForm::Unscaled).ok());
  ASSERT_TRUE(trainer.apply().ok());
  std::vector<NamedTensor> after = *trainer.weights();
  for (size_t i = 0; i < after.size(); ++i)
    EXPECT_EQ(std::ranges::equal(after[i].data.as<float>(),
                                 before[i].data.as<float>()),
              after[i].name == "b1")
        << after[i].name;
}

TEST_F(TrainerTest, AnInfiniteGradientThatIsSetSkipsTheStep) {
  Trainer trainer = makeTrainer(options("mixed_float16"));
  std::vector<NamedTensor> before = *trainer.weights();
  ASSERT_TRUE(
      trainer.forwardBackward(firstBatch(trainer, points(kBatch, 4))).ok());
  std::vector<NamedTensor> gradients =
      *trainer.gradients(GradientForm::Unscaled);
  gradients[1].data.as<float>()[0] = std::numeric_limits<float>::infinity();
  ASSERT_TRUE(trainer.setGradients(gradients, GradientForm::Unscaled).ok());
  ASSERT_TRUE(trainer.apply().ok());
  EXPECT_TRUE(sameBits(before, *trainer.weights()));
  EXPECT_EQ(trainer.lossScale()->skippedSteps, 1);
  EXPECT_EQ(trainer.lossScale()->scale, 32768);
}

TEST_F(TrainerTest, RefusesGradientsOutOfPlace) {
  Trainer trainer = makeTrainer(options("float32"));
  auto messageOf = [](const Status &status) { return status.toString(); };
  EXPECT_NE(messageOf(trainer.gradients().status()).find("forwardBackward()"),
            std::string::npos);
  EXPECT_FALSE(trainer.setGradients({}).ok());
  EXPECT_NE(messageOf(trainer.apply()).find("forwardBackward()"),
            std::string::npos);
  ASSERT_TRUE(
      trainer.forwardBackward(firstBatch(trainer, points(kBatch, 4))).ok());
  std::vector<NamedTensor> gradients = *trainer.gradients();
  gradients[0].name = "nothing.gradient";
  EXPECT_NE(messageOf(trainer.setGradients(gradients)).find("'nothing."),
            std::string::npos);
  gradients = *trainer.gradients();
  gradients[0].data = *Buffer::allocate({ElementType::F32, {7}});
  EXPECT_NE(messageOf(trainer.setGradients(gradients)).find("f32[7]"),
            std::string::npos);
  ASSERT_TRUE(trainer.apply().ok());
  EXPECT_FALSE(trainer.gradients().ok());
}

TEST_F(TrainerTest, LossScaleStateHasTheNamesOfOtherSystems) {
  CompileOptions choices = options("mixed_float16");
  choices.training->lossScale = "torch,interval=2";
  Trainer trainer = makeTrainer(choices);
  auto stateOf = [&](LossScaleNames names) {
    Result<std::vector<NamedNumber>> state = trainer.lossScaleState(names);
    std::map<std::string, double> numbers;
    for (const NamedNumber &number : *state)
      numbers[number.name] = number.value;
    return numbers;
  };
  using Numbers = std::map<std::string, double>;
  EXPECT_EQ(stateOf(LossScaleNames::Torch), (Numbers{{"scale", 65536},
                                                     {"growth_factor", 2},
                                                     {"backoff_factor", 0.5},
                                                     {"growth_interval", 2},
                                                     {"_growth_tracker", 0}}));
  // A state of torch is imported; the next good step grows the scale.
  std::vector<NamedNumber> saved = {{"scale", 512},
                                    {"growth_factor", 2},
                                    {"backoff_factor", 0.5},
                                    {"growth_interval", 2},
                                    {"_growth_tracker", 1}};
  ASSERT_TRUE(trainer.setLossScaleState(saved).ok());
  EXPECT_EQ(stateOf(LossScaleNames::Keras3),
            (Numbers{{"step_counter", 1}, {"dynamic_scale", 512}}));
  ASSERT_TRUE(trainer.step(firstBatch(trainer, points(kBatch, 4))).ok());
  EXPECT_EQ(stateOf(LossScaleNames::TfKeras),
            (Numbers{{"current_loss_scale", 1024}, {"good_steps", 0}}));
  // Nothing is set where one number cannot be.
  for (NamedNumber wrong : {NamedNumber{"growth_factor", 3},
                            {"speed", 1},
                            {"_growth_tracker", 2},
                            {"dynamic_scale", -1}}) {
    NamedNumber numbers[] = {{"scale", 2}, wrong};
    Status status = trainer.setLossScaleState(numbers);
    EXPECT_FALSE(status.ok()) << wrong.name;
    EXPECT_NE(status.toString().find("'" + wrong.name + "'"), std::string::npos)
        << status.toString();
  }
  EXPECT_EQ(trainer.lossScale()->scale, 1024);
  // Without a dynamic scale there is no state.
  choices.training->lossScale = "static=8";
  Trainer fixed = makeTrainer(choices);
  EXPECT_TRUE(fixed.lossScaleState(LossScaleNames::Torch)->empty());
  EXPECT_FALSE(fixed.setLossScaleState(saved).ok());
}

TEST_F(TrainerTest, LayersTellComputeGradientAndVariableTypes) {
  Trainer trainer = makeTrainer(options("mixed_float16"));
  for (auto [path, weight] : {std::pair("net/fc1", "w1"), {"net/fc2", "w2"}}) {
    Result<LayerTypes> layer = trainer.layer(path);
    ASSERT_TRUE(layer.ok()) << layer.status().toString();
    EXPECT_EQ(layer->computeType(), "f16");
    ASSERT_FALSE(layer->gradient.empty());
    EXPECT_EQ(layer->gradient.front().type, "f16");
    ASSERT_EQ(layer->variables.size(), 2u);
    EXPECT_EQ(layer->variables[0].name, weight);
    EXPECT_EQ(layer->variables[0].role, "parameter");
    EXPECT_EQ(layer->variables[0].type, "f32");
    EXPECT_EQ(layer->variables[0].stored,
              (std::vector<std::string>{"f32", "f16"}));
  }
  EXPECT_EQ(trainer.layer("net")->variables.size(), 4u);
  EXPECT_EQ(trainer.layer("fc3").status().code(), StatusCode::NotFound);
}

TEST_F(TrainerTest, GradientsAreOfTheLoss) {
  Trainer trainer = makeTrainer(options("float32"));
  Dataset data = points(kBatch, 4);
  std::vector<int64_t> rows(kBatch);
  for (int64_t i = 0; i < kBatch; ++i)
    rows[size_t(i)] = i;
  std::vector<Buffer> batch = *trainer.batcher(data, {})->gather(rows);
  ASSERT_TRUE(trainer.forwardBackward(batch).ok());
  std::vector<NamedTensor> gradients = *trainer.gradients();
  // The gradient of a softmax's bias is the mean of what the probabilities
  // exceed the labels by: it sums to zero.
  auto bias = std::find_if(
      gradients.begin(), gradients.end(),
      [](const NamedTensor &t) { return t.name == "b2.gradient"; });
  ASSERT_NE(bias, gradients.end());
  double sum = 0, size = 0;
  for (float value : bias->data.as<float>()) {
    sum += value;
    size += std::fabs(value);
  }
  EXPECT_GT(size, 0);
  EXPECT_NEAR(sum, 0, kClasses * std::ldexp(size, -23));
}

TEST_F(TrainerTest, AccumulationAveragesBatches) {
  CompileOptions choices = options("float32");
  choices.training->accumulate = 2;
  choices.training->optimizer.kind = "sgd";
  Trainer trainer = makeTrainer(choices);
  Dataset data = points(64, 5);
  std::vector<NamedTensor> before = *trainer.weights();
  Batcher batcher = *trainer.batcher(data, {});
  auto batchAt = [&](int64_t begin) {
    std::vector<int64_t> rows;
    for (int64_t i = begin; i < begin + kBatch; ++i)
      rows.push_back(i);
    return *batcher.gather(rows);
  };
  ASSERT_TRUE(trainer.step(batchAt(0)).ok());
  EXPECT_TRUE(sameBits(before, *trainer.weights())) << "updated too early";
  ASSERT_TRUE(trainer.step(batchAt(kBatch)).ok());
  EXPECT_FALSE(sameBits(before, *trainer.weights()));
  // A fit uses two batches per update, four batches in total.
  FitOptions fitting;
  EXPECT_EQ(fit(trainer, data, fitting).steps, 2);
}

TEST_F(TrainerTest, StopsWhenRequested) {
  Dataset data = points(160, 6);
  FitOptions choices;
  choices.epochs = 100;
  choices.checkpoints = (folder / "run").string();
  int asked = 0;
  choices.shouldStop = [&] { return ++asked == 4; };
  Trainer trainer = makeTrainer(options("float32"));
  FitReport report = fit(trainer, data, choices);
  EXPECT_EQ(report.steps, 4);
  EXPECT_EQ(loadCheckpoint(choices.checkpoints)->checkpoint.step, 4);

  // A second run must not write over what the first left.
  Trainer other = makeTrainer(options("float32"));
  Result<FitReport> again = other.fit(data, choices);
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.status().text().find("earlier run"), std::string::npos);
  // Nor continue it in another order.
  choices.resume = true;
  choices.seed = 1;
  again = other.fit(data, choices);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.status().text(),
            "belongs to a run with seed 0, but this one has 1");
}

TEST_F(TrainerTest, PatienceEndsTheTraining) {
  Dataset data = points(32, 6), test = points(32, 7);
  CompileOptions still = options("float32");
  still.training->schedule.base = 0;
  Trainer trainer = makeTrainer(still);
  FitOptions choices;
  choices.epochs = 50;
  choices.test = &test;
  choices.patience = 2;
  FitReport report = fit(trainer, data, choices);
  EXPECT_TRUE(report.stoppedEarly);
  EXPECT_EQ(report.epochs.size(), 3u);
}

TEST_F(TrainerTest, SaysThatItDiverged) {
  Dataset data = points(160, 6);
  CompileOptions wild = options("float32");
  wild.training->optimizer.kind = "sgd";
  wild.training->schedule.base = 1e30;
  Trainer trainer = makeTrainer(wild);
  FitOptions choices;
  choices.epochs = 5;
  choices.logEvery = 5;
  choices.checkpoints = (folder / "run").string();
  FitReport report = fit(trainer, data, choices);
  EXPECT_TRUE(report.diverged);
  EXPECT_LT(report.steps, 50);
}

TEST_F(TrainerTest, KeepsNothingOfARunThatEndsInNaN) {
  Dataset data = points(160, 6);
  CompileOptions wild = options("float32");
  wild.training->optimizer.kind = "sgd";
  wild.training->schedule.base = 1e30;
  Trainer trainer = makeTrainer(wild);
  FitOptions choices;
  // The first loss is from before any update; the only interval has it.
  choices.epochs = 1;
  choices.logEvery = 1000;
  choices.checkpoints = (folder / "short").string();
  std::string note;
  choices.onNote = [&](const std::string &text) { note = text; };
  FitReport report = fit(trainer, data, choices);
  EXPECT_TRUE(report.diverged);
  EXPECT_EQ(report.checkpoint, "");
  EXPECT_NE(note.find("is not finite after step"), std::string::npos) << note;
}

TEST_F(TrainerTest, RefusesAFolderThatCannotBeMade) {
  Dataset data = points(32, 6);
  std::ofstream(folder / "file") << "no folder";
  Trainer trainer = makeTrainer(options("float32"));
  FitOptions choices;
  choices.checkpoints = (folder / "file").string();
  Result<FitReport> report = trainer.fit(data, choices);
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.status().text().find("cannot be created"),
            std::string::npos);
}

TEST_F(TrainerTest, RefusesNumbersThatAreNone) {
  CompileOptions wrong = options("float32");
  wrong.training->schedule.base = std::nan("");
  Result<Trainer> trainer = tryTrainer(wrong);
  ASSERT_FALSE(trainer.ok());
  EXPECT_EQ(trainer.status().text(),
            "has the learning rate nan; give one that is finite and not "
            "negative");
}

TEST_F(TrainerTest, RefusesStateOfAnotherTraining) {
  Trainer adam = makeTrainer(options("float32"));
  CompileOptions other = options("float32");
  other.training->optimizer.kind = "sgd";
  Trainer sgd = makeTrainer(other);
  std::vector<NamedTensor> before = *adam.state();
  Status status = adam.setState(*sgd.state());
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.text().find("is missing"), std::string::npos);
  status = sgd.setState(*adam.state());
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.text().find("is not a state"), std::string::npos);
  EXPECT_TRUE(sameBits(before, *adam.state()));
}

TEST_F(TrainerTest, RefusesBatchesOfAnotherType) {
  Trainer trainer = makeTrainer(options("float32"));
  std::vector<Buffer> none;
  EXPECT_FALSE(trainer.step(none).ok());
  std::vector<Buffer> wrong = {
      *Buffer::allocate({ElementType::F32, {kBatch, kFeatures + 1}}),
      *Buffer::allocate({ElementType::I32, {kBatch}})};
  Status status = trainer.step(wrong);
  EXPECT_EQ(status.toString(), "batch, 'x': is f32[16,13], but the model takes "
                               "f32[16,12]");
  CompileOptions noTraining;
  EXPECT_FALSE(tryTrainer(noTraining).ok());
}

TEST_F(TrainerTest, RefusesLabelsThatAreNoClasses) {
  CompileOptions compile = options("float32");
  std::vector<Buffer> batch = {
      *Buffer::allocate({ElementType::F32, {kBatch, kFeatures}}),
      *Buffer::allocate({ElementType::I32, {kBatch}})};
  batch[1].as<int32_t>()[3] = -100;
  Trainer trainer = makeTrainer(compile);
  EXPECT_EQ(trainer.step(batch).toString(),
            "labels: example 3 has the label -100, but the model has " +
                std::to_string(kClasses) + " classes, numbered from 0");
  batch[1].as<int32_t>()[3] = 0;
  EXPECT_TRUE(trainer.step(batch).ok());
  batch[1].as<int32_t>()[3] = -100;
  compile.training->loss.ignoreIndex = -100;
  EXPECT_TRUE(makeTrainer(compile).step(batch).ok());
}

TEST_P(TrainerPolicyTest, ABatchWithoutLabelsChangesNothing) {
  CompileOptions compile = options(GetParam());
  compile.training->optimizer.kind = "sgd";
  compile.training->loss.ignoreIndex = -1;
  compile.training->loss.labelSmoothing = 0.1;
  Trainer trainer = makeTrainer(compile);
  std::vector<Buffer> batch = {
      *Buffer::allocate({ElementType::F32, {kBatch, kFeatures}}),
      *Buffer::allocate({ElementType::I32, {kBatch}})};
  std::ranges::fill(batch[0].as<float>(), 0.5f);
  std::ranges::fill(batch[1].as<int32_t>(), 1);
  ASSERT_TRUE(trainer.step(batch).ok());
  EXPECT_EQ(trainer.takeMetrics()->batches, 1);
  std::vector<NamedTensor> before = *trainer.weights();
  std::ranges::fill(batch[1].as<int32_t>(), -1);
  ASSERT_TRUE(trainer.step(batch).ok());
  EXPECT_TRUE(sameBits(before, *trainer.weights()));
  // PyTorch's mean over no labels is NaN, which does not affect the others.
  EXPECT_EQ(trainer.takeMetrics()->batches, 0);
}

TEST_F(TrainerTest, NewsDoNotDecideWhatIsTrained) {
  Dataset data = points(160, 6);
  // The first batch has no finite loss; its step is skipped.
  Buffer x = data.inputs().front().data;
  x.as<float>()[0] = std::numeric_limits<float>::infinity();
  std::vector<NamedTensor> weights;
  for (int64_t interval : {1, 1000}) {
    Trainer trainer = makeTrainer(options("mixed_float16"));
    FitOptions choices;
    choices.shuffle = false;
    choices.logEvery = interval;
    FitReport report = fit(trainer, data, choices);
    EXPECT_FALSE(report.diverged);
    EXPECT_EQ(report.steps, 10);
    EXPECT_GE(report.lossScale.skippedSteps, 1);
    if (weights.empty())
      weights = *trainer.weights();
    else
      EXPECT_TRUE(sameBits(weights, *trainer.weights()));
  }
}

TEST_F(TrainerTest, ReportsWhatIsTrained) {
  CompileOptions compile = options("float32");
  compile.training->freeze = {"w1", "b.*"};
  for (bool cached : {false, true}) {
    Trainer trainer = makeTrainer(compile);
    std::string told;
    for (const WeightChoice &choice : trainer.weightChoices())
      told += choice.name + (choice.use == WeightChoice::Use::Trained
                                 ? " is trained; "
                                 : " stays; ");
    EXPECT_EQ(told, "w1 stays; b1 stays; w2 is trained; b2 stays; ") << cached;
  }
  EXPECT_EQ(makeTrainer(compile).weightChoices()[1].reason,
            "'b.*' of freeze matches it");
}
