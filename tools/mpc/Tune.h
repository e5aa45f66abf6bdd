//===- Tune.h - one mpc tune ------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_TUNE_H
#define MPC_TOOLS_MPC_TUNE_H

#include "Calibrate.h"
#include "Commands.h"
#include "Samples.h"

#include "mpc/Tuning/Sensitivity.h"
#include "mpc/Tuning/Tuner.h"
#include "mpc/Tuning/TypeSpace.h"

#include "llvm/Support/FileUtilities.h"

#include <chrono>
#include <memory>

namespace mpc::tool {

/// Runs a model under policies and says how far it is from float64.
class PolicyMeter {
public:
  PolicyMeter(const CommonOptions &common, const SampledModel &model,
              Budget::Measure measure)
      : common(common), model(model), measure(measure) {}

  /// Finds out whether programs run here; where not, the oracle stands in for
  /// them with the types of the graph.
  Status prepare();
  /// The outputs of sample number `sample` in float64.
  void expect(size_t sample, llvm::SmallVector<reference::Tensor> outputs);
  bool isCompiled() const { return compiles; }

  /// The error of the policy in the file `path` over `samples`.
  Result<double> error(const std::string &path,
                       llvm::ArrayRef<size_t> samples) const;

private:
  Result<std::vector<std::vector<reference::Tensor>>>
  outputs(const std::string &path, llvm::ArrayRef<size_t> samples) const;

  const CommonOptions &common;
  const SampledModel &model;
  Budget::Measure measure;
  bool compiles = false;
  std::optional<Device> device;
  std::vector<llvm::SmallVector<reference::Tensor>> wanted;
};

/// A policy in a file of its own, which goes with this.
class TemporaryPolicy {
public:
  static Result<TemporaryPolicy> write(const Json &policy);
  const std::string &path() const { return file; }

private:
  std::string file;
  std::unique_ptr<llvm::FileRemover> remover;
};

/// One `mpc tune`.
class TuneCommand {
public:
  explicit TuneCommand(const TuneArguments &arguments)
      : arguments(arguments),
        reporter(arguments.common.json, arguments.common.quiet) {}
  int run();

private:
  Status readFlags();
  std::vector<Status> loadModel();
  /// Ranges, float64's outputs and the sensitivities.
  Status lookAtSamples();
  Status makeSpace();
  Result<double> measure(const Choice &choice, llvm::ArrayRef<size_t> samples);
  /// Tunes to the limit, and more tightly where samples that were held back
  /// break it.
  Status search();
  Json policyFile(const TunedPoint &point) const;
  Json shares(const Choice &choice) const;
  Json describe(const TunedPoint &point) const;
  Json document() const;
  /// What mpc explain says of a point's policy, with shares of the error.
  Result<Json> explain(const TunedPoint &point);
  int report();
  double seconds() const;
  std::string unit() const {
    return objective == TuningObjective::Bytes ? "bytes" : "seconds";
  }

  const TuneArguments &arguments;
  Reporter reporter;
  std::chrono::steady_clock::time_point start =
      std::chrono::steady_clock::now();
  Budget budget;
  TuningObjective objective = TuningObjective::Bytes;
  std::vector<PolicyType> types;
  SampledModel model;
  std::vector<size_t> searched, heldBack;
  RangeRecorder ranges;
  std::string digest;
  std::optional<Sensitivity> sensitivity;
  std::optional<PolicyMeter> meter;
  std::optional<TypeSpace> space;
  std::optional<BudgetSearch> finder;
  std::vector<PricedChoice> front;
  TuningResult result;
  /// What the best point errs on samples that the search did not see.
  std::optional<double> promised;
  int looks = 0;
  int64_t measurements = 0;
};

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_TUNE_H
