//===- RankEqualityTests.cpp - several ranks train as one does ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RankTest.h"

using namespace mpc;

namespace {

constexpr const char *kPolicies[] = {"float32", "mixed_bfloat16",
                                     "mixed_float16"};

class RankEqualityTest : public RankTest,
                         public testing::WithParamInterface<const char *> {
protected:
  static bool isFloat32() { return GetParam() == std::string("float32"); }

  /// Steps of 1 rank and of 4, sharded and not. With `norms` 16-bit policies
  /// have the bound of expectWithinRoundings().
  void compare(const RankModel &model, const CompileOptions &choices,
               const std::string &what, bool norms = false) {
    constexpr int64_t kSteps = 3;
    Dataset data = noise(model, kSteps * choices.training->accumulate * kBatch);
    CompileOptions cut = choices;
    cut.training->distribution.shard = "optimizer";
    std::vector<std::vector<NamedTensor>> states, one, whole, sharded;
    one = stepFrom(model, 1, choices, data, kSteps, states);
    whole = stepFrom(model, 4, choices, data, kSteps, states);
    sharded = stepFrom(model, 4, cut, data, kSteps, states);
    ASSERT_EQ(whole.size(), one.size()) << what;
    ASSERT_EQ(sharded.size(), one.size()) << what;
    for (size_t step = 0; step < one.size(); ++step) {
      SCOPED_TRACE(what + ", step " + std::to_string(step));
      EXPECT_LT(distance(whole[step], sharded[step]), bound("float32", 4));
      if (!norms || isFloat32()) {
        EXPECT_LT(distance(one[step], whole[step]), bound(GetParam(), 4));
        EXPECT_LT(distance(one[step], sharded[step]), bound(GetParam(), 4));
      }
      // The norm that clips is the one sum whose order pieces change.
      if (!choices.training->clipNorm)
        EXPECT_TRUE(haveSameBits(whole[step], sharded[step]));
    }
    if (!norms || isFloat32())
      return;
    CompileOptions wide = choices;
    wide.policy = "float32";
    // So that both have the same state.
    if (GetParam() == std::string("mixed_float16"))
      wide.training->lossScale = "dynamic";
    auto exact = stepFrom(model, 1, wide, data, kSteps, states);
    SCOPED_TRACE(what);
    expectWithinRoundings(whole, one, exact);
    expectWithinRoundings(sharded, one, exact);
  }

  void compareClipped(const RankModel &model, bool norms = false) {
    CompileOptions choices = options(GetParam());
    choices.training->clipNorm = 0.1;
    choices.training->accumulate = 2;
    compare(model, choices, "clipped windows", norms);
  }
};

TEST_P(RankEqualityTest, OfConvolutions) { compareClipped(cnn()); }
TEST_P(RankEqualityTest, OfTransformerLayers) {
  compareClipped(transformer(2));
}
TEST_P(RankEqualityTest, OfBatchNorms) {
  compareClipped(resnet(), /*norms=*/true);
}
// Targets that do not count are other ones on each rank, and all on one.
TEST_P(RankEqualityTest, OfIgnoredTargets) {
  CompileOptions choices = options(GetParam());
  choices.training->loss.ignoreIndex = 1;
  compare(cnn(), choices, "ignored");
}

INSTANTIATE_TEST_SUITE_P(Policies, RankEqualityTest,
                         testing::ValuesIn(kPolicies),
                         [](const auto &info) { return info.param; });

/// Small integers, 4 to an example, as many numbers as labels.
Dataset integers(int64_t count) {
  std::mt19937 random(7);
  auto draw = [&](int64_t size) {
    std::vector<float> values;
    for (int64_t i = 0; i < size; ++i)
      values.push_back(float(int(random() % 3) - 1));
    return values;
  };
  return *Dataset::fromArrays(
      {{"x", *Buffer::fromValues<float>({ElementType::F32, {count, 6}},
                                        draw(count * 6))}},
      *Buffer::fromValues<float>({ElementType::F32, {count, 4}},
                                 draw(count * 4)));
}

class ExactRanksTest : public RankTest {};

TEST_F(ExactRanksTest, SumsWithoutRoundingsGiveTheBitsOfOneRank) {
  for (const char *policy : kPolicies) {
    CompileOptions choices = options(policy);
    choices.training->initialSeed.reset();
    choices.training->loss.kind = "mean_squared_error";
    choices.training->schedule.base = 0.5;
    choices.training->optimizer.numbers["momentum"] = 0.5;
    // Larger than the norm: the factor is 1, whatever its last bits.
    for (std::optional<double> clip : {std::optional<double>(), {1000.0}}) {
      choices.training->clipNorm = clip;
      FitOptions fit;
      // A second step has numbers of more bits than bfloat16's.
      fit.steps = policy == std::string("mixed_bfloat16") ? 1 : 2;
      Dataset data = integers(2 * kBatch);
      RankOutcome one = train(product(), 1, choices, data, fit);
      for (const char *shard : {"none", "optimizer"}) {
        CompileOptions cut = choices;
        cut.training->distribution.shard = shard;
        for (int ranks : clip ? std::vector{4} : std::vector{2, 4, 8}) {
          SCOPED_TRACE(std::string(policy) + ", " + shard + ", " +
                       std::to_string(ranks) + " ranks");
          EXPECT_TRUE(haveSameBits(
              one.state, train(product(), ranks, cut, data, fit).state));
        }
      }
    }
  }
}

constexpr int64_t kDecided = 16;

/// Examples of which all logits but one are far below, so that a softmax is 0
/// or 1; half of the labels count, on the first of 4 ranks none.
Dataset decided() {
  std::mt19937 random(3);
  std::vector<float> x;
  std::vector<int32_t> y;
  for (int64_t i = 0; i < 2 * kDecided; ++i) {
    for (int k = 0; k < 6; ++k)
      x.push_back(k == int(i % 6) ? 1024 : 0);
    bool counts = i % kDecided >= 4 && i % 3 != 0;
    y.push_back(counts ? int32_t(random() % 3) : 3);
  }
  return *Dataset::fromArrays(
      {{"x",
        *Buffer::fromValues<float>({ElementType::F32, {2 * kDecided, 6}}, x)}},
      *Buffer::fromValues<int32_t>({ElementType::I32, {2 * kDecided}}, y));
}

TEST_F(ExactRanksTest, IgnoredTargetsGiveTheBitsOfOneRank) {
  for (const char *policy : kPolicies) {
    CompileOptions choices = options(policy);
    choices.training->initialSeed.reset();
    choices.training->loss.ignoreIndex = 3;
    // Gradients of 1024 / 8 are floats of 16 bits with it.
    choices.training->lossScale = "static=16";
    choices.training->schedule.base = 0.5;
    choices.training->optimizer.numbers["momentum"] = 0.5;
    FitOptions fit;
    fit.steps = 1;
    fit.shuffle = false;
    RankOutcome one = train(decider(), 1, choices, decided(), fit);
    EXPECT_TRUE(std::isfinite(one.report.train.loss));
    for (const char *shard : {"none", "optimizer"}) {
      CompileOptions cut = choices;
      cut.training->distribution.shard = shard;
      for (int ranks : {2, 4}) {
        SCOPED_TRACE(std::string(policy) + ", " + shard + ", " +
                     std::to_string(ranks) + " ranks");
        RankOutcome several = train(decider(), ranks, cut, decided(), fit);
        EXPECT_TRUE(haveSameBits(one.state, several.state));
        EXPECT_NEAR(one.report.train.loss, several.report.train.loss,
                    1e-5 * std::abs(one.report.train.loss));
      }
    }
  }
}

TEST_F(ExactRanksTest, OneRankOfAGroupHasTheProgramOfATrainerAlone) {
  for (const char *policy : kPolicies) {
    CompileOptions choices = options(policy);
    choices.training->distribution.shard = "optimizer";
    choices.training->clipNorm = 1;
    std::string path = pathOf(resnet(), kBatch);
    Device device = *Device::cpu({.threads = 1});
    CompileOptions plain = options(policy);
    plain.training->clipNorm = 1;
    plain.training->distribution.syncBatchNorm = false;
    Result<Trainer> alone = Trainer::create(device, path, plain),
                    grouped = Trainer::create(device, path, choices, 0,
                                              connectThreads(1).front());
    ASSERT_TRUE(alone.ok()) << alone.status().toString();
    ASSERT_TRUE(grouped.ok()) << grouped.status().toString();
    const Program &a = alone->program(), &b = grouped->program();
    ASSERT_EQ(a.arguments.size(), b.arguments.size());
    for (size_t i = 0; i < a.arguments.size(); ++i) {
      EXPECT_EQ(a.arguments[i].name, b.arguments[i].name);
      EXPECT_EQ(a.arguments[i].type, b.arguments[i].type);
      EXPECT_FALSE(b.arguments[i].shardOf);
    }
    EXPECT_EQ(a.arenaBytes, b.arenaBytes);
    ASSERT_EQ(a.launches.size(), b.launches.size());
    for (size_t i = 0; i < a.launches.size(); ++i) {
      EXPECT_EQ(a.launches[i].kernel, b.launches[i].kernel);
      EXPECT_FALSE(b.launches[i].collective);
      ASSERT_EQ(a.launches[i].buffers.size(), b.launches[i].buffers.size());
      for (size_t k = 0; k < a.launches[i].buffers.size(); ++k)
        EXPECT_EQ(a.launches[i].buffers[k].offset,
                  b.launches[i].buffers[k].offset);
    }
  }
}

} // namespace
