//===- RankTest.h - trainings on one rank and on several --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ranks are threads of this process, each with a trainer of its own.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TRAINING_RANKTEST_H
#define MPC_TEST_UNIT_TRAINING_RANKTEST_H

#include "../TemporaryModel.h"
#include "RankModels.h"

#include "mpc/Reference/Compare.h"
#include "mpc/Training/Trainer.h"

#include "mlir/IR/Builders.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <thread>

namespace mpc {

/// Result of training on some ranks.
struct RankOutcome {
  std::vector<NamedTensor> state;
  FitReport report;
  /// After each step.
  std::vector<double> scales;
  std::vector<std::string> overflowed;
  /// Bytes of master weights and optimizer states that a rank stores.
  int64_t stateBytes = 0;
  /// The step's messages: what each is called, its type, and bytes of a rank.
  struct Message {
    std::string name;
    Collective how;
    int64_t bytes = 0;
  };
  std::vector<Message> messages;
};

class RankTest : public TemporaryFolder {
protected:
  static constexpr int64_t kBatch = 16;

  static CompileOptions options(const std::string &policy) {
    CompileOptions options;
    options.policy = policy;
    options.batch = kBatch;
    options.training.emplace();
    options.training->initialSeed = 1;
    options.training->schedule.base = 0.05;
    options.training->optimizer.kind = "sgd";
    options.training->optimizer.numbers["momentum"] = 0.9;
    // A batch norm of one rank's examples is another model.
    options.training->distribution.syncBatchNorm = true;
    return options;
  }

  /// Noise around one pattern per class.
  static Dataset noise(const RankModel &model, int64_t count) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<int64_t> shape = {count};
    int64_t size = 1;
    for (int64_t extent : model.example) {
      shape.push_back(extent);
      size *= extent;
    }
    std::vector<float> x;
    std::vector<int32_t> y;
    for (int64_t i = 0; i < count; ++i) {
      y.push_back(int32_t(random() % uint32_t(model.classes)));
      for (int64_t k = 0; k < size; ++k)
        x.push_back((k % model.classes == y.back() ? 1.0f : 0.0f) +
                    normal(random));
    }
    return *Dataset::fromArrays(
        {{"x", *Buffer::fromValues<float>({ElementType::F32, shape}, x)}},
        *Buffer::fromValues<int32_t>({ElementType::I32, {count}}, y));
  }

  std::string pathOf(const RankModel &model, int64_t examples) {
    return writeModel(
        model.text(examples),
        (model.name + std::to_string(examples) + ".mlir").c_str());
  }

  /// Calls `body` with the trainer of each rank on a thread of its own.
  void onRanks(const RankModel &model, int ranks, const CompileOptions &options,
               const std::function<void(int, Result<Trainer>)> &body) {
    onRanks(
        pathOf(model, *options.batch / ranks), ranks,
        [&](int) { return options; }, body);
  }
  /// The same with the model in a file, and what each rank chooses.
  static void onRanks(const std::string &path, int ranks,
                      const std::function<CompileOptions(int)> &choose,
                      const std::function<void(int, Result<Trainer>)> &body) {
    std::vector<std::shared_ptr<Communicator>> ends = connectThreads(ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        body(rank, Trainer::create(*Device::cpu({.threads = 1}), path,
                                   choose(rank), 0, ends[size_t(rank)]));
        // A failing rank must not block the others.
        ends[size_t(rank)] = nullptr;
      });
    for (std::thread &thread : threads)
      thread.join();
  }

  /// Trains on `data`; what all ranks have must be alike to the bit.
  RankOutcome train(const RankModel &model, int ranks,
                    const CompileOptions &options, const Dataset &data,
                    FitOptions fit) {
    std::vector<RankOutcome> outcomes(static_cast<size_t>(ranks));
    fit.logEvery = 1;
    onRanks(model, ranks, options, [&](int rank, Result<Trainer> trainer) {
      ASSERT_TRUE(trainer.ok()) << trainer.status().toString();
      RankOutcome &own = outcomes[size_t(rank)];
      FitOptions choices = fit;
      choices.onProgress = [&](const FitProgress &progress) {
        own.scales.push_back(progress.lossScale.scale);
        own.overflowed.push_back(progress.lossScale.overflowed);
      };
      Result<FitReport> report = trainer->fit(data, choices);
      ASSERT_TRUE(report.ok()) << report.status().toString();
      own.report = *report;
      Result<std::vector<NamedTensor>> state = trainer->state();
      ASSERT_TRUE(state.ok()) << state.status().toString();
      own.state = std::move(*state);
      describe(trainer->program(), own);
    });
    for (size_t rank = 1; rank < outcomes.size(); ++rank) {
      EXPECT_TRUE(haveSameBits(outcomes[rank].state, outcomes[0].state))
          << "rank " << rank;
      EXPECT_EQ(outcomes[rank].scales, outcomes[0].scales) << "rank " << rank;
      EXPECT_EQ(outcomes[rank].overflowed, outcomes[0].overflowed);
    }
    return std::move(outcomes[0]);
  }

  /// The rows of a rank's part of a batch, in order.
  static std::vector<int64_t> rowsOf(int64_t batch, int rank, int ranks) {
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < kBatch / ranks; ++i)
      rows.push_back(batch * kBatch + rank * (kBatch / ranks) + i);
    return rows;
  }

  /// Results of steps that start from the states of one rank before each step;
  /// missing `states` are computed by one rank. So errors do not
  /// accumulate, and no step differs because an activation is on the other side
  /// of a kink.
  std::vector<std::vector<NamedTensor>>
  stepFrom(const RankModel &model, int ranks, const CompileOptions &options,
           const Dataset &data, int64_t steps,
           std::vector<std::vector<NamedTensor>> &states) {
    std::vector<std::vector<NamedTensor>> results;
    const bool finds = states.empty();
    int64_t window = options.training->accumulate;
    onRanks(model, ranks, options, [&](int rank, Result<Trainer> trainer) {
      ASSERT_TRUE(trainer.ok()) << trainer.status().toString();
      Batcher batcher = *trainer->batcher(data, {});
      for (int64_t step = 0; step < steps; ++step) {
        if (finds)
          states.push_back(*trainer->state());
        Status status = trainer->setState(states[size_t(step)]);
        ASSERT_TRUE(status.ok()) << status.toString();
        for (int64_t i = 0; i < window; ++i) {
          status = trainer->step(
              *batcher.gather(rowsOf(step * window + i, rank, ranks)));
          ASSERT_TRUE(status.ok()) << status.toString();
        }
        Result<std::vector<NamedTensor>> next = trainer->state();
        ASSERT_TRUE(next.ok()) << next.status().toString();
        if (rank == 0)
          results.push_back(std::move(*next));
      }
    });
    return results;
  }

  static void describe(const Program &program, RankOutcome &outcome) {
    for (const ProgramValue &value : program.arguments)
      if (value.role == "parameter" || value.role == "optimizer_state")
        outcome.stateBytes += *value.type.byteCount();
    for (const Launch &launch : program.launches) {
      if (!launch.collective)
        continue;
      int64_t bytes = 0;
      for (size_t i = 0; i < launch.buffers.size() / 2; ++i)
        bytes += launch.buffers[i].bytes;
      outcome.messages.push_back({launch.kernel, *launch.collective, bytes});
    }
  }

  static bool haveSameBits(const std::vector<NamedTensor> &a,
                           const std::vector<NamedTensor> &b) {
    if (a.size() != b.size() || a.empty())
      return false;
    for (const NamedTensor &tensor : a) {
      const NamedTensor *other = find(b, tensor.name);
      if (!other || !std::ranges::equal(tensor.data.as<uint8_t>(),
                                        other->data.as<uint8_t>())) {
        ADD_FAILURE() << tensor.name << " is not the same";
        return false;
      }
    }
    return true;
  }

  static const NamedTensor *find(const std::vector<NamedTensor> &tensors,
                                 const std::string &name) {
    for (const NamedTensor &tensor : tensors)
      if (tensor.name == name)
        return &tensor;
    return nullptr;
  }

  /// The largest difference of floats over the largest magnitude of a tensor;
  /// the test's property "worst" has that tensor's name.
  static double distance(const std::vector<NamedTensor> &a,
                         const std::vector<NamedTensor> &b) {
    double most = 0;
    EXPECT_EQ(a.size(), b.size());
    for (const NamedTensor &tensor : a) {
      const NamedTensor *other = find(b, tensor.name);
      EXPECT_TRUE(other) << tensor.name;
      if (!other || tensor.data.type().element != ElementType::F32)
        continue;
      double difference = 0, magnitude = 0;
      for (size_t k = 0; k < tensor.data.as<float>().size(); ++k) {
        double x = tensor.data.as<float>()[k], y = other->data.as<float>()[k];
        difference = std::max(difference, std::abs(x - y));
        magnitude = std::max(magnitude, std::abs(x));
      }
      if (magnitude > 0 && difference / magnitude > most) {
        most = difference / magnitude;
        RecordProperty("worst", tensor.name);
      }
    }
    return most;
  }

  /// Maximum difference between a step of several ranks and of one rank,
  /// relative to the largest magnitude of a tensor, due to the order of
  /// summation. Each rank rounds its part of a gradient to the type in which
  /// the policy stores it, and the sum is rounded once, like that of one rank:
  /// if no part is larger than the largest element of the whole, half an ulp
  /// `ranks` + 2 times, and as much as two more for norms and factors.
  /// Sums of n terms in float32 differ by at most 2 sqrt(n) roundings except in
  /// some hundredths of a percent (Higham and Mary, A new approach to
  /// probabilistic rounding error analysis, 2019); no gradient here has more
  /// than 16 examples x 36 positions.
  static double bound(const std::string &policy, int ranks) {
    double half = policy == "float32"          ? std::exp2(-24)
                  : policy == "mixed_bfloat16" ? std::exp2(-9)
                                               : std::exp2(-12);
    constexpr double kTerms = kBatch * 36;
    return double(ranks + 4) * half + 2 * std::sqrt(kTerms) * std::exp2(-24);
  }

  /// Bound of 16-bit steps that bound() does not cover: the last bits of shared
  /// statistics change roundings of normalized values, and sums of many of
  /// these cancel. `several` ranks and `one` round at the same points, so both
  /// have the same distance from a step without roundings; the tolerance of the
  /// oracle check limits this distance, with the same
  /// steps of one rank in float32 as the reference (`exact`).
  static void
  expectWithinRoundings(const std::vector<std::vector<NamedTensor>> &several,
                        const std::vector<std::vector<NamedTensor>> &one,
                        const std::vector<std::vector<NamedTensor>> &exact) {
    ASSERT_EQ(several.size(), one.size());
    ASSERT_EQ(exact.size(), one.size());
    mlir::MLIRContext context;
    // All steps of a tensor are one sample of its errors.
    auto joined = [&](const std::vector<std::vector<NamedTensor>> &steps,
                      const std::string &name) {
      std::vector<double> values;
      for (const std::vector<NamedTensor> &state : steps)
        if (const NamedTensor *tensor = find(state, name))
          for (float value : tensor->data.as<float>())
            values.push_back(value);
      reference::Tensor all(mlir::RankedTensorType::get(
          {int64_t(values.size())}, mlir::Builder(&context).getF32Type()));
      std::ranges::copy(values, all.floats().begin());
      return all;
    };
    for (const NamedTensor &tensor : one.front()) {
      if (tensor.data.type().element != ElementType::F32)
        continue;
      reference::Tensor wanted = joined(exact, tensor.name),
                        declared = joined(one, tensor.name),
                        actual = joined(several, tensor.name);
      constexpr int64_t kTerms = kBatch * 36;
      reference::OutputError error =
          reference::compareOutput(actual, wanted, declared, kTerms,
                                   /*fatalIntegers=*/true);
      reference::widenTolerance(
          error, {reference::rmsRelativeError(declared, wanted), 0}, kTerms);
      EXPECT_TRUE(error.ok)
          << tensor.name << " differs by " << error.rmsRelativeError
          << ", at most " << error.tolerance;
    }
  }
};

} // namespace mpc

#endif // MPC_TEST_UNIT_TRAINING_RANKTEST_H
