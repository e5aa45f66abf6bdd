//===- Fit.cpp - training loop --------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BatchStream.h"
#include "TrainingProgress.h"

#include "mpc/Support/EscapedText.h"
#include "mpc/Support/Files.h"
#include "mpc/Training/LossScale.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>

using namespace mpc;
using namespace mpc::training;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

/// Metadata keys of a checkpoint.
static constexpr const char *kPositionKey = "mpc.position";
static constexpr const char *kSettingsKey = "mpc.settings";

/// Updates between full divergence checks. Independent of the report interval,
/// so that reporting does not change training.
static constexpr int64_t kWatchInterval = 100;

static double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

namespace {

/// State of one call of fit().
class FitLoop {
public:
  FitLoop(Trainer &trainer, Trainer::Impl &impl, const Dataset &data,
          const FitOptions &options)
      : trainer(trainer), impl(impl), data(data), options(options),
        normalization(options.normalization.value_or(data.unitRange())) {}

  Result<FitReport> run();

private:
  Status prepare();
  Status resume();
  /// Loads the newest checkpoint within the size limit of this model.
  Result<FoundCheckpoint> findCheckpoint() const;
  Status train();
  Status oneUpdate(BatchStream &stream);
  /// Reads the device's metrics into the totals.
  Status look();
  Status tell(bool logged);
  /// Ends training if it has diverged. Called after an update whose number
  /// alone determines the call.
  Status watch();
  Status endEpoch();
  Status checkpoint();
  /// Returns true if `state`, or that of another rank, contains a NaN or an
  /// infinity, which means divergence.
  Result<bool> findDivergence(const Trainer::Impl::OwnedTrainerState &state);
  /// Writes this rank's shards and returns all ranks' digests.
  Result<std::vector<std::string>> writeParts(std::vector<NamedTensor> pieces);
  /// Settings that determine the order of batches; must be equal on resume.
  Json settings() const;
  /// Number of examples of all ranks in a step.
  int64_t wholeBatch() const { return trainer.batch() * impl.ranks.size(); }
  /// Returns a digest of the data.
  std::string fingerprint() const;
  /// Fails unless all ranks have equal options.
  Status checkRanksAgree() const;
  bool done() const {
    return position.epoch >= options.epochs ||
           (options.steps && position.step >= *options.steps);
  }

  Trainer &trainer;
  Trainer::Impl &impl;
  const Dataset &data;
  const FitOptions &options;
  Normalization normalization;
  std::optional<Batcher> batcher;
  std::optional<LossScalePreset> preset;
  int64_t accumulate = 1, stepsPerEpoch = 0, totalSteps = 0;
  TrainingProgress position;
  FitReport report;
  Clock::time_point start, intervalStart;
  int64_t startStep = 0, intervalStep = 0;
  /// Step of the last checkpoint, -1 before the first.
  int64_t saved = -1;
};

} // namespace

Json FitLoop::settings() const {
  return {{"batch", wholeBatch()},
          {"accumulate", accumulate},
          {"examples", data.size()},
          {"shuffle", options.shuffle},
          {"seed", options.seed}};
}

//===----------------------------------------------------------------------===//
// The run
//===----------------------------------------------------------------------===//

Status FitLoop::prepare() {
  std::string ignored;
  preset = LossScalePreset::parse(impl.options.training->lossScale, ignored);
  Result<Batcher> made = trainer.batcher(data, normalization);
  if (!made.ok())
    return made.status();
  batcher = std::move(*made);
  // Report problems of the test data before the first epoch.
  if (options.test)
    if (Result<Batcher> test = trainer.batcher(*options.test, normalization);
        !test.ok())
      return Status(test.status().code(), "test part: " + test.status().where(),
                    test.status().text());
  accumulate = std::max<int64_t>(1, impl.options.training->accumulate);
  stepsPerEpoch = data.size() / (wholeBatch() * accumulate);
  if (stepsPerEpoch == 0)
    return Status(StatusCode::InvalidArgument, data.name(),
                  "has " + std::to_string(data.size()) +
                      " examples, but one update takes " +
                      std::to_string(wholeBatch() * accumulate) +
                      "; use a smaller batch");
  totalSteps = stepsPerEpoch * options.epochs;
  if (options.steps)
    totalSteps = std::min(totalSteps, *options.steps);
  if (options.resume)
    return resume();
  // Report an unusable checkpoint folder before the first epoch.
  if (options.checkpoints.empty() || impl.ranks.rank() != 0)
    return {};
  if (Status status = makeFolder(options.checkpoints); !status.ok())
    return status;
  if (findCheckpoint().status().code() != StatusCode::NotFound)
    return Status(StatusCode::InvalidArgument, options.checkpoints,
                  "contains checkpoints of an earlier run; resume it or use "
                  "another folder");
  return {};
}

Result<FoundCheckpoint> FitLoop::findCheckpoint() const {
  // The limit admits other optimizers, so that the message can name them.
  constexpr uint64_t kMostCopies = 4;
  return loadCheckpoint(options.checkpoints, kMostCopies * impl.stateBytes());
}

Status FitLoop::resume() {
  Result<FoundCheckpoint> found = findCheckpoint();
  if (!found.ok())
    return found.status();
  Checkpoint &checkpoint = found->checkpoint;
  Json then = Json::parse(checkpoint.facts[kSettingsKey], nullptr,
                          /*allow_exceptions=*/false),
       now = settings();
  for (const auto &[key, value] : now.items()) {
    Json was = then.is_object() ? then.value(key, Json()) : Json();
    if (was != value)
      return Status(StatusCode::InvalidArgument, found->path,
                    "belongs to a run with " + key + " " + jsonText(was) +
                        ", but this one has " + jsonText(value));
  }
  if (!decodeTrainingProgress(checkpoint.facts[kPositionKey], checkpoint.step,
                              position))
    return Status(StatusCode::InvalidArgument, found->path,
                  "does not record the position of its run");
  if (Status status = trainer.setState(checkpoint.tensors); !status.ok())
    return Status(status.code(), found->path + ": " + status.where(),
                  status.text());
  report.checkpoint = found->path;
  saved = position.step;
  if (options.onNote) {
    for (const Status &status : found->passedOver)
      options.onNote("skipped " + status.toString());
    options.onNote("resumed from " + found->path);
  }
  return {};
}

std::string FitLoop::fingerprint() const {
  constexpr size_t kMost = size_t(1) << 20;
  llvm::SHA256 hash;
  auto add = [&](const Buffer &data) {
    hash.update(llvm::StringRef(static_cast<const char *>(data.data()),
                                std::min(data.size(), kMost)));
  };
  for (const NamedTensor &input : data.inputs())
    add(input.data);
  add(data.labels());
  return llvm::toHex(hash.final()).substr(0, 16);
}

Status FitLoop::checkRanksAgree() const {
  Json wanted = settings();
  wanted["epochs"] = options.epochs;
  wanted["steps"] = options.steps.value_or(-1);
  wanted["log interval"] = options.logEvery;
  wanted["patience"] = options.patience;
  wanted["checkpoints"] = options.checkpoints.empty() ? "off" : "on";
  wanted["checkpoint interval"] = options.checkpointEvery;
  wanted["test data"] = options.test ? options.test->size() : 0;
  wanted["normalization"] = {normalization.scale, normalization.mean,
                             normalization.deviation};
  wanted["begin"] = position.step;
  wanted["traced step"] = options.traceStep.value_or(-1);
  wanted["data"] = fingerprint();
  for (const auto &[key, value] : wanted.items())
    if (Status status = impl.ranks.agree(key, jsonText(value)); !status.ok())
      return status;
  return {};
}

Status FitLoop::look() {
  if (Status status = impl.drain(); !status.ok())
    return status;
  if (Status status = impl.ranks.join(impl.totals); !status.ok())
    return status;
  position.interval.add(impl.totals);
  position.watched.add(impl.totals);
  impl.totals = {};
  return {};
}

Status FitLoop::oneUpdate(BatchStream &stream) {
  if (options.traceStep == position.step - startStep && impl.first)
    impl.first->traceInto(&report.trace);
  for (int64_t i = 0; i < accumulate; ++i) {
    Result<BatchStream::Batch> batch = stream.next();
    if (!batch.ok())
      return batch.status();
    if (Status status = trainer.step(batch->arrays); !status.ok())
      return status;
  }
  ++position.step;
  ++position.stepInEpoch;
  return {};
}

Status FitLoop::tell(bool logged) {
  if (Status status = look(); !status.ok())
    return status;
  Result<LossScaleReport> scale = trainer.lossScale();
  if (!scale.ok())
    return scale.status();
  FitProgress progress;
  progress.step = position.step;
  progress.steps = totalSteps;
  progress.epoch = position.epoch + 1;
  progress.epochs = options.epochs;
  progress.train = position.interval.metrics();
  progress.lossScale = *scale;
  double samples = double(wholeBatch() * accumulate);
  double took = secondsSince(intervalStart);
  if (took > 0)
    progress.samplesPerSecond =
        double(position.step - intervalStep) * samples / took;
  double all = secondsSince(start);
  if (position.step > startStep)
    progress.secondsLeft = double(totalSteps - position.step) * all /
                           double(position.step - startStep);
  progress.logged = logged;
  if (options.onProgress)
    options.onProgress(progress);
  if (!logged)
    return {};
  position.epochTotals.add(position.interval);
  position.interval = {};
  intervalStart = Clock::now();
  intervalStep = position.step;
  return {};
}

Status FitLoop::watch() {
  if (Status status = look(); !status.ok())
    return status;
  auto diverge = [&](const std::string &why) {
    report.diverged = true;
    if (options.onNote)
      options.onNote(why);
  };
  Totals &watched = position.watched;
  bool isFull = position.step % kWatchInterval == 0;
  if (watched.finite < watched.batches) {
    // A single non-finite loss may be of a batch whose update was skipped.
    Result<Trainer::Impl::OwnedTrainerState> state = impl.ownState();
    if (!state.ok())
      return state.status();
    if (Result<bool> lost = findDivergence(*state); !lost.ok() || *lost)
      return lost.status();
    if (isFull && watched.finite == 0)
      diverge("no loss of the last " + std::to_string(watched.batches) +
              " batches is finite");
  }
  Result<LossScaleReport> scale = trainer.lossScale();
  if (!scale.ok())
    return scale.status();
  if (scale->skippedSteps > *position.skipped && preset &&
      preset->endsAt(float(scale->scale)))
    diverge("steps are skipped although the loss scale is at its minimum; the "
            "last gradient that overflowed is " +
            scale->overflowed);
  if (isFull) {
    position.skipped = scale->skippedSteps;
    watched = {};
  }
  return {};
}

Status FitLoop::endEpoch() {
  EpochReport epoch;
  epoch.epoch = position.epoch + 1;
  epoch.train = position.epochSoFar().metrics();
  if (options.test) {
    Result<TrainingMetrics> judged =
        trainer.evaluate(*options.test, normalization);
    if (!judged.ok())
      return judged.status();
    epoch.test = *judged;
    if (judged->loss < position.bestTestLoss) {
      position.bestTestLoss = judged->loss;
      position.epochsWithoutBest = 0;
    } else {
      ++position.epochsWithoutBest;
    }
  }
  report.train = epoch.train;
  if (options.onEpoch)
    options.onEpoch(epoch);
  position.epochs.push_back(epoch);
  ++position.epoch;
  position.stepInEpoch = 0;
  position.epochTotals = position.interval = {};
  report.stoppedEarly =
      options.patience > 0 && position.epochsWithoutBest >= options.patience;
  // Evaluation does not count for training speed.
  intervalStart = Clock::now();
  return {};
}

/// Returns the first of `tensors` that contains a NaN or an infinity, or null.
static const NamedTensor *findNonFinite(std::span<const NamedTensor> tensors) {
  for (const NamedTensor &tensor : tensors) {
    if (tensor.data.type().element != ElementType::F32)
      continue;
    std::span<const float> values(
        reinterpret_cast<const float *>(tensor.data.data()),
        tensor.data.size() / sizeof(float));
    if (!std::all_of(values.begin(), values.end(),
                     [](float value) { return std::isfinite(value); }))
      return &tensor;
  }
  return nullptr;
}

Result<bool>
FitLoop::findDivergence(const Trainer::Impl::OwnedTrainerState &state) {
  const NamedTensor *found = findNonFinite(state.tensors);
  if (!found)
    found = findNonFinite(state.pieces);
  std::string lost = found ? found->name : "";
  // Unsharded tensors are equal on all ranks; shards are not.
  if (!state.pieces.empty()) {
    Result<std::vector<std::string>> all =
        gatherTexts(*impl.ranks.communicator(), lost);
    if (!all.ok())
      return all.status();
    auto first = std::find_if(all->begin(), all->end(),
                              [](const auto &name) { return !name.empty(); });
    lost = first == all->end() ? "" : *first;
  }
  if (!lost.empty() && !report.diverged && options.onNote)
    options.onNote("'" + lost + "' is not finite after step " +
                   std::to_string(position.step));
  report.diverged |= !lost.empty();
  return !lost.empty();
}

Result<std::vector<std::string>>
FitLoop::writeParts(std::vector<NamedTensor> pieces) {
  Result<std::string> digest =
      saveCheckpointPart(options.checkpoints, position.step, impl.ranks.rank(),
                         impl.ranks.size(), std::move(pieces));
  if (Status status = impl.ranks.allOk(digest.status()); !status.ok())
    return status;
  return gatherTexts(*impl.ranks.communicator(), *digest);
}

Status FitLoop::checkpoint() {
  // Do not replace a good checkpoint after divergence.
  if (options.checkpoints.empty() || saved == position.step || report.diverged)
    return {};
  if (Status status = look(); !status.ok())
    return status;
  Checkpoint checkpoint;
  checkpoint.step = position.step;
  Result<Trainer::Impl::OwnedTrainerState> state = impl.ownState();
  if (!state.ok())
    return state.status();
  Result<bool> lost = findDivergence(*state);
  if (!lost.ok() || *lost)
    return lost.status();
  if (!state->pieces.empty()) {
    Result<std::vector<std::string>> parts =
        writeParts(std::move(state->pieces));
    if (!parts.ok())
      return parts.status();
    checkpoint.parts = std::move(*parts);
    checkpoint.pieces = std::move(state->shapes);
  }
  checkpoint.tensors = std::move(state->tensors);
  checkpoint.facts[kPositionKey] = encodeTrainingProgress(position);
  checkpoint.facts[kSettingsKey] = jsonText(settings());
  // All ranks have the same tensors; every rank waits until they are written.
  Status written;
  if (impl.ranks.rank() == 0) {
    Result<std::string> path = saveCheckpoint(options.checkpoints, checkpoint);
    written = path.status();
    if (path.ok())
      report.checkpoint = *path;
  }
  if (Status status = impl.ranks.allOk(written); !status.ok())
    return status;
  saved = position.step;
  return {};
}

Status FitLoop::train() {
  BatchStream stream(*batcher,
                     {options.seed, options.shuffle, stepsPerEpoch * accumulate,
                      impl.ranks.rank(), impl.ranks.size()},
                     position.epoch, position.stepInEpoch * accumulate);
  auto lastTold = Clock::now();
  while (!done() && !report.diverged && !report.stoppedEarly) {
    if (Status status = oneUpdate(stream); !status.ok())
      return status;
    bool epochEnds = position.stepInEpoch == stepsPerEpoch;
    bool logs = epochEnds || position.step % options.logEvery == 0;
    // Ranks read their clocks at different times, so that collective reports
    // are only at the ends of intervals.
    bool shows = options.displayEvery > 0 && impl.ranks.alone() &&
                 secondsSince(lastTold) > options.displayEvery;
    if (logs || shows) {
      lastTold = Clock::now();
      if (Status status = tell(logs); !status.ok())
        return status;
    }
    if (epochEnds || position.step % kWatchInterval == 0)
      if (Status status = watch(); !status.ok())
        return status;
    if (epochEnds)
      if (Status status = endEpoch(); !status.ok())
        return status;
    bool stops = options.shouldStop && options.shouldStop();
    if (!impl.ranks.alone()) {
      Result<bool> any = logs ? impl.ranks.any(stops) : Result<bool>(false);
      if (!any.ok())
        return any.status();
      stops = *any;
    }
    if (epochEnds || stops ||
        (options.checkpointEvery > 0 &&
         position.step % options.checkpointEvery == 0))
      if (Status status = checkpoint(); !status.ok())
        return status;
    if (stops)
      break;
  }
  return {};
}

Result<FitReport> FitLoop::run() {
  if (options.epochs < 1 || options.logEvery < 1)
    return Status(StatusCode::InvalidArgument, "fit",
                  "needs at least one epoch and a log interval of one");
  if (options.resume && options.checkpoints.empty())
    return Status(StatusCode::InvalidArgument, "resume",
                  "needs the checkpoint folder");
  if (Status status = impl.ranks.allOk(prepare()); !status.ok())
    return status;
  if (Status status = checkRanksAgree(); !status.ok())
    return status;
  impl.totals = {};
  start = intervalStart = Clock::now();
  startStep = intervalStep = position.step;
  if (!position.skipped) {
    Result<LossScaleReport> scale = trainer.lossScale();
    if (!scale.ok())
      return scale.status();
    position.skipped = scale->skippedSteps;
  }
  if (Status status = train(); !status.ok())
    return status;
  if (Status status = look(); !status.ok())
    return status;
  if (position.stepInEpoch > 0) {
    report.train = position.epochSoFar().metrics();
    if (options.test && !report.diverged) {
      Result<TrainingMetrics> judged =
          trainer.evaluate(*options.test, normalization);
      if (!judged.ok())
        return judged.status();
      report.test = *judged;
    }
  } else if (!position.epochs.empty()) {
    report.train = position.epochs.back().train;
    report.test = position.epochs.back().test;
  }
  if (Status status = checkpoint(); !status.ok())
    return status;
  // A run shorter than an interval ends before its losses are checked; a state
  // that was just saved has been checked.
  if (saved != position.step) {
    Result<Trainer::Impl::OwnedTrainerState> state = impl.ownState();
    if (!state.ok())
      return state.status();
    if (Result<bool> lost = findDivergence(*state); !lost.ok())
      return lost.status();
  }
  Result<LossScaleReport> scale = trainer.lossScale();
  if (!scale.ok())
    return scale.status();
  report.lossScale = *scale;
  report.steps = position.step;
  report.epochs = position.epochs;
  report.seconds = secondsSince(start);
  report.samples = (position.step - startStep) * wholeBatch() * accumulate;
  return report;
}

Result<FitReport> Trainer::fit(const Dataset &data, const FitOptions &options) {
  return FitLoop(*this, *impl, data, options).run();
}
