//===- Tune.cpp - mpc tune ------------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Half of the samples (the calibration set) measure the effect of roundings on
// the outputs; the search spends the error budget accordingly, and each
// proposed point is compiled and measured against float64. The other half is
// the validation set.
//
//===----------------------------------------------------------------------===//

#include "Tune.h"

#include "HtmlReport.h"
#include "Inputs.h"

#include "mpc/Analysis/GraphDigest.h"
#include "mpc/Support/Files.h"

#include "llvm/Support/MD5.h"

#include <algorithm>
#include <cmath>

using namespace mpc;
using namespace mpc::tool;

/// Number of prices at which the Pareto front is sampled.
static constexpr int kFrontPrices = 12;
/// Maximum number of validation failures that tighten the search.
static constexpr int kMostLooks = 5;
/// Safety factor on the limit after a validation failure.
static constexpr double kCaution = 0.9;

double TuneCommand::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

Status TuneCommand::readFlags() {
  llvm::Expected<std::optional<CostBudget>> cost =
      CostBudget::parse(arguments.budget);
  if (!cost)
    return Status(StatusCode::InvalidArgument, "--budget",
                  llvm::toString(cost.takeError()));
  costBudget = *cost;
  if (!costBudget) {
    llvm::Expected<Budget> parsed = Budget::parse(arguments.budget);
    if (!parsed)
      return Status(StatusCode::InvalidArgument, "--budget",
                    llvm::toString(parsed.takeError()));
    budget = *parsed;
  }
  objective = parseTuningObjective(arguments.objective)
                  .value_or(costBudget ? costBudget->objective
                                       : TuningObjective::Bytes);
  if (costBudget && objective != costBudget->objective)
    return Status(
        StatusCode::InvalidArgument, "--objective " + arguments.objective,
        "contradicts --budget \"" + arguments.budget +
            "\", which minimizes the error at a given cost; drop --objective");
  if (arguments.resume && arguments.output.empty())
    return Status(StatusCode::InvalidArgument, "--resume",
                  "needs -o: the state is stored next to the output policy");
  if (arguments.common.policy != CommonOptions().policy)
    return Status(StatusCode::InvalidArgument,
                  "--policy " + arguments.common.policy,
                  "is the result of mpc tune; drop --policy");
  for (const std::string &text : arguments.types) {
    std::optional<PolicyType> type = parsePolicyType(text);
    std::optional<WeightType> form = parseWeightType(text);
    constexpr PolicyType kKnown[] = {PolicyType::Float32, PolicyType::Float16,
                                     PolicyType::BFloat16,
                                     PolicyType::TensorFloat32};
    if (type && llvm::is_contained(kKnown, *type))
      types.push_back(*type);
    else if (form)
      weights.push_back(*form);
    else
      return Status(
          StatusCode::InvalidArgument, "--types",
          "'" + text +
              "' is neither a compute type (f16, bf16, tf32, f32) nor a type "
              "of quantized weights (int16, int8, int4, float8_e4m3fn)");
  }
  return {};
}

std::vector<Status> TuneCommand::loadModel() {
  Result<CompileOptions> options =
      makeCompileOptions(arguments.common, reporter);
  if (!options.ok())
    return {options.status()};
  if (Status status = setGradients(arguments.training, *options); !status.ok())
    return {status};
  if (std::vector<Status> problems =
          model.load(arguments.common, arguments.samples, *options);
      !problems.empty())
    return problems;
  for (size_t i = 0; i < model.samples().size(); ++i)
    (i % 2 == 0 ? searched : heldBack).push_back(i);
  if (heldBack.empty())
    reporter.note("there is only one sample, so the result is not validated on "
                  "other data; give at least two");
  bool needsRows = budget.measure == Budget::Measure::Kl ||
                   budget.measure == Budget::Measure::Top1;
  bool measurable =
      llvm::any_of(resultsOf(model.entry()), [&](const ProgramValue &value) {
        const std::vector<int64_t> &shape = value.type.shape;
        return isFloat(value.type.element) &&
               (!needsRows || (!shape.empty() && shape.back() > 1));
      });
  if (!measurable)
    return {
        Status(StatusCode::InvalidArgument, arguments.common.model,
               "has no float output " +
                   std::string(needsRows ? "with rows of two or more " : "") +
                   "whose error a budget can limit")};
  return {};
}

/// Returns a hash of everything that determines the search.
static std::string keyOf(const SampledModel &model, const std::string &digest,
                         const std::string &command) {
  llvm::MD5 hash;
  hash.update(digest);
  hash.update(command);
  hash.update(model.compiler().targetName());
  for (const Sample &sample : model.samples())
    for (const Buffer &buffer : sample.buffers)
      hash.update(llvm::StringRef(static_cast<const char *>(buffer.data()),
                                  buffer.size()));
  llvm::MD5::MD5Result result;
  hash.final(result);
  return result.digest().str().str();
}

Status TuneCommand::resume() {
  digest = graphDigest(model.entry());
  if (arguments.output.empty())
    return {};
  state = TuneState(arguments.output + ".state",
                    keyOf(model, digest, commandOf(arguments)));
  if (!arguments.resume)
    return {};
  if (Status status = state.load(); !status.ok())
    return status;
  reporter.note("goes on from " + std::to_string(state.countMeasured()) +
                " measurements");
  return {};
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

double TuneCommand::costOf(const PolicyMeasurements &figures) const {
  switch (objective) {
  case TuningObjective::Bytes:
    return figures.bytes;
  case TuningObjective::Memory:
    return figures.memory;
  case TuningObjective::Time:
    return *figures.seconds;
  }
  llvm_unreachable("an objective without a figure");
}

Result<PolicyMeasurements>
TuneCommand::compileAndMeasure(const Choice &choice, TuneState::Part part,
                               std::vector<OutputAgreement> *agreements) {
  TunedPoint point;
  point.priced.choice = choice;
  Result<TemporaryPolicy> policy = TemporaryPolicy::write(policyFile(point));
  if (!policy.ok())
    return policy.status();
  bool isSearched = part == TuneState::Part::Searched;
  const std::vector<size_t> &samples = isSearched ? searched : heldBack;
  ++measurements;
  runs += int64_t(samples.size());
  return meter->measure(policy->path(), samples,
                        isSearched && objective == TuningObjective::Time,
                        agreements);
}

Result<PolicyMeasurements> TuneCommand::measure(const Choice &choice,
                                                TuneState::Part part) {
  if (const PolicyMeasurements *known = state.find(choice, part))
    return *known;
  Result<PolicyMeasurements> figures = compileAndMeasure(choice, part);
  if (!figures.ok())
    return figures;
  state.add(choice, part, *figures);
  if (Status status = state.save(); !status.ok())
    return status;
  return figures;
}

bool TuneCommand::stops() const {
  return StopOnSignal::isAsked() ||
         (arguments.seconds > 0 && seconds() > arguments.seconds);
}

/// `failed` is set if a measurement fails; it must outlive the questions.
TuningCallbacks TuneCommand::questions(Status &failed) {
  TuningCallbacks questions;
  questions.stop = [this] { return stops(); };
  questions.measure =
      [this, &failed](const Choice &choice) -> std::optional<Measurement> {
    Result<PolicyMeasurements> figures =
        measure(choice, TuneState::Part::Searched);
    if (!figures.ok()) {
      failed = figures.status();
      return std::nullopt;
    }
    Measurement measured{figures->error, std::nullopt};
    // Without a measured time use the modeled cost.
    if (objective != TuningObjective::Time || figures->seconds)
      measured.cost = costOf(*figures);
    return measured;
  };
  questions.onPoint = [this,
                       said = int64_t(0)](const TunedPoint &point) mutable {
    // Report new measurements only.
    if (measurements == said)
      return;
    said = measurements;
    bool keeps = costBudget || point.measured <= budget.limit;
    reporter.note("measured " + shortNumber(point.measured) + ", predicted " +
                  shortNumber(point.predicted) + ", " +
                  shortNumber(point.cost) + " " + unit() +
                  (keeps ? "" : ": over the budget"));
  };
  return questions;
}

Status TuneCommand::evaluateValidation() {
  Result<PolicyMeasurements> figures =
      measure(result.best->priced.choice, TuneState::Part::HeldBack);
  if (figures.ok())
    promised = figures->error;
  return figures.status();
}

Status TuneCommand::searchError(const TuningCallbacks &questions,
                                const Status &failed) {
  aim = budget;
  while (true) {
    result = tuneToBudget(*finder, aim, questions);
    if (!failed.ok())
      return failed;
    // The fallback if the target is below float32's own error.
    bool isWidest = !result.best;
    if (isWidest && result.widest && result.widest->measured <= budget.limit)
      result.best = result.widest;
    if (!result.best || heldBack.empty())
      return {};
    if (Status status = evaluateValidation(); !status.ok())
      return status;
    ++looks;
    if (*promised <= budget.limit)
      return {};
    reporter.note("the error on the validation samples is " +
                  shortNumber(*promised) + ": the budget is tightened");
    if (isWidest) {
      result.best.reset();
      return {};
    }
    // Fall back to float32.
    if (looks >= kMostLooks) {
      aim.limit = 0;
      continue;
    }
    double loss = std::isfinite(*promised) ? budget.limit / *promised : 0.25;
    aim.limit *= std::max(loss * kCaution, 0.05);
  }
}

Status TuneCommand::searchCost(const TuningCallbacks &questions,
                               const Status &failed) {
  result = tuneToCost(*finder, budget.measure, costBudget->share, questions);
  if (!failed.ok())
    return failed;
  if (!result.best || heldBack.empty())
    return {};
  return evaluateValidation();
}

Status TuneCommand::evaluateAgreement() {
  if (!result.best || !model.options().training)
    return {};
  bool isSearched = heldBack.empty();
  return compileAndMeasure(result.best->priced.choice,
                           isSearched ? TuneState::Part::Searched
                                      : TuneState::Part::HeldBack,
                           &agreements)
      .status();
}

Status TuneCommand::search() {
  if (isCheapest)
    return evaluateAgreement();
  if (!stopper)
    stopper.emplace();
  Status failed;
  TuningCallbacks asked = questions(failed);
  front = finder->front(kFrontPrices, asked.stop);
  for (const PricedConfiguration &start : finder->starts())
    builtIn.push_back(start.choice);
  builtIn.push_back(finder->widest().choice);
  if (Status status =
          costBudget ? searchCost(asked, failed) : searchError(asked, failed);
      !status.ok())
    return status;
  if (Status status = chooseAmongTypes(asked, failed); !status.ok())
    return status;
  if (Status status = evaluateAgreement(); !status.ok())
    return status;
  return measureTrials();
}

int TuneCommand::run() {
  if (Status status = readFlags(); !status.ok())
    return reporter.fail(status);
  if (!arguments.output.empty())
    if (Status status = checkOutput(arguments.output, arguments.common.model,
                                    arguments.samples);
        !status.ok())
      return reporter.fail(status);
  if (Status status = checkHtml(arguments.html); !status.ok())
    return reporter.fail(status);
  if (std::vector<Status> problems = loadModel(); !problems.empty())
    return reporter.fail(problems);
  for (Status (TuneCommand::*step)() :
       {&TuneCommand::chooseScale, &TuneCommand::resume,
        &TuneCommand::evaluateSamples, &TuneCommand::makeSpace,
        &TuneCommand::refineCheapest, &TuneCommand::differentiate,
        &TuneCommand::search})
    if (Status status = (this->*step)(); !status.ok())
      return reporter.fail(status);
  return report();
}

int tool::tuneCommand(const TuneArguments &arguments) {
  return TuneCommand(arguments).run();
}
