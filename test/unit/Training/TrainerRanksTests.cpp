//===- TrainerRanksTests.cpp - tests of training on several ranks ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Coordination of a trainer with the ranks of its group before and after steps.
//
//===----------------------------------------------------------------------===//

#include "RankTest.h"

using namespace mpc;

namespace {

class TrainerRanksTest : public RankTest {
protected:
  /// Diagnostics of two ranks that both fail to create a trainer.
  std::vector<std::string>
  messagesOf(const std::function<CompileOptions(int)> &choose) {
    std::vector<std::string> messages(2);
    onRanks(pathOf(mlp(), kBatch / 2), 2, choose,
            [&](int rank, Result<Trainer> trainer) {
              messages[size_t(rank)] = trainer.status().toString();
            });
    return messages;
  }
  /// The diagnostic of both ranks, which must be equal.
  std::string messageOf(const std::function<CompileOptions(int)> &choose) {
    std::vector<std::string> messages = messagesOf(choose);
    EXPECT_EQ(messages[0], messages[1]);
    return messages[0];
  }
};

} // namespace

// Three epochs with an odd last batch.
TEST_F(TrainerRanksTest, SeveralTrainAsOneDoes) {
  CompileOptions clipped = options("float32"), windows = clipped;
  clipped.training->clipNorm = 0.1;
  windows.training->accumulate = 2;
  Dataset data = noise(mlp(), 170);
  FitOptions fit;
  fit.epochs = 3;
  // 30 steps, each of which rounds a sum in another order: an error of some
  // units in the last place, which the next steps carry on.
  double bound = 30 * 8 * std::exp2(-24);
  for (const CompileOptions &choices : {clipped, windows}) {
    RankOutcome one = train(mlp(), 1, choices, data, fit);
    for (int ranks : {2, 4})
      EXPECT_LT(
          distance(one.state, train(mlp(), ranks, choices, data, fit).state),
          bound)
          << ranks;
  }
}

TEST_F(TrainerRanksTest, AnOverflowOfOneSkipsTheStepOfAllAndIsNamed) {
  Dataset data = noise(mlp(), 2 * kBatch);
  std::vector<std::vector<NamedTensor>> before(4), after(4);
  std::vector<LossScaleReport> reports(4);
  onRanks(
      mlp(), 4, options("mixed_float16"),
      [&](int rank, Result<Trainer> trainer) {
        ASSERT_TRUE(trainer.ok()) << trainer.status().toString();
        Batcher batcher = *trainer->batcher(data, {});
        ASSERT_TRUE(
            trainer->forwardBackward(*batcher.gather(rowsOf(0, rank, 4))).ok());
        before[size_t(rank)] = *trainer->weights();
        if (rank == 2) {
          std::vector<NamedTensor> gradients = *trainer->gradients();
          for (NamedTensor &gradient : gradients) {
            if (gradient.name != "w2.gradient")
              continue;
            // The bits of an infinity.
            if (gradient.data.type().element == ElementType::F16)
              gradient.data.as<uint16_t>()[5] = 0x7c00;
            else
              gradient.data.as<uint32_t>()[5] = 0x7f800000;
          }
          ASSERT_TRUE(trainer->setGradients(gradients).ok());
        }
        ASSERT_TRUE(trainer->apply().ok());
        after[size_t(rank)] = *trainer->weights();
        reports[size_t(rank)] = *trainer->lossScale();
      });
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(distance(before[rank], after[rank]), 0) << rank;
    EXPECT_EQ(reports[rank].skippedSteps, 1) << rank;
    EXPECT_EQ(reports[rank].scale, 32768) << rank;
    EXPECT_EQ(reports[rank].overflowedTensors, 1) << rank;
    EXPECT_EQ(reports[rank].overflowed.rfind("rank 2: w2", 0), 0u)
        << reports[rank].overflowed;
  }
}

TEST_F(TrainerRanksTest, RanksThatDifferAreReportedBeforeTraining) {
  EXPECT_EQ(messageOf([&](int rank) {
              CompileOptions choices = options("float32");
              choices.batch = rank ? 32 : 16;
              return choices;
            }),
            "rank 1: has the batch 32, but rank 0 has 16; start all ranks with "
            "the same arguments");
  for (int field = 0; field < 5; ++field)
    EXPECT_EQ(messageOf([&](int rank) {
                CompileOptions choices = options("float32");
                TrainingOptions &training = *choices.training;
                if (field == 0)
                  training.initialSeed = rank;
                else if (field == 1)
                  training.schedule.base = rank ? 0.05 : 0.5;
                else if (field == 2)
                  training.clipNorm = rank ? 1 : 2;
                else if (field == 3)
                  training.loss.ignoreIndex = rank;
                else
                  training.optimizer.numbers["momentum"] = rank ? 0.9 : 0.8;
                return choices;
              }).find("rank 1: has the options "),
              0u)
        << field;
  EXPECT_EQ(
      messageOf([&](int) {
        CompileOptions choices = options("float32");
        choices.batch = 15;
        return choices;
      }),
      "batch: of 15 examples cannot be divided evenly among 2 ranks; use a "
      "multiple of 2");
}

// An error of one rank ends both at once: neither waits.
TEST_F(TrainerRanksTest, AFailureOfOneIsReportedByAll) {
  const std::string told = "rank 1: failed: ";
  for (auto [spoil, said] :
       {std::pair<std::function<void(CompileOptions &)>, const char *>(
            [](CompileOptions &o) { o.batch.reset(); },
            "batch: must be set when 2 ranks share it"),
        {[](CompileOptions &o) { o.training->distribution.shard = "all"; },
         "shard: is 'none' or 'optimizer', found 'all'"},
        {[](CompileOptions &o) { o.training.reset(); },
         "CompileOptions::training: must describe the training step"}}) {
    std::vector<std::string> messages = messagesOf([&](int rank) {
      CompileOptions choices = options("float32");
      if (rank == 1)
        spoil(choices);
      return choices;
    });
    EXPECT_EQ(messages[0], told + said);
    EXPECT_EQ(messages[1], said);
  }
}
