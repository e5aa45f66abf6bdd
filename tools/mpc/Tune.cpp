//===- Tune.cpp - mpc tune ------------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Half of the samples say what roundings do to the outputs; the search spends
// the budget by that, and each point that it proposes is compiled and measured
// against float64. The other half judges what was found.
//
//===----------------------------------------------------------------------===//

#include "Tune.h"

#include "HtmlReport.h"
#include "Inputs.h"
#include "StopOnSignal.h"

#include "mpc/Analysis/GraphDigest.h"
#include "mpc/Support/Files.h"

#include <cmath>

using namespace mpc;
using namespace mpc::tool;
using mpc::reference::Tensor;

/// Prices of the front that is shown.
static constexpr int kFrontPrices = 12;
/// Runs backwards, over all samples.
static constexpr int kDraws = 8;
/// How often samples that were held back may send the search back.
static constexpr int kMostLooks = 5;
/// How far below the limit the search goes after such a sample.
static constexpr double kCaution = 0.9;

double TuneCommand::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

Status TuneCommand::readFlags() {
  llvm::Expected<Budget> parsed = Budget::parse(arguments.budget);
  if (!parsed)
    return Status(StatusCode::InvalidArgument, "--budget",
                  llvm::toString(parsed.takeError()));
  budget = *parsed;
  objective = arguments.objective == "time" ? TuningObjective::Time
                                            : TuningObjective::Bytes;
  if (arguments.common.policy != CommonOptions().policy)
    return Status(StatusCode::InvalidArgument,
                  "--policy " + arguments.common.policy,
                  "is what mpc tune writes; leave it out");
  for (const std::string &text : arguments.types) {
    std::optional<PolicyType> type = parsePolicyType(text);
    constexpr PolicyType kKnown[] = {PolicyType::Float32, PolicyType::Float16,
                                     PolicyType::BFloat16,
                                     PolicyType::TensorFloat32};
    if (!type || !llvm::is_contained(kKnown, *type))
      return Status(StatusCode::InvalidArgument, "--types",
                    "'" + text + "' is none of f16, bf16, tf32 and f32");
    types.push_back(*type);
  }
  return {};
}

std::vector<Status> TuneCommand::loadModel() {
  Result<CompileOptions> options =
      makeCompileOptions(arguments.common, reporter);
  if (!options.ok())
    return {options.status()};
  if (std::vector<Status> problems =
          model.load(arguments.common, arguments.inputs, *options);
      !problems.empty())
    return problems;
  for (size_t i = 0; i < model.samples().size(); ++i)
    (i % 2 == 0 ? searched : heldBack).push_back(i);
  if (heldBack.empty())
    reporter.note("there is one sample: what is found is judged by what it was "
                  "found on; give at least two");
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
                   "whose error a budget could limit")};
  return {};
}

Status TuneCommand::lookAtSamples() {
  if (Status status = recordRanges(model, ranges); !status.ok())
    return status;
  digest = graphDigest(model.entry());
  meter.emplace(arguments.common, model, budget.measure);
  if (Status status = meter->prepare(); !status.ok())
    return status;
  sensitivity.emplace(model.entry(), budget.measure, arguments.common.seed);
  // A few draws in all tell whether roundings depend on each other.
  int draws = std::max<int>(1, kDraws / int(searched.size()));
  for (size_t sample = 0; sample < model.samples().size(); ++sample) {
    size_t before = model.compiler().diagnostics().size();
    if (llvm::is_contained(searched, sample)) {
      mlir::FailureOr<llvm::SmallVector<Tensor>> outputs =
          sensitivity->addSample(model.samples()[sample].tensors, draws);
      if (failed(outputs))
        return model.compiler().failure(before);
      meter->expect(sample, std::move(*outputs));
      continue;
    }
    Result<std::vector<Tensor>> outputs =
        model.interpret(model.samples()[sample]);
    if (!outputs.ok())
      return outputs.status();
    meter->expect(sample,
                  llvm::SmallVector<Tensor>(outputs->begin(), outputs->end()));
  }
  return {};
}

Status TuneCommand::makeSpace() {
  FusionTarget target(model.compiler().target());
  target.hasProductLibrary = model.compiler().pipelineOptions().libraryGemms;
  if (objective == TuningObjective::Time && !target.machine.hasCeilings())
    return Status(StatusCode::InvalidArgument, "--objective time",
                  "needs a target whose ceilings are known; " +
                      target.machine.name() + " has none");
  // A mode saves no bytes.
  bool hasMode =
      objective == TuningObjective::Time && target.roundsToTensorFloat32;
  if (types.empty()) {
    types = {PolicyType::Float16, PolicyType::BFloat16};
    if (hasMode)
      types.push_back(PolicyType::TensorFloat32);
  }
  Policy base = TypeSpace::basePolicy(types);
  for (const std::string &text : arguments.common.sets)
    if (llvm::Error error = base.addOverride(text))
      return Status(StatusCode::InvalidArgument, "--set " + text,
                    llvm::toString(std::move(error)));
  for (const auto &[name, range] : ranges.get())
    base.addRange(
        name, {range.largest, range.largestSample < 0
                                  ? ""
                                  : model.samples()[range.largestSample].name});
  size_t before = model.compiler().diagnostics().size();
  mlir::FailureOr<TypeSpace> made =
      TypeSpace::create(model.entry(), target, base, types, objective);
  if (failed(made))
    return model.compiler().failure(before);
  space.emplace(std::move(*made));
  if (int64_t unnamed = space->countUnnamed())
    reporter.note(std::to_string(unnamed) +
                  " products have no name by which a policy could speak of "
                  "them, and stay float32");
  finder.emplace(space->searchSpace(*sensitivity));
  return {};
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

Result<double> TuneCommand::measure(const Choice &choice,
                                    llvm::ArrayRef<size_t> samples) {
  TunedPoint point;
  point.priced.choice = choice;
  Result<TemporaryPolicy> policy = TemporaryPolicy::write(policyFile(point));
  if (!policy.ok())
    return policy.status();
  ++measurements;
  return meter->error(policy->path(), samples);
}

Status TuneCommand::search() {
  StopOnSignal stopper;
  Status failed;
  TuningQuestions questions;
  questions.stop = [&] {
    return StopOnSignal::isAsked() ||
           (arguments.seconds > 0 && seconds() > arguments.seconds);
  };
  questions.measure = [&](const Choice &choice) -> std::optional<double> {
    Result<double> error = measure(choice, searched);
    if (error.ok())
      return *error;
    failed = error.status();
    return std::nullopt;
  };
  questions.onPoint = [&](const TunedPoint &point) {
    reporter.note("measured " + shortNumber(point.measured) + ", predicted " +
                  shortNumber(point.predicted) + ", " +
                  shortNumber(point.priced.cost) + " " + unit());
  };
  front = finder->front(kFrontPrices, questions.stop);
  Budget aim = budget;
  while (true) {
    result = tuneToBudget(*finder, aim, questions);
    if (!failed.ok())
      return failed;
    // What is left where the aim is below float32's own error.
    bool isWidest = !result.best;
    if (isWidest && result.widest && result.widest->measured <= budget.limit)
      result.best = result.widest;
    if (!result.best || heldBack.empty())
      return {};
    Result<double> error = measure(result.best->priced.choice, heldBack);
    if (!error.ok())
      return error.status();
    ++looks;
    promised = *error;
    if (*error <= budget.limit)
      return {};
    reporter.note("samples that were held back err " + shortNumber(*error) +
                  ": the budget is tightened");
    if (isWidest) {
      result.best.reset();
      return {};
    }
    // float32 is what is left then.
    if (looks >= kMostLooks) {
      aim.limit = 0;
      continue;
    }
    double loss = std::isfinite(*error) ? budget.limit / *error : 0.25;
    aim.limit *= std::max(loss * kCaution, 0.05);
  }
}

int TuneCommand::run() {
  if (Status status = readFlags(); !status.ok())
    return reporter.fail(status);
  if (!arguments.output.empty())
    if (Status status = checkWritable(arguments.output); !status.ok())
      return reporter.fail(status);
  if (Status status = checkHtml(arguments.html); !status.ok())
    return reporter.fail(status);
  if (std::vector<Status> problems = loadModel(); !problems.empty())
    return reporter.fail(problems);
  for (Status (TuneCommand::*step)() :
       {&TuneCommand::lookAtSamples, &TuneCommand::makeSpace,
        &TuneCommand::search})
    if (Status status = (this->*step)(); !status.ok())
      return reporter.fail(status);
  return report();
}

int tool::tuneCommand(const TuneArguments &arguments) {
  return TuneCommand(arguments).run();
}
