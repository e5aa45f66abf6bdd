//===- CudaTrainingTests.cpp - whole training steps in CUDA kernels -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A model goes through all stages into a training step for a GPU, and the
// printed kernels run on the host with checks for bounds and races. The outputs
// and states of a step are checked against the oracle.
//
//===----------------------------------------------------------------------===//

#include "../TemporaryModel.h"
#include "StepJudge.h"
#include "TrainingModels.h"

#include <gtest/gtest.h>

#include <cstring>
#include <tuple>

using namespace mpc;

namespace {

/// A model with the loss that it is trained by.
struct Subject {
  const char *name, *text, *loss;
};

constexpr Subject kSubjects[] = {
    {"Mlp", kMlp, "softmax_cross_entropy"},
    {"Cnn", kCnn, "softmax_cross_entropy"},
    {"BiasedCnn", kBiasedCnn, "softmax_cross_entropy"},
    {"NormMlp", kNorm, "softmax_cross_entropy"},
    {"TransformerLayer", kTransformerLayer, "mean_squared_error"}};

CompileOptions stepOptions(const Subject &subject, const std::string &policy,
                           const std::string &optimizer) {
  CompileOptions options;
  options.policy = policy;
  TrainingOptions &training = options.training.emplace();
  training.loss.kind = subject.loss;
  training.optimizer.kind = optimizer;
  if (optimizer == "sgd")
    training.optimizer.numbers["momentum"] = 0.5;
  training.schedule.base = 0.01;
  // Large enough to matter, and no gradient overflows.
  if (policy == "mixed_float16")
    training.lossScale = "dynamic,init=1024";
  training.initialSeed = 7;
  return options;
}

class CudaTraining : public TemporaryFolder {};

/// Subject, policy, optimizer.
class WholeStep : public TemporaryFolder,
                  public testing::WithParamInterface<
                      std::tuple<Subject, const char *, const char *>> {};

} // namespace

// Three steps: the first initializes the states and 16-bit copies that the
// others read.
TEST_P(WholeStep, LeavesWhatTheOracleSays) {
  auto [subject, policy, optimizer] = GetParam();
  StepJudge judge(writeModel(subject.text),
                  stepOptions(subject, policy, optimizer));
  ASSERT_TRUE(judge.usable());
  judge.judge(3);
}

INSTANTIATE_TEST_SUITE_P(CudaTraining, WholeStep,
                         testing::Combine(testing::ValuesIn(kSubjects),
                                          testing::Values("float32",
                                                          "mixed_float16",
                                                          "mixed_bfloat16"),
                                          testing::Values("sgd", "adam")),
                         [](const auto &info) {
                           return std::string(std::get<0>(info.param).name) +
                                  "_" + std::get<1>(info.param) + "_" +
                                  std::get<2>(info.param);
                         });

// The library computes GEMMs whose epilogue it supports; the host computes
// them with its reference.
TEST_F(CudaTraining, StepsWithTheLibrarysProducts) {
  for (const Subject &subject : {kSubjects[0], kSubjects[4]})
    for (const char *policy : {"float32", "mixed_float16", "mixed_bfloat16"}) {
      SCOPED_TRACE(std::string(subject.name) + " " + policy);
      CompileOptions options = stepOptions(subject, policy, "adam");
      options.gemm = "library";
      StepJudge judge(writeModel(subject.text), options);
      ASSERT_TRUE(judge.usable());
      bool calls = false;
      for (const Launch &launch : judge.program().launches)
        calls |= launch.gemm.has_value();
      EXPECT_TRUE(calls);
      judge.judge(2);
    }
}

// The check and the norm of the gradients, the loss scale's state, the counter.
TEST_F(CudaTraining, ScaledAndClippedStep) {
  CompileOptions options = stepOptions(kSubjects[0], "float32", "sgd");
  options.training->lossScale = "dynamic";
  options.training->clipNorm = 0.5;
  StepJudge judge(writeModel(kMlp), options);
  ASSERT_TRUE(judge.usable());
  judge.judge(2);
}

// Gradients of f16 overflow under a large scale: the step changes nothing but
// the scale, which is halved, and the record of the overflow.
TEST_F(CudaTraining, AnOverflowSkipsTheStep) {
  for (const char *optimizer : {"sgd", "adam"}) {
    CompileOptions options =
        stepOptions(kSubjects[0], "mixed_float16", optimizer);
    options.training->lossScale = "dynamic,init=1099511627776";
    StepJudge judge(writeModel(kMlp), options);
    ASSERT_TRUE(judge.usable());
    std::vector<std::vector<char>> before;
    for (const Buffer &buffer : judge.state()) {
      const char *bytes = static_cast<const char *>(buffer.data());
      before.emplace_back(bytes, bytes + buffer.size());
    }
    judge.run();
    const auto &values = judge.program().arguments;
    for (size_t i = 0; i < values.size(); ++i) {
      const Buffer &buffer = judge.state()[i];
      if (values[i].field == "scale")
        EXPECT_EQ(buffer.as<float>()[0], 0x1p39f);
      else if (values[i].field == "skipped_steps")
        EXPECT_EQ(buffer.as<int64_t>()[0], 1);
      else if (values[i].role != "loss_scale_state" &&
               values[i].role != "input" && values[i].role != "label")
        EXPECT_EQ(std::memcmp(buffer.data(), before[i].data(), buffer.size()),
                  0)
            << values[i].name;
    }
  }
}

// The tolerance is none of bfloat16's size where float32 is promised, and a
// wrong number of the optimizer is seen.
TEST_F(CudaTraining, TheOracleFindsFaults) {
  std::string path = writeModel(kTransformerLayer);
  CompileOptions right = stepOptions(kSubjects[4], "mixed_bfloat16", "adam");
  CompileOptions wide = stepOptions(kSubjects[4], "float32", "adam");
  StepJudge rounds(path, right, &wide);
  ASSERT_TRUE(rounds.usable());
  EXPECT_FALSE(rounds.faultsOfAStep().empty());

  CompileOptions forgets = right;
  forgets.training->optimizer.numbers["beta1"] = 0.8;
  StepJudge wrong(path, right, &forgets);
  ASSERT_TRUE(wrong.usable());
  EXPECT_FALSE(wrong.faultsOfAStep().empty());
}
