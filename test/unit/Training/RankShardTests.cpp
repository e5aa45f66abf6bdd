//===- RankShardTests.cpp - shards of odd parameters ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For any parameters and optimizers, ranks that hold shards compute the bits of
// ranks that hold everything.
//
//===----------------------------------------------------------------------===//

#include "RankTest.h"

using namespace mpc;

namespace {

class RankShardTest : public RankTest {
protected:
  /// Trains whole and sharded; `clips` enables a norm over shards.
  void compare(int ranks, CompileOptions choices, int64_t steps = 2) {
    choices.training->parameters = {"scale", "shift"};
    choices.inputValues["scale"] =
        *Buffer::fromValues<float>({ElementType::F32, {}}, std::vector{1.5f});
    choices.inputValues["shift"] =
        *Buffer::fromValues<float>({ElementType::F32, {1}}, std::vector{0.5f});
    // 3 ranks have equal parts, too.
    choices.batch = kBatch / ranks * ranks;
    Dataset data = noise(odds(), steps * choices.training->accumulate * kBatch);
    FitOptions fit;
    fit.steps = steps;
    RankOutcome whole = train(odds(), ranks, choices, data, fit);
    choices.training->distribution.shard = "optimizer";
    RankOutcome cut = train(odds(), ranks, choices, data, fit);
    if (choices.training->clipNorm)
      EXPECT_LT(distance(whole.state, cut.state), 2 * bound("float32", ranks));
    else
      EXPECT_TRUE(haveSameBits(whole.state, cut.state));
    EXPECT_EQ(whole.scales, cut.scales);
  }
};

struct Update {
  const char *kind, *form;
  std::map<std::string, double> numbers;
};

TEST_F(RankShardTest, EveryOptimizerUpdatesShards) {
  const Update updates[] = {
      {"sgd", "torch", {}},
      {"sgd", "keras", {{"momentum", 0.9}, {"nesterov", 1}}},
      {"adam", "torch", {{"amsgrad", 1}}},
      {"adamw", "torch", {}},
      {"rmsprop", "keras", {{"centered", 1}, {"momentum", 0.9}}},
      {"adagrad", "torch", {}}};
  for (const Update &update : updates) {
    SCOPED_TRACE(std::string(update.kind) + " of " + update.form);
    CompileOptions choices = options("float32");
    choices.training->optimizer.kind = update.kind;
    choices.training->optimizer.form = update.form;
    choices.training->optimizer.numbers = update.numbers;
    if (update.kind != std::string("adamw"))
      choices.training->optimizer.weightDecay = 0.01;
    compare(3, choices);
  }
}

TEST_F(RankShardTest, PoliciesWindowsAndClippingSupportShards) {
  struct Case {
    const char *policy;
    int64_t window;
    double clip;
    /// 8 are more than most parameters have numbers.
    int ranks;
  };
  for (const Case &one : {Case{"float32", 2, 0.1, 3},
                          {"mixed_bfloat16", 1, 0, 8},
                          {"mixed_bfloat16", 2, 0.1, 3},
                          {"mixed_float16", 1, 0.1, 3},
                          {"mixed_float16", 2, 0, 8}}) {
    SCOPED_TRACE(std::string(one.policy) + ", windows of " +
                 std::to_string(one.window) + ", " + std::to_string(one.ranks) +
                 " ranks");
    CompileOptions choices = options(one.policy);
    choices.training->optimizer = OptimizerOptions();
    choices.training->accumulate = one.window;
    if (one.clip > 0)
      choices.training->clipNorm = one.clip;
    compare(one.ranks, choices);
  }
}

TEST_F(RankShardTest, FrozenParametersHaveNoShards) {
  for (const char *policy : {"float32", "mixed_float16"}) {
    CompileOptions choices = options(policy);
    choices.training->freeze = {"twice/weight", "scale"};
    compare(3, choices);
    choices.training->freeze = {};
    choices.training->trainable = {"scale"};
    compare(3, choices);
  }
}

} // namespace
