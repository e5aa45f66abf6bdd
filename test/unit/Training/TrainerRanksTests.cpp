//===- TrainerRanksTests.cpp - tests of training on several ranks ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ranks are threads of this process, each with a trainer of its own.
//
//===----------------------------------------------------------------------===//

#include "../TemporaryModel.h"

#include "mpc/Training/Trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <thread>

using namespace mpc;

namespace {

constexpr int64_t kBatch = 16, kFeatures = 12, kClasses = 3;

/// Two layers for batches of N.
constexpr const char *kModel = R"(
func.func @main(%x: tensor<Nx12xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<Nx3xf32> {mpc.role = #mpc.role<output>, mpc.name = "logits"}) {
  %w1 = mpc.constant dense<0.0> : tensor<12x24xf32> loc("w1")
  %b1 = mpc.constant dense<0.0> : tensor<24xf32> loc("b1")
  %w2 = mpc.constant dense<0.0> : tensor<24x3xf32> loc("w2")
  %0 = mpc.matmul %x, %w1 : (tensor<Nx12xf32>, tensor<12x24xf32>) -> tensor<Nx24xf32> loc("fc1")
  %1 = mpc.add %0, %b1 : (tensor<Nx24xf32>, tensor<24xf32>) -> tensor<Nx24xf32> loc("fc1_bias")
  %2 = mpc.relu %1 : tensor<Nx24xf32> loc("act")
  %3 = mpc.matmul %2, %w2 : (tensor<Nx24xf32>, tensor<24x3xf32>) -> tensor<Nx3xf32> loc("fc2")
  return %3 : tensor<Nx3xf32>
}
)";

/// Points around one centre per class.
Dataset points(int64_t count) {
  std::mt19937 random(1);
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

class TrainerRanksTest : public TemporaryFolder {
protected:
  /// The model for one of so many ranks.
  std::string modelOf(int ranks) {
    std::string text = kModel, batch = std::to_string(kBatch / ranks);
    for (size_t at; (at = text.find("<Nx")) != std::string::npos;)
      text.replace(at + 1, 1, batch);
    return writeModel(text,
                      ("model" + std::to_string(ranks) + ".mlir").c_str());
  }

  static CompileOptions options(const std::string &policy) {
    CompileOptions options;
    options.policy = policy;
    options.batch = kBatch;
    options.training.emplace();
    options.training->initialSeed = 1;
    options.training->schedule.base = 0.05;
    options.training->optimizer.kind = "sgd";
    options.training->optimizer.numbers["momentum"] = 0.9;
    return options;
  }

  /// Calls `body` with the trainer of each rank on a thread of its own.
  void onRanks(int ranks, const std::function<CompileOptions(int)> &choose,
               const std::function<void(int, Result<Trainer>)> &body) {
    std::string model = modelOf(ranks);
    std::vector<std::shared_ptr<Communicator>> ends = connectThreads(ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        body(rank, Trainer::create(*Device::cpu({.threads = 1}), model,
                                   choose(rank), 0, ends[size_t(rank)]));
      });
    for (std::thread &thread : threads)
      thread.join();
  }

  /// The state after some epochs, which all ranks must have to the bit.
  std::vector<NamedTensor> train(int ranks, const CompileOptions &options,
                                 FitOptions fit) {
    Dataset data = points(170);
    fit.epochs = 3;
    std::vector<std::vector<NamedTensor>> states(static_cast<size_t>(ranks));
    std::vector<double> losses(states.size());
    onRanks(
        ranks, [&](int) { return options; },
        [&](int rank, Result<Trainer> trainer) {
          ASSERT_TRUE(trainer.ok()) << trainer.status().toString();
          Result<FitReport> report = trainer->fit(data, fit);
          ASSERT_TRUE(report.ok()) << report.status().toString();
          losses[size_t(rank)] = report->train.loss;
          states[size_t(rank)] = *trainer->state();
        });
    for (size_t rank = 1; rank < states.size(); ++rank) {
      EXPECT_EQ(losses[rank], losses[0]);
      EXPECT_EQ(states[rank].size(), states[0].size());
      for (size_t i = 0; i < states[rank].size(); ++i)
        EXPECT_TRUE(std::ranges::equal(states[rank][i].data.as<uint8_t>(),
                                       states[0][i].data.as<uint8_t>()))
            << states[0][i].name << " of rank " << rank;
    }
    return std::move(states[0]);
  }
};

/// The largest difference of floats over the largest magnitude of a tensor.
double distance(const std::vector<NamedTensor> &a,
                const std::vector<NamedTensor> &b) {
  double most = 0;
  EXPECT_EQ(a.size(), b.size());
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    if (a[i].data.type().element != ElementType::F32)
      continue;
    double difference = 0, magnitude = 0;
    for (size_t k = 0; k < a[i].data.as<float>().size(); ++k) {
      double x = a[i].data.as<float>()[k], y = b[i].data.as<float>()[k];
      difference = std::max(difference, std::abs(x - y));
      magnitude = std::max(magnitude, std::abs(x));
    }
    if (magnitude > 0)
      most = std::max(most, difference / magnitude);
  }
  return most;
}

} // namespace

TEST_F(TrainerRanksTest, SeveralTrainAsOneDoes) {
  CompileOptions plain = options("float32"), clipped = plain, windows = plain;
  clipped.training->clipNorm = 0.1;
  windows.training->accumulate = 2;
  // 30 steps, each of which rounds a sum in another order: an error of some
  // units in the last place, which the next steps carry on.
  double bound = 30 * 8 * std::exp2(-24);
  for (const CompileOptions &choices : {plain, clipped, windows}) {
    std::vector<NamedTensor> one = train(1, choices, {});
    for (int ranks : {2, 4})
      EXPECT_LT(distance(one, train(ranks, choices, {})), bound) << ranks;
  }
}

TEST_F(TrainerRanksTest, AllRanksHaveTheSameBitsUnderEveryPolicy) {
  for (const char *policy : {"mixed_bfloat16", "mixed_float16"})
    train(4, options(policy), {});
}

TEST_F(TrainerRanksTest, AnOverflowOfOneSkipsTheStepOfAllAndIsNamed) {
  Dataset data = points(32);
  CompileOptions choices = options("mixed_float16");
  std::vector<std::vector<NamedTensor>> before(4), after(4);
  std::vector<LossScaleReport> reports(4);
  onRanks(
      4, [&](int) { return choices; },
      [&](int rank, Result<Trainer> trainer) {
        ASSERT_TRUE(trainer.ok()) << trainer.status().toString();
        Result<Batcher> batcher = trainer->batcher(data, {});
        ASSERT_TRUE(batcher.ok());
        std::vector<int64_t> rows = {0, 1, 2, 3};
        ASSERT_TRUE(trainer->forwardBackward(*batcher->gather(rows)).ok());
        before[size_t(rank)] = *trainer->weights();
        if (rank == 2) {
          std::vector<NamedTensor> gradients = *trainer->gradients();
          for (NamedTensor &gradient : gradients) {
            if (gradient.name != "w2.gradient")
              continue;
            bool half = gradient.data.type().element == ElementType::F16;
            // The bits of an infinity.
            if (half)
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

TEST_F(TrainerRanksTest, AnotherWorldResumesWhereOneStopped) {
  Dataset data = points(170);
  CompileOptions choices = options("float32");
  choices.batch = kBatch;
  FitOptions fit;
  fit.epochs = 3;
  std::vector<NamedTensor> one = train(1, choices, {});
  fit.checkpoints = (folder / "checkpoints").string();
  std::vector<NamedTensor> last;
  // 4 ranks begin, 2 go on, 1 ends.
  for (auto [ranks, steps] : {std::pair(4, 8), {2, 21}, {1, 30}}) {
    fit.steps = steps;
    onRanks(
        ranks, [&](int) { return choices; },
        [&](int rank, Result<Trainer> trainer) {
          ASSERT_TRUE(trainer.ok()) << trainer.status().toString();
          Result<FitReport> report = trainer->fit(data, fit);
          ASSERT_TRUE(report.ok()) << report.status().toString();
          EXPECT_EQ(report->steps, steps);
          if (rank == 0)
            last = *trainer->state();
        });
    fit.resume = true;
  }
  EXPECT_LT(distance(one, last), 30 * 8 * std::exp2(-24));
}

TEST_F(TrainerRanksTest, RanksThatDifferAreToldBeforeTheyTrain) {
  auto messageOf = [&](const std::function<CompileOptions(int)> &choose) {
    std::vector<std::string> messages(2);
    onRanks(2, choose, [&](int rank, Result<Trainer> trainer) {
      messages[size_t(rank)] = trainer.status().toString();
    });
    EXPECT_EQ(messages[0], messages[1]);
    return messages[0];
  };
  EXPECT_EQ(messageOf([&](int rank) {
              CompileOptions choices = options("float32");
              choices.batch = rank ? 32 : 16;
              return choices;
            }),
            "rank 1: has the batch 32, but rank 0 has 16; start all ranks "
            "alike");
  for (int field = 0; field < 4; ++field)
    EXPECT_EQ(messageOf([&](int rank) {
                CompileOptions choices = options("float32");
                TrainingOptions &training = *choices.training;
                if (field == 0)
                  training.initialSeed = rank;
                else if (field == 1)
                  training.schedule.base = rank ? 0.05 : 0.5;
                else if (field == 2)
                  training.clipNorm = rank ? 1 : 2;
                else
                  training.optimizer.numbers["momentum"] = rank ? 0.9 : 0.8;
                return choices;
              }).find("rank 1: has the options "),
              0u)
        << field;
  EXPECT_EQ(messageOf([&](int) {
              CompileOptions choices = options("float32");
              choices.training->loss.ignoreIndex = 1;
              return choices;
            }).find("ignore_index: leaves out another number of labels"),
            0u);
  EXPECT_EQ(messageOf([&](int) {
              CompileOptions choices = options("float32");
              choices.batch = 15;
              return choices;
            }),
            "batch: of 15 examples has no equal parts for 2 ranks; use a "
            "multiple of 2");
}
