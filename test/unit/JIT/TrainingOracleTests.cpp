//===- TrainingOracleTests.cpp - tests of the training oracle -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../TemporaryModel.h"
#include "../Training/RankModels.h"
#include "TrainingModels.h"

#include "JIT/TrainingReference.h"

#include "mpc/JIT/Engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

using namespace mpc;
using mpc::reference::Tensor;

namespace {

/// A step on the CPU in 16 bits, and its oracle.
class TrainingOracleTest : public TemporaryFolder {
protected:
  void prepare(const std::string &optimizer) {
    CompileOptions options;
    options.policy = "mixed_bfloat16";
    options.training.emplace().optimizer.kind = optimizer;
    if (optimizer == "sgd")
      options.training->optimizer.numbers["momentum"] = 0.9;
    options.training->initialSeed = 3;
    std::string path = writeModel(kMlp);
    Result<TrainingOracle> made = TrainingOracle::create(path, options);
    ASSERT_TRUE(made.ok()) << made.status().toString();
    oracle = std::move(*made);
    Result<Executable> step =
        Engine::create(*Device::cpu({.threads = 1}))->compile(path, options);
    ASSERT_TRUE(step.ok()) << step.status().toString();

    // A second step: states are no longer 0.
    std::vector<Buffer> buffers = begin(step->program().arguments);
    ASSERT_TRUE(step->run(buffers).ok());
    for (size_t i = 0; i < buffers.size(); ++i)
      given[step->program().arguments[i].name] = copyOf(buffers[i]);
    Result<std::vector<Buffer>> results = step->run(buffers);
    ASSERT_TRUE(results.ok()) << results.status().toString();
    for (size_t i = 0; i < results->size(); ++i)
      left[step->program().results[i].name] = copyOf((*results)[i]);
    Result<std::vector<TrainingOracle::Answer>> computed = oracle->run(given);
    ASSERT_TRUE(computed.ok()) << computed.status().toString();
    answers = std::move(*computed);
  }

  static Buffer copyOf(const Buffer &buffer) {
    return *Buffer::fromHost(
        buffer.type(),
        {static_cast<const std::byte *>(buffer.data()), buffer.size()});
  }

  /// The initial arguments; a step computes the copies of parameters from
  /// the parameters, so that zeros suffice for the first step.
  static std::vector<Buffer> begin(const std::vector<ProgramValue> &values) {
    std::mt19937 random(5);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<Buffer> buffers;
    for (const ProgramValue &value : values) {
      buffers.push_back(*Buffer::allocate(value.type));
      if (value.initial)
        std::memcpy(buffers.back().data(), value.initial.get(),
                    buffers.back().size());
      if (value.role == "input")
        for (float &x : buffers.back().as<float>())
          x = uniform(random);
      if (value.role == "label")
        for (int32_t &label : buffers.back().as<int32_t>())
          label = int32_t(random() % 10);
    }
    return buffers;
  }

  const TrainingOracle::Answer &answer(const std::string &name) const {
    for (const TrainingOracle::Answer &candidate : answers)
      if (candidate.name == name)
        return candidate;
    ADD_FAILURE() << "no answer for " << name;
    return answers.front();
  }
  /// Returns true if `actual` is within the tolerance of the result `name`.
  bool holds(const std::string &name, const Buffer &actual) {
    const TrainingOracle::Answer &wanted = answer(name);
    return reference::compareOutput(
               Tensor::fromBytes(wanted.declared.getType(), actual.data()),
               wanted.exact, wanted.declared, oracle->longestReduction(),
               /*fatalIntegers=*/true, &wanted.magnitudes)
        .ok;
  }

  std::optional<TrainingOracle> oracle;
  std::map<std::string, Buffer> given, left;
  std::vector<TrainingOracle::Answer> answers;
};

} // namespace

// Loss and parameters are checked against values recomputed from the device's
// own outputs and states: a relative error of 1e-3 is detected, in spite of all
// bfloat16 roundings before.
TEST_F(TrainingOracleTest, AnswersFollowOutputsAndStates) {
  for (const char *optimizer : {"adam", "sgd"}) {
    SCOPED_TRACE(optimizer);
    given.clear();
    left.clear();
    prepare(optimizer);
    ASSERT_FALSE(HasFatalFailure());
    oracle->follow(given, left, answers);
    EXPECT_EQ(answers.size(), left.size());
    for (const TrainingOracle::Answer &candidate : answers)
      EXPECT_TRUE(holds(candidate.name, left.at(candidate.name)))
          << candidate.name;

    Buffer loss = copyOf(left.at("loss"));
    loss.as<float>()[0] *= 1.001f;
    EXPECT_FALSE(holds("loss", loss));
    for (const char *name : {"fc1/weight", "fc2/bias"}) {
      Buffer parameter = copyOf(left.at(name));
      auto old = given.at(name).as<float>(), moved = parameter.as<float>();
      for (size_t i = 0; i < moved.size(); ++i)
        moved[i] = old[i] + 1.001f * (moved[i] - old[i]);
      // A thousandth of a small step may be no more than a rounding.
      if (std::string(optimizer) == "adam")
        EXPECT_FALSE(holds(name, parameter)) << name;
      for (size_t i = 0; i < moved.size(); ++i)
        moved[i] = old[i];
      EXPECT_FALSE(holds(name, parameter)) << name;
    }
  }
}

TEST_F(TrainingOracleTest, SaysWhichArgumentIsMissing) {
  prepare("adam");
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_EQ(oracle->integerBound("label"), 10);
  EXPECT_EQ(oracle->integerBound("x"), 0);
  given.erase("fc1/bias");
  EXPECT_EQ(oracle->run(given).status().toString(),
            "argument 'fc1/bias': was not given to the oracle as f32[24]");
}

TEST_F(TrainingOracleTest, NeedsATraining) {
  Result<TrainingOracle> made = TrainingOracle::create(writeModel(kMlp), {});
  EXPECT_EQ(made.status().code(), StatusCode::InvalidArgument);
}

namespace {

/// A step of four ranks in the oracle, and its initial arguments.
class RankOracleTest : public TrainingOracleTest {
protected:
  static constexpr int64_t kExamples = 8, kRanks = 4;

  TrainingOracle make(int64_t ranks, const std::string &policy) {
    CompileOptions options;
    options.policy = policy;
    options.batch = kExamples / ranks;
    options.training.emplace().optimizer.kind = "sgd";
    options.training->optimizer.numbers["momentum"] = 0.9;
    options.training->initialSeed = 3;
    options.training->distribution.ranks = ranks;
    options.training->lossScale = "none";
    // Whose pieces the caller puts together.
    options.training->distribution.shard = "optimizer";
    std::string path = writeModel(transformer(1).text(kExamples / ranks));
    if (ranks == 1) {
      Result<Executable> step =
          Engine::create(*Device::cpu({.threads = 1}))->compile(path, options);
      EXPECT_TRUE(step.ok()) << step.status().toString();
      std::vector<Buffer> buffers = begin(step->program().arguments);
      for (size_t i = 0; i < buffers.size(); ++i)
        given[step->program().arguments[i].name] = buffers[i];
      for (int32_t &label : given["label"].as<int32_t>())
        label %= 3;
    }
    Result<TrainingOracle> made = TrainingOracle::create(path, options);
    EXPECT_TRUE(made.ok()) << made.status().toString();
    return std::move(*made);
  }

  /// Initial arguments of each rank: its part of the batch, and all states.
  std::vector<TrainingOracle::Arguments> parts() const {
    std::vector<TrainingOracle::Arguments> all;
    for (int64_t rank = 0; rank < kRanks; ++rank) {
      all.push_back(given);
      for (const char *name : {"x", "label"}) {
        const Buffer &whole = given.at(name);
        TensorType type = whole.type();
        type.shape[0] /= kRanks;
        size_t bytes = whole.size() / size_t(kRanks);
        all.back()[name] = *Buffer::fromHost(
            type, {static_cast<const std::byte *>(whole.data()) +
                       size_t(rank) * bytes,
                   bytes});
      }
    }
    return all;
  }

  std::string wired(const std::string &base, const std::string &wire) {
    std::string path = (folder / (base + wire + ".json")).string();
    std::ofstream(path) << R"({"name": "wired", "extends": ")" << base
                        << R"(", "gradient_wire": ")" << wire << "\"}";
    return path;
  }
};

} // namespace

// Without roundings ranks train as one rank does with all of their examples.
TEST_F(RankOracleTest, RanksTogetherGiveWhatOneGives) {
  TrainingOracle one = make(1, "float32"), four = make(kRanks, "float32");
  auto alone = one.run(given);
  ASSERT_TRUE(alone.ok()) << alone.status().toString();
  auto together = four.run(parts());
  ASSERT_TRUE(together.ok()) << together.status().toString();
  ASSERT_EQ(together->size(), size_t(kRanks));
  for (const auto &rank : *together) {
    ASSERT_EQ(rank.size(), alone->size());
    for (size_t i = 0; i < rank.size(); ++i) {
      const std::string &name = rank[i].name;
      ASSERT_EQ(name, (*alone)[i].name);
      // A rank's own.
      if (name == "loss" || name == "logits")
        continue;
      EXPECT_LT(reference::rmsRelativeError(rank[i].exact, (*alone)[i].exact),
                1e-12)
          << name;
      EXPECT_EQ(rank[i].declared.floats(),
                together->front()[i].declared.floats())
          << name;
    }
  }
  EXPECT_TRUE(one.communicationErrors().empty());
}

// Each rank rounds once and the sum is rounded once: at most five halves of a
// unit, and on average far less.
TEST_F(RankOracleTest, TheWireCostsItsRoundings) {
  make(1, "float32");
  for (auto [wire, half] : {std::pair("float32", std::exp2(-24)),
                            std::pair("bfloat16", std::exp2(-9)),
                            std::pair("float16", std::exp2(-12))}) {
    SCOPED_TRACE(wire);
    TrainingOracle oracle = make(kRanks, wired("float32", wire));
    auto answers = oracle.run(parts());
    ASSERT_TRUE(answers.ok()) << answers.status().toString();
    ASSERT_FALSE(oracle.communicationErrors().empty());
    double most = 0;
    for (const TrainingOracle::CommunicationError &error :
         oracle.communicationErrors()) {
      EXPECT_LT(error.rmsRelativeError, 5 * half) << error.parameter;
      most = std::max(most, error.rmsRelativeError);
    }
    EXPECT_GT(most, half / 8);
    // The declared result has the same roundings, so the check tolerates them.
    for (const TrainingOracle::Answer &answer : answers->front())
      if (answer.name == "0/q/weight.momentum")
        EXPECT_GT(reference::rmsRelativeError(answer.declared, answer.exact),
                  half / 8);
  }
}
