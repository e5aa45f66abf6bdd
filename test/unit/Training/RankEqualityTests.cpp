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
  /// Steps of 1 rank and of 4, sharded and not.
  void compare(const RankModel &model, const CompileOptions &choices,
               const std::string &what) {
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
      EXPECT_LT(distance(one[step], whole[step]), bound(GetParam(), 4));
      EXPECT_LT(distance(one[step], sharded[step]), bound(GetParam(), 4));
      // The norm that clips is the one sum whose order pieces change.
      if (!choices.training->clipNorm)
        EXPECT_TRUE(haveSameBits(whole[step], sharded[step]));
    }
  }

  void compareClipped(const RankModel &model) {
    CompileOptions choices = options(GetParam());
    choices.training->clipNorm = 0.1;
    choices.training->accumulate = 2;
    compare(model, choices, "clipped windows");
  }
};

TEST_P(RankEqualityTest, OfConvolutions) {
  compare(cnn(), options(GetParam()), "plain");
}
TEST_P(RankEqualityTest, OfConvolutionsClipped) { compareClipped(cnn()); }
TEST_P(RankEqualityTest, OfTransformerLayers) {
  compareClipped(transformer(2));
}
TEST_P(RankEqualityTest, OfBatchNorms) {
  // In 16 bits the last bits of shared statistics move roundings of
  // cotangents, whose sums behind a norm cancel: no bound of sums alone.
  if (GetParam() != std::string("float32"))
    GTEST_SKIP() << "has no bound that follows from the order of sums";
  compareClipped(resnet());
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
        for (int ranks : {2, 4, 8}) {
          SCOPED_TRACE(std::string(policy) + ", " + shard + ", " +
                       std::to_string(ranks) + " ranks");
          EXPECT_TRUE(haveSameBits(
              one.state, train(product(), ranks, cut, data, fit).state));
        }
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
