//===- Tune.h - implementation of mpc tune ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_TUNE_H
#define MPC_TOOLS_MPC_TUNE_H

#include "Calibrate.h"
#include "Commands.h"
#include "DecoderText.h"
#include "PolicyMeasurements.h"
#include "ProgressLine.h"
#include "SampleInputs.h"
#include "StopOnSignal.h"
#include "TuneState.h"

#include "mpc/Runtime/Executable.h"
#include "mpc/Tuning/CorrespondingErrors.h"
#include "mpc/Tuning/KernelTimeModel.h"
#include "mpc/Tuning/PolicySearchSpace.h"
#include "mpc/Tuning/Sensitivity.h"
#include "mpc/Tuning/Tuner.h"

#include <chrono>
#include <memory>

namespace mpc::tool {

/// Agreement of an output with float64's, the worst over samples.
struct OutputAgreement {
  std::string name;
  double cosine = 1;
  /// Ratio of its norm to the exact one, the farthest from 1.
  double normRatio = 1;

  void add(const reference::Tensor &wanted, const reference::Tensor &actual);
};

/// Minimum time of a run, and of each kernel in launch order.
struct PolicyTimes {
  double seconds = 0;
  std::vector<TimedKernel> kernels;
};

/// Measures a model under policies.
class PolicyEvaluator {
public:
  /// With a `text`, whose windows are the samples, only the logits count, and
  /// errors are those of NextTokenMeter.
  PolicyEvaluator(const CommonOptions &common, const SampledModel &model,
                  Budget::Measure measure, const DecoderText *text = nullptr)
      : common(common), model(model), meter(measure), text(text) {}

  /// Checks whether programs run here; otherwise the oracle replaces them, with
  /// the graph's types.
  Status prepare();
  /// Sets the outputs of sample `sample` in float64.
  void expect(size_t sample, llvm::SmallVector<reference::Tensor> outputs);
  bool isCompiled() const { return compiles; }

  /// Measures the policy file `path` on `samples`; if programs run here and
  /// `isTimed`, also times the first. `agreements`, if not null, gets an entry
  /// for each float output; `tokens`, if not null, the agreement on the text.
  Result<PolicyMeasurements>
  measure(const std::string &path, llvm::ArrayRef<size_t> samples, bool isTimed,
          std::vector<OutputAgreement> *agreements = nullptr,
          NextTokenMeter *tokens = nullptr) const;

  /// Returns the bytes of the program under the policy file `path`, without
  /// compiling its kernels.
  Result<PolicyMeasurements> plan(const std::string &path) const;

  /// Compiles the program under the policy file `path`, if programs run here.
  Result<Executable> load(const std::string &path) const;
  /// Times all of them in alternation, so that disturbances affect all alike.
  Result<std::vector<PolicyTimes>>
  timeInTurn(const std::vector<Executable> &executables, size_t sample) const;

private:
  /// A graph with the types of a policy.
  struct Typed {
    std::unique_ptr<Compiler> compiler;
    Compiler::Module module;
    /// The last stage that it passed.
    const char *stage;
  };
  Result<Typed> assignTypes(const std::string &path) const;
  Result<std::shared_ptr<Program>> generate(Typed &typed, bool withCode) const;
  /// Receives the outputs of a sample.
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
  const DecoderText *text;
  bool compiles = false;
  std::optional<Device> device;
  std::vector<llvm::SmallVector<reference::Tensor>> wanted;
};

/// Predicted and measured error of a random configuration.
struct TuningTrial {
  double predicted = 0, measured = 0;
};

/// Returns the command line, without flags that do not affect the result.
std::string commandOf(const TuneArguments &arguments);

/// A temporary policy file, deleted by the destructor.
class TemporaryPolicy {
public:
  static Result<TemporaryPolicy> write(const Json &policy);
  const std::string &path() const { return file->path(); }

private:
  std::unique_ptr<TemporaryFile> file;
};

/// State of one `mpc tune`.
class TuneCommand {
public:
  explicit TuneCommand(const TuneArguments &arguments)
      : arguments(arguments),
        reporter(arguments.common.json, arguments.common.quiet) {}
  int run();

private:
  Status readFlags();
  std::vector<Status> loadModel();
  /// Reads the text and imports the decoder for its windows and for a step.
  std::vector<Status> loadDecoder(const CompileOptions &options);
  Status checkTextBudget() const;
  /// Loads the state of an earlier search.
  Status resume();
  /// For a training step: selects the loss scale with the least loss of
  /// precision.
  Status chooseScale();
  /// Records ranges and float64 outputs.
  Status evaluateSamples();
  /// Refuses reference logits of a window of the text that are NaN or positive
  /// infinity.
  Status checkLogits(const reference::Tensor &logits, size_t window) const;
  Status makeSpace();
  /// Reads a recipe of --types; fails with the reason if `text` is none.
  Status readRecipe(const std::string &text);
  /// Finds the contractions that the recipe quantizes.
  Result<std::optional<OperandRecipe>> findQuantized();
  /// Sets the default types and weight formats.
  void chooseTypes(const CastFusionTarget &target);
  /// Tries the cheapest configuration: if it satisfies the budget, there is
  /// nothing to search.
  Status refineCheapest();
  /// Returns true if no built-in policy is cheaper once compiled, or faster if
  /// that matters.
  Result<bool> costsLeast(const TunedPoint &point, BudgetSearch &cheap);
  /// Makes the search of a decoder's weights fast, prices its configurations as
  /// measured points are priced, and adds the uniform ones.
  Status priceDecoder(BudgetSearchProblem &problem);
  /// Computes sensitivities, unless the cheapest configuration is sufficient.
  Status differentiate();
  /// Returns the cached or measured figures of a configuration.
  Result<PolicyMeasurements> measure(const Choice &choice,
                                     TuneState::Part part);
  Result<PolicyMeasurements>
  compileAndMeasure(const Choice &choice, TuneState::Part part,
                    std::vector<OutputAgreement> *agreements = nullptr);
  /// Returns the figure of the objective.
  double costOf(const PolicyMeasurements &figures) const;
  Result<double> plannedCost(const Choice &choice) const;
  /// Prices the Pareto front as measured points are priced: by the traffic, or
  /// memory, of the planned program. The search's own prices leave out what
  /// every assignment moves.
  Status priceFront();
  TuningCallbacks questions(Status &failed);
  /// Measures the agreement of a training step's outputs.
  Status evaluateAgreement();
  /// Measures the agreement of next-token distributions on the whole text.
  Status evaluateText();
  /// Searches by an error or cost budget.
  Status search();
  /// Tunes to the limit, tightening it after validation failures.
  Status searchError(const TuningCallbacks &questions, const Status &failed);
  /// Measures the best point's error on the validation set.
  Status evaluateValidation();
  Status searchCost(const TuningCallbacks &questions, const Status &failed);
  /// True if the result must not exceed the best built-in policy in the other
  /// one of bytes and time.
  bool isGuarded() const;
  /// Selects the cheapest configuration within the error budget whose bytes and
  /// time are both at most those of the best built-in policy; if bytes are the
  /// objective, searches for more configurations. Returns `failed` if a
  /// callback of `questions` has set it to an error.
  Status chooseAmongTypes(const TuningCallbacks &questions,
                          const Status &failed);
  /// Times configurations in alternation, to cancel disturbances.
  Status timeInTurn(llvm::ArrayRef<Choice> choices);
  Result<bool> isAsFast(const Choice &choice, std::vector<Choice> others);
  /// Times each option applied to all contractions, with values in f32 and
  /// narrow.
  Status timeOptions();
  /// Returns true if a point satisfies the budget on all samples.
  Result<bool> holds(const TunedPoint &point);
  /// Returns the points that are worth timing.
  Result<std::vector<TunedPoint>> contenders(std::vector<TunedPoint> pool);
  TuningCandidate rivalOf(const TunedPoint &point) const;
  /// Times points, including built-in ones, and selects the best.
  Status chooseTimed(llvm::ArrayRef<TunedPoint> points);
  Result<std::vector<TunedPoint>> searchTimed(const TuningCallbacks &questions,
                                              double target);
  bool stops() const;
  /// Measures random configurations.
  Status measureTrials();
  /// Formats the budget.
  std::string budgetText() const {
    return costBudget ? costBudget->text() : budget.text();
  }
  Json policyFile(const TunedPoint &point) const;
  /// Adds the hash of the model with quantized weights to a policy with these.
  Status describeModel(Json &file);
  Json shares(const Choice &choice) const;
  /// Describes each layer's weights: format, bytes, share of the error.
  Json layers(const Choice &choice) const;
  Json describeText(const Choice &choice) const;
  void reportText(const Json &found);
  /// Lists what stays in f32 because 16 bits would ruin it, with reasons.
  Json ruined(const Choice &choice) const;
  Json describe(const TunedPoint &point) const;
  Json describeTrials() const;
  Json document() const;
  /// Returns the explanation of a point's policy, with error contributions.
  Result<Json> explain(const TunedPoint &point);
  int report();
  /// Reports that a signal ended the search before it had a result.
  int reportInterrupt();
  /// Formats how --resume continues an interrupted search.
  std::string howToResume() const;
  /// Formats the outcome: "1.6x faster than float32 (115 -> 72 ms), ...".
  std::string outcome() const;
  /// Formats a cost: "49.0 MB", "72 ms".
  std::string costText(double cost) const;
  /// Returns the name of the built-in policy with this assignment; empty if
  /// there is none.
  std::string builtInName(const Choice &choice) const;
  std::string explainEmptyResult() const;
  double seconds() const;
  /// Heading of a column of costs.
  std::string costHeading() const {
    return objective == TuningObjective::Time     ? "time"
           : objective == TuningObjective::Memory ? "memory"
           : isOfWeights()                        ? "weights"
           : text                                 ? "bytes per token"
                                                  : "traffic";
  }
  /// True if the cost is the size of the tuned weights alone.
  bool isOfWeights() const { return costBudget && costBudget->bits; }
  /// The model whose cost is minimized: of a decoder the decode step.
  const SampledModel &costModel() const { return text ? step : model; }
  const PolicyEvaluator &costMeter() const {
    return text ? *stepMeter : *meter;
  }
  /// The errors of costModel().
  const RoundingErrorModel &errors() const {
    return stepErrors ? static_cast<const RoundingErrorModel &>(*stepErrors)
                      : *sensitivity;
  }

  const TuneArguments &arguments;
  Reporter reporter;
  std::chrono::steady_clock::time_point start =
      std::chrono::steady_clock::now();
  Budget budget;
  /// Replaces an error budget.
  std::optional<CostBudget> costBudget;
  TuningObjective objective = TuningObjective::Bytes;
  std::vector<PolicyType> types;
  /// Allowed weight formats, from the most precise; empty if --types names
  /// none.
  std::vector<WeightFormat> weights;
  /// The recipe in --types, as fields of a policy; null if there is none.
  std::string recipe;
  Json recipeFields;
  SampledModel model;
  std::optional<OperandChanges> operandChanges;
  /// With --text: the windows, the decode step, and its ops' counterparts in
  /// the model for a window.
  std::optional<DecoderText> text;
  SampledModel step;
  std::optional<PolicyEvaluator> stepMeter;
  std::optional<CorrespondingOps> stepOps;
  std::optional<CorrespondingErrors> stepErrors;
  std::optional<NextTokenMeter> agreement;
  std::vector<size_t> searched, heldBack;
  RangeRecorder ranges;
  std::string digest;
  TuneState state;
  /// Float64 values of each calibration sample, until differentiated.
  std::map<size_t, ForwardValues> forwards;
  std::optional<StopOnSignal> stopper;
  std::optional<ProgressLine> progress;
  std::optional<Sensitivity> sensitivity;
  std::optional<PolicyEvaluator> meter;
  std::optional<PolicySearchSpace> space;
  std::optional<BudgetSearch> finder;
  /// The Pareto front of predicted errors, by cost.
  std::vector<PricedConfiguration> front;
  TuningResult result;
  /// The budget, tightened after validation failures.
  Budget aim;
  /// Configurations of the built-in policies, including float32, and the best
  /// of them.
  std::vector<Choice> builtIn;
  std::optional<TunedPoint> bar;
  /// Times measured in alternation.
  std::map<Choice, double> secondsOf;
  std::map<Choice, Executable> loaded;
  std::optional<KernelTimeModel> kernelTimes;
  /// True if the cheapest configuration satisfies the budget, so that
  /// sensitivities were not computed.
  bool isCheapest = false;
  /// Error of the best point on the validation set.
  std::optional<double> promised;
  int looks = 0;
  int64_t measurements = 0;
  /// Model evaluations: forward, backward, and of compiled configurations.
  int64_t runs = 0;
  std::vector<TuningTrial> trials;
  /// For a training step.
  std::optional<LossScaleChoice> lossScale;
  std::vector<OutputAgreement> agreements;
};

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_TUNE_H
