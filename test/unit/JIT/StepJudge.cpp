//===- StepJudge.cpp - training steps against the oracle ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepJudge.h"

#include "mpc/JIT/Engine.h"
#include "mpc/Target/CUDA/Host/HostDevice.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

using namespace mpc;
using mpc::reference::OutputError;
using mpc::reference::Tensor;

/// One rounding. Sums, products, quotients and roots of floats are exact enough
/// in double that rounding them again gives the result of the float operation.
static float rounded(double value) { return static_cast<float>(value); }

/// The 16 bits of `value` in `element`, to nearest, ties to even.
static uint16_t narrowed(float value, ElementType element) {
  if (element == ElementType::F16)
    return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
  uint32_t bits = std::bit_cast<uint32_t>(value);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

//===----------------------------------------------------------------------===//
// Set-up
//===----------------------------------------------------------------------===//

StepJudge::StepJudge(const std::string &path, const CompileOptions &options,
                     const CompileOptions *oracleOptions)
    : training(options.training.value()) {
  Device device = cudaHostDevice();
  Result<Executable> compiled = Engine::create(device)->compile(path, options);
  EXPECT_TRUE(compiled.ok()) << compiled.status().toString();
  CompileOptions choices = oracleOptions ? *oracleOptions : options;
  choices.target = "cuda:" + device.architecture();
  Result<TrainingOracle> made = TrainingOracle::create(path, choices);
  EXPECT_TRUE(made.ok()) << made.status().toString();
  if (!compiled.ok() || !made.ok())
    return;
  executable = *compiled;
  oracle = std::move(*made);
  for (const ProgramValue &value : program().arguments) {
    arguments.push_back(*Buffer::allocate(value.type));
    if (value.initial)
      std::memcpy(arguments.back().data(), value.initial.get(),
                  arguments.back().size());
  }
  Named named = snapshot();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const ProgramValue &value = program().arguments[i];
    if (value.role != "parameter_copy")
      continue;
    std::string master = value.name.substr(0, value.name.rfind('.'));
    auto from = named.at(master).as<float>();
    auto to = arguments[i].as<uint16_t>();
    for (size_t k = 0; k < to.size(); ++k)
      to[k] = narrowed(from[k], value.type.element);
  }
}

void StepJudge::drawBatch() {
  // Deviation 1, and no tails that overflow.
  std::uniform_real_distribution<float> uniform(-std::sqrt(3.0f),
                                                std::sqrt(3.0f));
  for (size_t i = 0; i < arguments.size(); ++i) {
    const ProgramValue &value = program().arguments[i];
    if (value.role != "input" && value.role != "label")
      continue;
    if (value.type.element == ElementType::F32) {
      for (float &x : arguments[i].as<float>())
        x = uniform(random);
      continue;
    }
    int64_t bound = oracle->integerBound(value.name);
    ASSERT_GT(bound, 0) << value.name;
    for (int32_t &index : arguments[i].as<int32_t>())
      index = int32_t(random() % uint64_t(bound));
  }
}

StepJudge::Named StepJudge::snapshot() const {
  Named named;
  for (size_t i = 0; i < arguments.size(); ++i)
    named[program().arguments[i].name] =
        *Buffer::fromHost(arguments[i].type(),
                          {static_cast<const std::byte *>(arguments[i].data()),
                           arguments[i].size()});
  return named;
}

std::vector<Buffer> StepJudge::run() {
  drawBatch();
  Result<std::vector<Buffer>> results = executable->run(arguments);
  EXPECT_TRUE(results.ok()) << results.status().toString();
  ++done;
  return results.ok() ? *results : std::vector<Buffer>();
}

//===----------------------------------------------------------------------===//
// Verdicts
//===----------------------------------------------------------------------===//

std::string StepJudge::faultOfParameter(const std::string &name,
                                        const Named &before,
                                        const Named &after) const {
  auto stateOf = [&](const char *state) {
    return after.at(name + "." + state).as<float>();
  };
  auto number = [&](const char *key, double absent) {
    auto found = training.optimizer.numbers.find(key);
    return found == training.optimizer.numbers.end() ? absent : found->second;
  };
  auto old = before.at(name).as<float>(), actual = after.at(name).as<float>();
  // The number of the step, from 1.
  auto t = double(before.at("step").as<int64_t>()[0] + 1);
  double rate = rounded(training.schedule.base);
  std::vector<float> wanted(old.size());
  if (training.optimizer.kind == "sgd") {
    auto momentum = stateOf("momentum");
    for (size_t i = 0; i < old.size(); ++i)
      wanted[i] = rounded(old[i] - double(rounded(rate * momentum[i])));
  } else {
    auto m = stateOf("exp_avg"), v = stateOf("exp_avg_sq");
    double beta1 = number("beta1", 0.9), beta2 = number("beta2", 0.999);
    double corrected = rounded(rate / (1 - std::pow(beta1, t)));
    double divisor = rounded(std::sqrt(1 - std::pow(beta2, t)));
    double epsilon = rounded(number("epsilon", 1e-8));
    for (size_t i = 0; i < old.size(); ++i) {
      double root = rounded(rounded(std::sqrt(double(v[i]))) / divisor);
      double share = rounded(double(rounded(corrected * m[i])) /
                             double(rounded(root + epsilon)));
      wanted[i] = rounded(old[i] - share);
    }
  }
  for (size_t i = 0; i < old.size(); ++i)
    if (actual[i] != wanted[i])
      return "element " + std::to_string(i) + " is " +
             std::to_string(actual[i]) + ", but " + std::to_string(wanted[i]) +
             " follows from the new states";
  return "";
}

std::string StepJudge::faultOfCopy(const ProgramValue &copy,
                                   const Named &after) const {
  auto actual = after.at(copy.name).as<uint16_t>();
  auto master = after.at(copy.name.substr(0, copy.name.rfind('.'))).as<float>();
  for (size_t i = 0; i < actual.size(); ++i)
    if (actual[i] != narrowed(master[i], copy.type.element))
      return "element " + std::to_string(i) +
             " is not the parameter's rounded to " +
             std::string(elementTypeName(copy.type.element));
  return "";
}

std::vector<std::string> StepJudge::faultsOfAStep() {
  std::vector<std::string> faults;
  drawBatch();
  Named before = snapshot();
  Result<std::vector<Buffer>> results = executable->run(arguments);
  Result<std::vector<TrainingOracle::Answer>> answers = oracle->run(before);
  EXPECT_TRUE(results.ok()) << results.status().toString();
  EXPECT_TRUE(answers.ok()) << answers.status().toString();
  ++done;
  if (!results.ok() || !answers.ok())
    return {"there is nothing to judge"};
  Named after = snapshot(), computed;
  for (size_t i = 0; i < results->size(); ++i)
    computed[program().results[i].name] = (*results)[i];
  oracle->follow(before, computed, *answers);
  std::map<std::string, const TrainingOracle::Answer *> answerOf;
  for (const TrainingOracle::Answer &answer : *answers)
    answerOf[answer.name] = &answer;

  for (size_t i = 0; i < results->size(); ++i) {
    const ProgramValue &value = program().results[i];
    std::string where = "step " + std::to_string(done) + ", " + value.name;
    if (value.role == "parameter" || value.role == "parameter_copy") {
      std::string fault = value.role == "parameter"
                              ? faultOfParameter(value.name, before, after)
                              : faultOfCopy(value, after);
      if (!fault.empty())
        faults.push_back(where + ": " + fault);
      continue;
    }
    auto found = answerOf.find(value.name);
    if (found == answerOf.end()) {
      faults.push_back(where + ": the oracle has no such result");
      continue;
    }
    const TrainingOracle::Answer &answer = *found->second;
    OutputError error = reference::compareOutput(
        Tensor::fromBytes(answer.declared.getType(), (*results)[i].data()),
        answer.exact, answer.declared, oracle->longestReduction(),
        /*fatalIntegers=*/true, &answer.magnitudes);
    if (!error.ok)
      faults.push_back(
          where + ": error " + std::to_string(error.rmsRelativeError * 0x1p24) +
          " over tolerance " + std::to_string(error.tolerance * 0x1p24) +
          " (units of 2^-24), " + std::to_string(error.mismatches) +
          " mismatches; " +
          reference::describeComponentError(error, value.type.shape));
    // A comparison of zeros would hold for a step that does nothing.
    if (value.role == "optimizer_state") {
      double largest = 0;
      for (double element : answer.exact.floats())
        largest = std::max(largest, std::fabs(element));
      EXPECT_GT(largest, 0) << where;
    }
  }
  return faults;
}

void StepJudge::judge(int64_t steps) {
  for (int64_t step = 0; step < steps; ++step)
    for (const std::string &fault : faultsOfAStep())
      ADD_FAILURE() << fault;
}
