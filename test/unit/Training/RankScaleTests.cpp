//===- RankScaleTests.cpp - loss scale of several ranks -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RankTest.h"

using namespace mpc;

namespace {

class RankScaleTest : public RankTest {
protected:
  /// The loss scale's report after each step over the batches of `data`.
  std::vector<LossScaleReport> reports(int ranks, const CompileOptions &options,
                                       const Dataset &data) {
    std::vector<std::vector<LossScaleReport>> all(static_cast<size_t>(ranks));
    onRanks(cnn(), ranks, options, [&](int rank, Result<Trainer> trainer) {
      ASSERT_TRUE(trainer.ok()) << trainer.status().toString();
      Batcher batcher = *trainer->batcher(data, {});
      for (int64_t step = 0; step < data.size() / kBatch; ++step) {
        Status status =
            trainer->step(*batcher.gather(rowsOf(step, rank, ranks)));
        ASSERT_TRUE(status.ok()) << status.toString();
        all[size_t(rank)].push_back(*trainer->lossScale());
      }
    });
    for (const auto &own : all)
      for (size_t step = 0; step < own.size(); ++step) {
        EXPECT_EQ(own[step].scale, all[0][step].scale);
        EXPECT_EQ(own[step].skippedSteps, all[0][step].skippedSteps);
        EXPECT_EQ(own[step].overflowed, all[0][step].overflowed);
        EXPECT_EQ(own[step].overflowedTensors, all[0][step].overflowedTensors);
      }
    return all[0];
  }

  static void expectSameHistory(const std::vector<LossScaleReport> &one,
                                const std::vector<LossScaleReport> &several) {
    ASSERT_EQ(one.size(), several.size());
    for (size_t step = 0; step < one.size(); ++step) {
      EXPECT_EQ(one[step].scale, several[step].scale) << "step " << step;
      EXPECT_EQ(one[step].skippedSteps, several[step].skippedSteps)
          << "step " << step;
    }
  }
};

TEST_F(RankScaleTest, InfinitiesOfOneRankSkipTheStepsThatOneDeviceSkips) {
  Dataset clean = noise(cnn(), 6 * kBatch);
  std::vector<float> x(clean.inputs()[0].data.as<float>().begin(),
                       clean.inputs()[0].data.as<float>().end());
  // Examples 9 of batch 1 and 0 of batch 3: of 4 ranks the third and the first.
  for (int64_t example : {kBatch + 9, 3 * kBatch})
    x[size_t(example * 128 + 5)] = 1e30f;
  Dataset data = *Dataset::fromArrays(
      {{"x", *Buffer::fromValues<float>(clean.inputs()[0].data.type(), x)}},
      clean.labels());
  for (const char *shard : {"none", "optimizer"}) {
    CompileOptions choices = options("mixed_float16");
    choices.training->distribution.shard = shard;
    choices.training->clipNorm = 0.5;
    std::vector<LossScaleReport> one = reports(1, choices, data),
                                 four = reports(4, choices, data);
    SCOPED_TRACE(shard);
    expectSameHistory(one, four);
    ASSERT_EQ(four.size(), 6u);
    EXPECT_EQ(one.back().skippedSteps, 2);
    EXPECT_EQ(four[0].overflowed, "");
    EXPECT_EQ(four[1].overflowed, "rank 2: " + one[1].overflowed);
    EXPECT_EQ(four[3].overflowed, "rank 0: " + one[3].overflowed);
    // Each of the rank's gradients, once.
    EXPECT_EQ(four[1].overflowedTensors, one[1].overflowedTensors);
  }
}

TEST_F(RankScaleTest, AScaleThatIsTooLargeFallsAndGrowsAsOneDevicesDoes) {
  Dataset data = noise(cnn(), 14 * kBatch);
  for (const char *shard : {"none", "optimizer"})
    for (int ranks : {2, 4}) {
      CompileOptions choices = options("mixed_float16");
      choices.training->distribution.shard = shard;
      choices.training->schedule.base = 0;
      choices.training->lossScale = "torch,init=1073741824,interval=3";
      SCOPED_TRACE(std::string(shard) + ", " + std::to_string(ranks));
      std::vector<LossScaleReport> one = reports(1, choices, data);
      EXPECT_GT(one.back().skippedSteps, 2);
      EXPECT_LT(one.back().skippedSteps, 14);
      expectSameHistory(one, reports(ranks, choices, data));
    }
}

TEST_F(RankScaleTest, AnOverflowOfTheSumAloneIsNamed) {
  // Each rank's gradient is finite; theirs together are not.
  Dataset data = noise(cnn(), kBatch);
  for (const char *shard : {"none", "optimizer"}) {
    CompileOptions choices = options("mixed_float16");
    choices.training->distribution.shard = shard;
    std::vector<LossScaleReport> reports(4);
    onRanks(cnn(), 4, choices, [&](int rank, Result<Trainer> trainer) {
      ASSERT_TRUE(trainer.ok()) << trainer.status().toString();
      Batcher batcher = *trainer->batcher(data, {});
      ASSERT_TRUE(
          trainer->forwardBackward(*batcher.gather(rowsOf(0, rank, 4))).ok());
      std::vector<NamedTensor> gradients = *trainer->gradients();
      for (NamedTensor &gradient : gradients)
        if (gradient.name == "fc/weight.gradient") {
          if (gradient.data.type().element == ElementType::F16)
            gradient.data.as<uint16_t>()[7] = 0x7bff;
          else
            gradient.data.as<float>()[7] = 3e38f;
        }
      ASSERT_TRUE(trainer->setGradients(gradients).ok());
      ASSERT_TRUE(trainer->apply().ok());
      reports[size_t(rank)] = *trainer->lossScale();
    });
    for (const LossScaleReport &report : reports) {
      EXPECT_EQ(report.skippedSteps, 1) << shard;
      EXPECT_EQ(report.overflowed.rfind("sum of all ranks: fc/weight", 0), 0u)
          << report.overflowed;
      EXPECT_EQ(report.overflowedTensors, 1) << shard;
    }
  }
}

TEST_F(RankScaleTest, ShardsDivideWhatARankKeeps) {
  FitOptions fit;
  fit.steps = 1;
  Dataset data = noise(transformer(2), kBatch);
  for (const char *policy : {"float32", "mixed_bfloat16"}) {
    CompileOptions choices = options(policy);
    choices.training->optimizer = OptimizerOptions();
    RankOutcome whole = train(transformer(2), 4, choices, data, fit);
    choices.training->distribution.shard = "optimizer";
    RankOutcome cut = train(transformer(2), 4, choices, data, fit);
    EXPECT_TRUE(haveSameBits(whole.state, cut.state)) << policy;
    // A tensor has at most one number more than its share on each rank.
    int64_t tensors = 0;
    for (const NamedTensor &tensor : cut.state)
      tensors += tensor.data.type().element == ElementType::F32;
    EXPECT_GE(4 * cut.stateBytes, whole.stateBytes) << policy;
    EXPECT_LE(4 * cut.stateBytes, whole.stateBytes + 4 * 4 * tensors) << policy;
    // Shards of gradients are sent and updated parameters received, each once.
    int64_t scattered = 0, gathered = 0, reduced = 0;
    for (const RankOutcome::Message &message : cut.messages) {
      EXPECT_NE(message.how.kind, Collective::Kind::AllReduce) << policy;
      (message.how.kind == Collective::Kind::ReduceScatter ? scattered
                                                           : gathered) +=
          message.bytes;
    }
    for (const RankOutcome::Message &message : whole.messages)
      reduced += message.bytes;
    EXPECT_EQ(scattered, reduced) << policy;
    EXPECT_LE(4 * gathered, reduced + 4 * 4 * tensors) << policy;
  }
}

TEST_F(RankScaleTest, AnotherWorldResumesWhereAShardedOneStopped) {
  RankModel model = cnn();
  CompileOptions choices = options("float32");
  choices.batch = 12;
  choices.training->clipNorm = 0.5;
  choices.training->optimizer.numbers["momentum"] = 0.9;
  Dataset data = noise(model, 48);
  FitOptions fit;
  fit.epochs = 3;
  fit.checkpointEvery = 1;
  std::vector<NamedTensor> one = train(model, 1, choices, data, fit).state;
  fit.checkpoints = (folder / "checkpoints").string();
  RankOutcome last;
  // 4 ranks start, 2 and 3 resume, 1 finishes; all but one are sharded.
  struct World {
    int ranks;
    const char *shard;
    int64_t steps;
  };
  for (auto [ranks, shard, steps] :
       {World{4, "optimizer", 3}, World{2, "optimizer", 6}, World{2, "none", 7},
        World{3, "optimizer", 10}, World{1, "optimizer", 12}}) {
    choices.training->distribution.shard = shard;
    fit.steps = steps;
    last = train(model, ranks, choices, data, fit);
    EXPECT_EQ(last.report.steps, steps);
    fit.resume = true;
  }
  // Each step as far apart as one, and as much again for what it reads.
  EXPECT_LT(distance(one, last.state), 2 * 12 * bound("float32", 4));
}

TEST_F(RankScaleTest, APolicySaysWhatGoesOverTheWire) {
  Dataset data = noise(transformer(1), 2 * kBatch);
  FitOptions fit;
  fit.steps = 2;
  auto policy = [&](const std::string &base, const std::string &wire) {
    std::string path = (folder / (base + wire + ".json")).string();
    std::ofstream(path) << "{\"name\": \"wired\", \"extends\": \"" << base
                        << "\", \"gradient_wire\": \"" << wire << "\"}";
    return path;
  };
  auto bytesOf = [](const RankOutcome &outcome, ElementType type) {
    int64_t bytes = 0;
    for (const RankOutcome::Message &message : outcome.messages)
      if (message.how.reduces()) {
        EXPECT_EQ(message.how.element, type);
        EXPECT_EQ(message.how.accumulate, ElementType::F32);
        bytes += message.bytes;
      }
    return bytes;
  };
  for (const char *base : {"float32", "mixed_bfloat16"})
    for (const char *shard : {"none", "optimizer"}) {
      SCOPED_TRACE(std::string(base) + ", " + shard);
      CompileOptions choices = options("");
      choices.training->distribution.shard = shard;
      choices.policy = policy(base, "float32");
      RankOutcome wide = train(transformer(1), 4, choices, data, fit);
      int64_t bytes = bytesOf(wide, ElementType::F32);
      for (auto [wire, type] : {std::pair("bfloat16", ElementType::BF16),
                                {"float16", ElementType::F16}}) {
        choices.policy = policy(base, wire);
        RankOutcome narrow = train(transformer(1), 4, choices, data, fit);
        EXPECT_EQ(2 * bytesOf(narrow, type), bytes) << wire;
        // A float16 wire has the range of a dynamic loss scale.
        EXPECT_EQ(narrow.scales.back(), type == ElementType::F16 ? 65536 : 1);
        for (const NamedTensor &tensor : wide.state)
          if (tensor.name.find("momentum") != std::string::npos) {
            std::vector<NamedTensor> a = {tensor},
                                     b = {*find(narrow.state, tensor.name)};
            EXPECT_LT(distance(a, b),
                      2 * bound(type == ElementType::F16 ? "mixed_float16"
                                                         : "mixed_bfloat16",
                                4))
                << wire << ", " << tensor.name;
          }
      }
    }
}

} // namespace
