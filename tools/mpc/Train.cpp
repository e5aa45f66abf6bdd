//===- Train.cpp - mpc train ----------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Train.h"

#include "Commands.h"
#include "CompiledModel.h"
#include "EventFile.h"
#include "Explanation.h"
#include "HtmlReport.h"
#include "Inputs.h"
#include "MatrixUnitReport.h"
#include "StopOnSignal.h"
#include "TraceFile.h"

#include "JIT/Compiler.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Support/Files.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cmath>
#include <sys/resource.h>

using namespace mpc;
using namespace mpc::tool;

/// Fraction of skipped steps above which the loss scale is reported as too
/// high.
static constexpr double kManySkipped = 0.05;

//===----------------------------------------------------------------------===//
// From flags to a trainer
//===----------------------------------------------------------------------===//

static Result<Normalization> makeNormalization(const std::string &text,
                                               const Dataset &data) {
  if (text == "unit")
    return data.unitRange();
  if (text == "standard")
    return data.standard();
  if (text == "none")
    return Normalization();
  size_t slash = text.find('/');
  Normalization result = data.unitRange();
  char *end = nullptr;
  result.mean = std::strtod(text.c_str(), &end);
  bool usable =
      slash != std::string::npos && slash > 0 && end == text.c_str() + slash;
  if (usable) {
    result.deviation = std::strtod(text.c_str() + slash + 1, &end);
    usable = slash + 1 < text.size() && *end == '\0' &&
             std::isfinite(result.mean) && result.deviation > 0 &&
             std::isfinite(result.deviation);
  }
  if (!usable)
    return Status(StatusCode::InvalidArgument, "--normalize " + text,
                  "is not unit, standard, none or MEAN/DEVIATION with a "
                  "positive deviation");
  return result;
}

namespace {

/// Type of a batch for a model's first input that is not a parameter.
struct BatchShape {
  std::string input;
  std::vector<int64_t> extents;
  bool integers = false;
};

} // namespace

/// Determined from the model, without compiling it.
static Result<BatchShape> batchShapeOf(const CompileOptions &options,
                                       const std::string &model) {
  CompileOptions plain = options;
  plain.onDiagnostic = nullptr;
  plain.dumpDir.clear();
  Result<std::unique_ptr<Compiler>> compiler = Compiler::create(plain);
  if (!compiler.ok())
    return compiler.status();
  Result<Compiler::Module> module = (*compiler)->import(model);
  if (!module.ok())
    return module.status();
  // Inputs that are parameters have no batch dimension.
  if (Status status = (*compiler)->runStages(**module, "import", "lift");
      !status.ok())
    return status;
  StepFunction step(Compiler::entry(**module));
  for (mlir::BlockArgument argument : step.body().getArguments()) {
    RoleAttr role = step.argumentRole(argument.getArgNumber());
    auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(argument.getType());
    if ((!role || role.getKind() == RoleKind::input) && tensor &&
        tensor.getRank() > 0)
      return BatchShape{step.argumentName(argument.getArgNumber()).str(),
                        tensor.getShape().vec(),
                        tensor.getElementType().isInteger()};
  }
  return Status(StatusCode::InvalidArgument, model,
                "has no input with a batch dimension");
}

/// Returns the number of tokens per example, from the model.
static Result<int64_t> textLength(const CompileOptions &options,
                                  const std::string &model) {
  Result<BatchShape> batch = batchShapeOf(options, model);
  if (!batch.ok())
    return batch.status();
  if (!batch->integers || batch->extents.size() != 2) {
    std::string shape;
    for (int64_t extent : batch->extents)
      shape += (shape.empty() ? "" : ",") + std::to_string(extent);
    return Status(
        StatusCode::InvalidArgument, model,
        "input '" + batch->input + "' has batches of [" + shape + "]" +
            (batch->integers ? "" : " floats") +
            ", but token data needs an integer input [batch, tokens]");
  }
  return batch->extents[1];
}

/// Sets the end of a schedule that ends with training.
static Status completeSchedule(const TrainArguments &arguments,
                               const Dataset &data, CompileOptions &options) {
  ScheduleOptions &schedule = options.training->schedule;
  bool ends = schedule.kind == "cosine" || schedule.kind == "linear";
  if (!ends || schedule.steps > 0)
    return {};
  int64_t batch = options.batch.value_or(0);
  if (!options.batch) {
    Result<BatchShape> shape = batchShapeOf(options, arguments.common.model);
    if (!shape.ok())
      return shape.status();
    batch = shape->extents.front();
  }
  schedule.steps =
      data.size() / (batch * options.training->accumulate) * arguments.epochs;
  if (arguments.steps)
    schedule.steps = std::min(schedule.steps, *arguments.steps);
  return {};
}

/// Returns the compile options of the flags, without the end of a schedule,
/// which depends on the data.
static Result<CompileOptions> makeStepOptions(const TrainArguments &arguments,
                                              const Device &device,
                                              Reporter &reporter) {
  Result<CompileOptions> options =
      makeCompileOptions(arguments.common, device, reporter);
  if (!options.ok())
    return options.status();
  reportFastPath(*options, reporter, !arguments.common.choosesPolicy);
  Result<TrainingOptions> training = makeTrainingOptions(arguments.step);
  if (!training.ok())
    return training.status();
  options->training = std::move(*training);
  if (Status status = passInputShapes(arguments.common, *options); !status.ok())
    return status;
  return options;
}

//===----------------------------------------------------------------------===//
// Progress reports
//===----------------------------------------------------------------------===//

static Json orNull(const std::optional<double> &value) {
  return value ? Json(jsonNumber(*value)) : Json(nullptr);
}

static Json progressDocument(const FitProgress &progress) {
  Json document = {
      {"step", progress.step},
      {"epoch", progress.epoch},
      {"loss", jsonNumber(progress.train.loss)},
      {"accuracy", orNull(progress.train.accuracy)},
      {"loss_scale", jsonNumber(progress.lossScale.scale)},
      {"skipped_steps", progress.lossScale.skippedSteps},
      {"samples_per_second", jsonNumber(progress.samplesPerSecond)}};
  if (!progress.lossScale.overflowed.empty())
    document["overflowed"] = progress.lossScale.overflowed;
  return document;
}

static std::string describeMetrics(const std::string &what,
                                   const TrainingMetrics &metrics) {
  char text[96];
  if (metrics.accuracy)
    std::snprintf(text, sizeof(text), "%s loss %.4f, accuracy %.2f %%",
                  what.c_str(), metrics.loss, 100 * *metrics.accuracy);
  else
    std::snprintf(text, sizeof(text), "%s loss %.4f", what.c_str(),
                  metrics.loss);
  return text;
}

static std::string describeEpoch(const EpochReport &epoch) {
  std::string text = "epoch " + std::to_string(epoch.epoch) + ": " +
                     describeMetrics("training", epoch.train);
  if (epoch.test)
    text += "; " + describeMetrics("test", *epoch.test);
  return text;
}

/// Adds trained tensors, running statistics and frozen tensors, each with its
/// reason.
static void addWeightChoices(std::span<const WeightChoice> choices,
                             Json &document) {
  for (auto [key, use] :
       {std::pair{"trained", WeightChoice::Use::Trained},
        std::pair{"statistics", WeightChoice::Use::Statistics},
        std::pair{"frozen", WeightChoice::Use::Frozen}}) {
    Json list = Json::array();
    for (const WeightChoice &choice : choices)
      if (choice.use == use)
        list.push_back({{"name", choice.name},
                        {"type", choice.type},
                        {"reason", choice.reason}});
    document[key] = std::move(list);
  }
}

/// Formats a list: "a, b, c and 4 more".
static std::string listNames(const std::vector<std::string> &names) {
  constexpr size_t kMost = 8;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i)
    text += (i ? ", " : "") + names[i];
  if (names.size() > kMost)
    text += " and " + std::to_string(names.size() - kMost) + " more";
  return text;
}

/// Prints the same, with frozen tensors grouped by reason.
static void reportWeightChoices(std::span<const WeightChoice> choices,
                                Reporter &reporter) {
  std::vector<std::string> trained, statistics;
  std::vector<std::pair<std::string, std::vector<std::string>>> frozen;
  for (const WeightChoice &choice : choices) {
    if (choice.use == WeightChoice::Use::Trained) {
      trained.push_back(choice.name);
    } else if (choice.use == WeightChoice::Use::Statistics) {
      statistics.push_back(choice.name);
    } else {
      auto found =
          std::find_if(frozen.begin(), frozen.end(), [&](const auto &entry) {
            return entry.first == choice.reason;
          });
      if (found == frozen.end())
        found = frozen.insert(frozen.end(), {choice.reason, {}});
      found->second.push_back(choice.name);
    }
  }
  reporter.note("trained: " + listNames(trained));
  if (!statistics.empty())
    reporter.note("running statistics: " + listNames(statistics));
  for (const auto &[reason, names] : frozen)
    reporter.note("not trained: " + listNames(names) + " (" + reason + ")");
}

/// Returns advice about divergence or skipped steps; empty if there is no
/// problem.
static std::string adviceFor(const FitReport &report,
                             const TrainArguments &arguments) {
  const LossScaleReport &scale = report.lossScale;
  std::string preset =
      arguments.step.lossScale.empty() ? "dynamic" : arguments.step.lossScale;
  if (std::isinf(scale.scale))
    return "the loss scale has grown to infinity, so all gradients are "
           "infinite and all steps are skipped; limit it, as in --loss-scale " +
           preset + ",max=16777216";
  bool manySkipped =
      double(scale.skippedSteps) > kManySkipped * double(report.steps);
  if (scale.scale == 0)
    return "the loss scale has fallen to 0: losses or gradients are not finite "
           "under any scale; look for NaN in the data, lower --lr, or train "
           "with a bfloat16 policy";
  if (report.diverged && scale.skippedSteps > 0)
    return "steps overflow under the smallest loss scale; lower --lr, or train "
           "with a bfloat16 policy";
  if (report.diverged)
    return "lower --lr, or clip gradients by --clip-norm";
  if (manySkipped)
    return std::to_string(scale.skippedSteps) + " of " +
           std::to_string(report.steps) +
           " steps were skipped, more than a loss scale needs to settle; mpc "
           "calibrate --training forward-backward suggests a loss scale and "
           "lists the tensors that underflow under any scale: keep them in "
           "float32 by --set name:NAME=float32, or use a bfloat16 policy";
  return {};
}

static Json finalDocument(const FitReport &report,
                          std::span<const WeightChoice> choices) {
  std::optional<double> testLoss, testAccuracy;
  if (report.test) {
    testLoss = report.test->loss;
    testAccuracy = report.test->accuracy;
  }
  Json epochs = Json::array();
  for (const EpochReport &epoch : report.epochs) {
    Json entry = {{"epoch", epoch.epoch},
                  {"train_loss", jsonNumber(epoch.train.loss)},
                  {"train_accuracy", orNull(epoch.train.accuracy)}};
    if (epoch.test) {
      entry["test_loss"] = jsonNumber(epoch.test->loss);
      entry["test_accuracy"] = orNull(epoch.test->accuracy);
    }
    epochs.push_back(entry);
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  double speed =
      report.seconds > 0 ? double(report.samples) / report.seconds : 0;
  Json document = {{"final", true},
                   {"steps", report.steps},
                   {"train_loss", jsonNumber(report.train.loss)},
                   {"train_accuracy", orNull(report.train.accuracy)},
                   {"test_loss", orNull(testLoss)},
                   {"test_accuracy", orNull(testAccuracy)},
                   {"skipped_steps", report.lossScale.skippedSteps},
                   {"loss_scale", jsonNumber(report.lossScale.scale)},
                   {"overflowed", report.lossScale.overflowed.empty()
                                      ? Json(nullptr)
                                      : Json(report.lossScale.overflowed)},
                   {"seconds", report.seconds},
                   {"samples_per_second", jsonNumber(speed)},
                   {"peak_rss_bytes", int64_t(usage.ru_maxrss) * 1024},
                   {"checkpoint", report.checkpoint.empty()
                                      ? Json(nullptr)
                                      : Json(report.checkpoint)},
                   {"diverged", report.diverged},
                   {"stopped_early", report.stoppedEarly},
                   {"epochs", epochs}};
  addWeightChoices(choices, document);
  return document;
}

/// Returns the final document with the explanation of the step.
static Result<Json> explainedDocument(const TrainArguments &arguments,
                                      const CompileOptions &options,
                                      Json document) {
  // Training has reported all diagnostics of the compile.
  Reporter silent(/*json=*/false, /*quiet=*/true);
  CompileOptions quiet = options;
  quiet.dumpDir.clear();
  quiet.onDiagnostic = [&](const Diagnostic &message) { silent.hear(message); };
  Result<Explanation> explanation =
      explainModel({arguments.common.model, quiet}, silent);
  if (!explanation.ok())
    return explanation.status();
  document["model"] = arguments.common.model;
  document["policy"] = options.policy;
  document["explanation"] = explanationToJson(*explanation);
  return document;
}

/// Values of an event file for an interval and for an epoch, under the tags of
/// the Python package.
static EventFile::Numbers trainingNumbers(const FitProgress &progress) {
  return {{"train/loss", progress.train.loss},
          {"train/accuracy", progress.train.accuracy},
          {"train/loss_scale", progress.lossScale.scale},
          {"train/skipped_steps",
           static_cast<double>(progress.lossScale.skippedSteps)},
          {"train/samples_per_second", progress.samplesPerSecond}};
}

static EventFile::Numbers testNumbers(const TrainingMetrics &metrics) {
  return {{"test/loss", metrics.loss}, {"test/accuracy", metrics.accuracy}};
}

static void printCurves(const FitReport &report,
                        const std::vector<double> &losses, Reporter &reporter) {
  std::vector<double> accuracies;
  for (const EpochReport &epoch : report.epochs)
    if (epoch.test && epoch.test->accuracy)
      accuracies.push_back(*epoch.test->accuracy);
  for (const std::string &curve :
       {plotCurve("training loss per interval", losses),
        plotCurve("test accuracy per epoch", accuracies)})
    if (!curve.empty())
      reporter.lines("\n" + curve);
}

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

/// Index of the traced step: earlier ones have cold caches and connections.
static constexpr int64_t kTracedStep = 5;

namespace {

/// Prepared inputs of a training run.
struct Prepared {
  Device device;
  CompileOptions compile;
  Dataset data;
  std::optional<Dataset> test;
  Normalization normalization;
};

} // namespace

/// Reads the files of the flags; `ranks` train together, and `writes` is true
/// on the rank that writes files.
static Result<Prepared> prepare(const TrainArguments &arguments,
                                Reporter &reporter, const Device &device,
                                int ranks, bool writes) {
  auto bad = [](const std::string &where, const char *text) {
    return Status(StatusCode::InvalidArgument, where, text);
  };
  if (isStoredModel(arguments.common.model))
    return bad(
        arguments.common.model,
        "is already compiled; train the model that it was compiled from");
  for (const std::string &path : {arguments.exported, arguments.trace})
    if (!path.empty() && writes)
      if (Status status = checkWritable(path); !status.ok())
        return status;
  if (writes)
    if (Status status = checkHtml(arguments.html); !status.ok())
      return status;
  constexpr int64_t kFewest = kTracedStep + 1;
  if (!arguments.trace.empty() && ranks == 1)
    return bad("--trace", "needs several ranks; start them by mpirun, or use "
                          "'mpc bench' for kernel times");
  if (!arguments.trace.empty() && arguments.step.accumulate > 1)
    return bad("--trace", "does not support --accumulate");
  if (!arguments.trace.empty() && arguments.steps.value_or(kFewest) < kFewest)
    return bad("--trace", "traces the sixth step; give --steps 6 or more");
  Result<CompileOptions> compile = makeStepOptions(arguments, device, reporter);
  if (!compile.ok())
    return compile.status();
  int64_t length = 0;
  if (Dataset::holdsTokens(arguments.data)) {
    Result<int64_t> found = textLength(*compile, arguments.common.model);
    if (!found.ok())
      return found.status();
    length = *found;
  }
  Result<Dataset> data = Dataset::read(arguments.data, "train", length);
  if (!data.ok())
    return data.status();
  Result<Dataset> test = Dataset::read(arguments.data, "test", length);
  if (!test.ok() && test.status().code() != StatusCode::NotFound)
    return test.status();
  Result<Normalization> normalization =
      makeNormalization(arguments.normalize, *data);
  if (!normalization.ok())
    return normalization.status();
  if (Status status = completeSchedule(arguments, *data, *compile);
      !status.ok())
    return status;
  // Ranks share the model's batch.
  if (ranks > 1 && !compile->batch) {
    Result<BatchShape> shape = batchShapeOf(*compile, arguments.common.model);
    if (!shape.ok())
      return shape.status();
    compile->batch = shape->extents.front();
  }
  Prepared prepared{device, std::move(*compile), std::move(*data), std::nullopt,
                    *normalization};
  if (test.ok())
    prepared.test = std::move(*test);
  return prepared;
}

/// `known` is set if all ranks know of the failure.
static int train(const TrainArguments &arguments, Reporter &reporter,
                 const std::shared_ptr<Communicator> &group, bool &known) {
  bool writes = !group || group->rank() == 0;
  auto fail = [&](const Status &status) {
    known = isKnown(status);
    return isTold(status) ? kBadInput : reporter.fail(status);
  };
  int ranks = group ? group->size() : 1;
  Result<Device> device = makeRankDevice(arguments.common, group);
  if (isKnown(device.status()))
    return fail(device.status());
  Result<Prepared> prepared =
      device.ok() ? prepare(arguments, reporter, *device, ranks, writes)
                  : Result<Prepared>(device.status());
  if (Status status = ranks > 1 ? shareFailure(*group, prepared.status())
                                : prepared.status();
      !status.ok())
    return fail(status);
  Result<Trainer> trainer =
      Trainer::create(prepared->device, arguments.common.model,
                      prepared->compile, arguments.common.seed, group);
  if (!trainer.ok())
    return fail(trainer.status());
  const Dataset &data = prepared->data;

  // Check before the potentially long training.
  if (!arguments.exported.empty()) {
    Status status = trainer->checkExport(arguments.exported);
    if (ranks > 1)
      status = shareFailure(*group, status);
    if (!status.ok())
      return fail(status);
  }

  std::optional<EventFile> events;
  Status written;
  if (!arguments.tensorboard.empty() && writes) {
    Result<EventFile> created = EventFile::create(arguments.tensorboard);
    if (!created.ok())
      return reporter.fail(created.status());
    events = std::move(*created);
  }
  int64_t step = 0;
  // The first write error ends training.
  auto record = [&](const auto &numbers) {
    if (events && written.ok())
      written = events->add(step, numbers);
  };

  if (writes)
    reportWeightChoices(trainer->weightChoices(), reporter);

  ProgressLine bar(!arguments.common.quiet && !arguments.common.json);
  reporter.onOutput([&] { bar.clear(); });
  std::vector<double> losses;
  Json news = Json::array();
  FitOptions options;
  options.epochs = arguments.epochs;
  options.steps = arguments.steps;
  options.shuffle = !arguments.inOrder;
  options.seed = arguments.common.seed;
  options.normalization = prepared->normalization;
  options.test = prepared->test ? &*prepared->test : nullptr;
  options.patience = arguments.patience;
  options.logEvery = arguments.logEvery;
  options.displayEvery = bar.shown() ? 0.25 : 0;
  options.checkpoints = arguments.checkpoint;
  options.checkpointEvery = arguments.checkpointEvery;
  options.resume = arguments.resume;
  if (!arguments.trace.empty())
    options.traceStep = kTracedStep;
  options.onProgress = [&](const FitProgress &progress) {
    bar.show(progress.steps > 0 ? double(progress.step) / double(progress.steps)
                                : 0,
             describeProgress(progress));
    if (!progress.logged)
      return;
    losses.push_back(progress.train.loss);
    step = progress.step;
    record(trainingNumbers(progress));
    Json document = progressDocument(progress);
    reporter.document(document);
    if (!arguments.html.empty())
      news.push_back(std::move(document));
    if (!bar.shown())
      reporter.line(llvm::join(
          llvm::map_range(describeProgress(progress),
                          [](const ProgressPart &part) { return part.text; }),
          "  "));
    std::fflush(stdout);
  };
  options.onEpoch = [&](const EpochReport &epoch) {
    reporter.line(describeEpoch(epoch));
    if (epoch.test)
      record(testNumbers(*epoch.test));
  };
  options.onNote = [&](const std::string &text) { reporter.note(text); };
  StopOnSignal stopper;
  options.shouldStop = [&] { return StopOnSignal::isAsked() || !written.ok(); };
  Result<FitReport> report = trainer->fit(data, options);
  bar.clear();
  reporter.onOutput({});
  if (!report.ok())
    return fail(report.status());
  if (!written.ok())
    return reporter.fail(written);

  if (!arguments.trace.empty())
    if (Status status = writeTrace(arguments.trace, trainer->program(),
                                   report->trace, group);
        !status.ok())
      return reporter.fail(status);
  if (!arguments.exported.empty() && !report->diverged)
    if (Status status = trainer->exportOnnx(arguments.exported); !status.ok())
      return reporter.fail(status);
  if (!arguments.common.quiet)
    printCurves(*report, losses, reporter);
  if (!report->lossScale.overflowed.empty())
    reporter.note("the last skipped step overflowed in " +
                  report->lossScale.overflowed);
  std::string advice = adviceFor(*report, arguments);
  if (!advice.empty() && !report->diverged)
    reporter.note(advice);
  Json document = finalDocument(*report, trainer->weightChoices());
  document["interrupted"] = StopOnSignal::isAsked();
  if (!arguments.html.empty() && writes) {
    Result<Json> explained =
        explainedDocument(arguments, prepared->compile, document);
    if (!explained.ok())
      return reporter.fail(explained.status());
    document = std::move(*explained);
    Json page = document;
    page["progress"] = std::move(news);
    if (Status status = writeHtml(arguments.html, "train", page); !status.ok())
      return reporter.fail(status);
  }
  reporter.document(document);
  if (report->diverged) {
    reporter.note(
        "training diverged: losses or parameters are no longer finite; " +
        advice);
    return reporter.finish(kCheckFailed);
  }
  if (!StopOnSignal::isAsked())
    return reporter.finish(kDone);
  reporter.note("interrupted at step " + std::to_string(report->steps) +
                (report->checkpoint.empty()
                     ? ": the training is lost; --checkpoint DIR saves it, for "
                       "--resume"
                     : ": checkpoint " + report->checkpoint +
                           "; the same command with --resume continues"));
  return reporter.finish(kStoppedBySignal + StopOnSignal::received());
}

int tool::trainCommand(const TrainArguments &arguments) {
  std::shared_ptr<Communicator> group;
  {
    Result<std::shared_ptr<Communicator>> joined = joinRanks(arguments);
    if (!joined.ok())
      return Reporter(arguments.common.json, arguments.common.quiet)
          .fail(joined.status());
    group = *joined;
  }
  Reporter reporter(arguments.common.json, arguments.common.quiet,
                    group ? group->rank() : 0);
  bool known = false;
  int code = train(arguments, reporter, group, known);
  if (group && (known || code == kDone || code >= kCheckFailed))
    group->part();
  else if (group && group->size() > 1)
    group->abort("ended with exit code " + std::to_string(code));
  return code;
}
