//===- Tune.h - one mpc tune ------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_TUNE_H
#define MPC_TOOLS_MPC_TUNE_H

#include "Calibrate.h"
#include "Commands.h"
#include "PolicyFigures.h"
#include "Samples.h"
#include "StopOnSignal.h"
#include "TuneState.h"

#include "mpc/Runtime/Executable.h"
#include "mpc/Tuning/KernelTimes.h"
#include "mpc/Tuning/Sensitivity.h"
#include "mpc/Tuning/Tuner.h"
#include "mpc/Tuning/TypeSpace.h"

#include <chrono>
#include <memory>

namespace mpc::tool {

/// How near an output is to float64's, over samples the worst of each.
struct OutputAgreement {
  std::string name;
  double cosine = 1;
  /// Of its norm to the exact one, the farthest from 1.
  double normRatio = 1;

  void add(const reference::Tensor &wanted, const reference::Tensor &actual);
};

/// What the fastest run took, and each kernel, in the order of launches, in its
/// fastest.
struct PolicyTimes {
  double seconds = 0;
  std::vector<TimedKernel> kernels;
};

/// Runs a model under policies and says what they do to it.
class PolicyMeter {
public:
  PolicyMeter(const CommonOptions &common, const SampledModel &model,
              Budget::Measure measure)
      : common(common), model(model), meter(measure) {}

  /// Finds out whether programs run here; where not, the oracle stands in for
  /// them with the types of the graph.
  Status prepare();
  /// The outputs of sample number `sample` in float64.
  void expect(size_t sample, llvm::SmallVector<reference::Tensor> outputs);
  bool isCompiled() const { return compiles; }

  /// What the policy in the file `path` does on `samples`; timed on the first
  /// of them where programs run here and `isTimed`. `agreements`, where not
  /// null, get an entry for each float output.
  Result<PolicyFigures>
  measure(const std::string &path, llvm::ArrayRef<size_t> samples, bool isTimed,
          std::vector<OutputAgreement> *agreements = nullptr) const;

  /// The program under the policy in the file `path`, where programs run here.
  Result<Executable> load(const std::string &path) const;
  /// Runs all of them in turn, so that what disturbs one disturbs the others.
  Result<std::vector<PolicyTimes>>
  timeInTurn(const std::vector<Executable> &executables, size_t sample) const;

private:
  /// A graph with the types of a policy.
  struct Typed {
    std::unique_ptr<Compiler> compiler;
    Compiler::Module module;
    /// The stage that it has passed.
    const char *stage;
  };
  Result<Typed> assignTypes(const std::string &path) const;
  Result<std::shared_ptr<Program>> generate(Typed &typed) const;
  /// Receives the outputs on a sample.
  using Receiver =
      std::function<void(size_t sample, llvm::ArrayRef<reference::Tensor>)>;
  Status interpret(Compiler &compiler, mlir::ModuleOp module,
                   llvm::ArrayRef<size_t> samples,
                   const Receiver &receive) const;
  Status execute(const Executable &executable, llvm::ArrayRef<size_t> samples,
                 const Receiver &receive) const;

  const CommonOptions &common;
  const SampledModel &model;
  Budget::Measure meter;
  bool compiles = false;
  std::optional<Device> device;
  std::vector<llvm::SmallVector<reference::Tensor>> wanted;
};

/// A drawn choice: what was foretold of it and what it errs.
struct TuningTrial {
  double predicted = 0, measured = 0;
};

/// The command again, without what changes nothing of what is found.
std::string commandOf(const TuneArguments &arguments);

/// A policy in a file of its own, which goes with this.
class TemporaryPolicy {
public:
  static Result<TemporaryPolicy> write(const Json &policy);
  const std::string &path() const { return file->path(); }

private:
  std::unique_ptr<TemporaryFile> file;
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
  /// Reads what an earlier search has left.
  Status resume();
  /// Of a training step: the loss scale that loses least.
  Status chooseScale();
  /// Ranges and float64's outputs.
  Status lookAtSamples();
  Status makeSpace();
  /// What types and forms of weights may be chosen where nobody says.
  void chooseTypes(const FusionTarget &target);
  /// Whether what costs least keeps the budget: there is nothing to search.
  Status tryCheapest();
  /// Whether no built-in policy costs less once it is compiled, or is faster
  /// where that counts.
  Result<bool> costsLeast(const TunedPoint &point, BudgetSearch &cheap);
  /// The sensitivities, unless what costs least will do.
  Status differentiate();
  /// What is known of a choice, or what a compile says.
  Result<PolicyFigures> measure(const Choice &choice, TuneState::Part part);
  Result<PolicyFigures>
  compileAndMeasure(const Choice &choice, TuneState::Part part,
                    std::vector<OutputAgreement> *agreements = nullptr);
  /// Of figures that of the objective.
  double costOf(const PolicyFigures &figures) const;
  Result<double> compiledCost(const Choice &choice) const;
  TuningQuestions questions(Status &failed);
  /// How near outputs of a training step are.
  Status lookAtAgreement();
  /// Searches by the budget of error or of cost.
  Status search();
  /// Tunes to the limit, and more tightly where samples that were held back
  /// break it.
  Status searchError(const TuningQuestions &questions, const Status &failed);
  /// What the best errs on the samples that were held back is what is promised.
  Status lookAtHeldBack();
  Status searchCost(const TuningQuestions &questions, const Status &failed);
  /// Whether what is chosen may need no more of the other of bytes and time
  /// than the best built-in policy.
  bool isGuarded() const;
  /// Chooses among the points that keep the budget what costs least and needs
  /// no more of bytes and time than the best built-in policy; where bytes are
  /// the objective, looks for more of these.
  Status chooseBeside(const TuningQuestions &questions, const Status &failed);
  /// Times choices in turn: what else runs on the machine disturbs single
  /// measurements.
  Status timeInTurn(llvm::ArrayRef<Choice> choices);
  Result<bool> isAsFast(const Choice &choice, std::vector<Choice> others);
  /// Times each option of all products at once, values wide and narrow.
  Status timeOptions();
  /// Whether a point keeps the budget on all samples.
  Result<bool> holds(const TunedPoint &point);
  /// Of points those that are worth a time.
  Result<std::vector<TunedPoint>> contenders(std::vector<TunedPoint> pool);
  Rival rivalOf(const TunedPoint &point) const;
  /// Times points, built-in ones among them, and takes the best.
  Status chooseTimed(llvm::ArrayRef<TunedPoint> points);
  Result<std::vector<TunedPoint>> searchTimed(const TuningQuestions &questions,
                                              double target);
  bool stops() const;
  /// Measures drawn choices.
  Status measureTrials();
  /// What the budget says, in words.
  std::string budgetText() const {
    return costBudget ? costBudget->text() : budget.text();
  }
  Json policyFile(const TunedPoint &point) const;
  /// Gives a policy that rounds weights the hash of the model with these.
  Status describeModel(Json &file);
  Json shares(const Choice &choice) const;
  /// What is wide because 16 bits would ruin it, each with a sentence.
  Json ruined(const Choice &choice) const;
  Json describe(const TunedPoint &point) const;
  Json describeTrials() const;
  Json document() const;
  /// What mpc explain says of a point's policy, with shares of the error.
  Result<Json> explain(const TunedPoint &point);
  int report();
  std::string whyNothing() const;
  double seconds() const;
  std::string unit() const {
    return objective == TuningObjective::Time     ? "seconds"
           : objective == TuningObjective::Memory ? "bytes of memory"
                                                  : "bytes";
  }

  const TuneArguments &arguments;
  Reporter reporter;
  std::chrono::steady_clock::time_point start =
      std::chrono::steady_clock::now();
  Budget budget;
  /// In place of a budget of error.
  std::optional<CostBudget> costBudget;
  TuningObjective objective = TuningObjective::Bytes;
  std::vector<PolicyType> types;
  /// Forms that weights may have; empty where --types names none.
  std::vector<WeightType> weights;
  SampledModel model;
  std::vector<size_t> searched, heldBack;
  RangeRecorder ranges;
  std::string digest;
  TuneState state;
  /// Of each searched sample, until it has been differentiated.
  std::map<size_t, ForwardValues> forwards;
  /// Once there is something to keep.
  std::optional<StopOnSignal> stopper;
  std::optional<Sensitivity> sensitivity;
  std::optional<PolicyMeter> meter;
  std::optional<TypeSpace> space;
  std::optional<BudgetSearch> finder;
  std::vector<PricedChoice> front;
  TuningResult result;
  /// The budget, tightened by samples that were held back.
  Budget aim;
  /// What the built-in policies choose, float32 among them, and the best of
  /// them.
  std::vector<Choice> builtIn;
  std::optional<TunedPoint> bar;
  /// Of choices that were timed in turn.
  std::map<Choice, double> secondsOf;
  std::map<Choice, Executable> loaded;
  std::optional<KernelTimes> kernelTimes;
  /// Whether what costs least kept the budget, so that nothing was
  /// differentiated.
  bool isCheapest = false;
  /// What the best point errs on samples that the search did not see.
  std::optional<double> promised;
  int looks = 0;
  int64_t measurements = 0;
  /// Of the model on a sample: forwards, backwards, and of compiled choices.
  int64_t runs = 0;
  std::vector<TuningTrial> trials;
  /// Of a training step.
  std::optional<LossScaleChoice> lossScale;
  std::vector<OutputAgreement> agreements;
};

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_TUNE_H
