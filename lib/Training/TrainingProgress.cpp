//===- TrainingProgress.cpp - progress of a training run ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainingProgress.h"

#include "mpc/Support/EscapedText.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace mpc;
using namespace mpc::training;
using Json = nlohmann::json;

/// JSON has no infinities and NaN; they are read back as NaN.
static double numberOf(const Json &value) {
  return value.is_number() ? value.get<double>()
                           : std::numeric_limits<double>::quiet_NaN();
}

static int64_t countOf(const Json &object, const char *key) {
  auto found = object.find(key);
  return found != object.end() && found->is_number_integer()
             ? std::max<int64_t>(0, found->get<int64_t>())
             : 0;
}

static Json toJson(const Totals &totals) {
  return {{"batches", totals.batches},
          {"finite", totals.finite},
          {"loss", totals.loss},
          {"hits", totals.hits},
          {"examples", totals.examples}};
}

static Totals totalsOf(const Json &object) {
  Totals totals;
  if (!object.is_object())
    return totals;
  totals.batches = countOf(object, "batches");
  totals.finite = countOf(object, "finite");
  totals.loss = numberOf(object.value("loss", Json()));
  totals.hits = countOf(object, "hits");
  totals.examples = countOf(object, "examples");
  return totals;
}

static Json toJson(const TrainingMetrics &metrics) {
  Json object = {{"batches", metrics.batches}, {"loss", metrics.loss}};
  if (metrics.accuracy)
    object["accuracy"] = *metrics.accuracy;
  return object;
}

static TrainingMetrics metricsOf(const Json &object) {
  TrainingMetrics metrics;
  metrics.batches = countOf(object, "batches");
  metrics.loss = numberOf(object.value("loss", Json()));
  if (object.contains("accuracy"))
    metrics.accuracy = numberOf(object["accuracy"]);
  return metrics;
}

std::string training::encodeTrainingProgress(const TrainingProgress &position) {
  Json epochs = Json::array();
  for (const EpochReport &epoch : position.epochs) {
    Json entry = {{"epoch", epoch.epoch}, {"train", toJson(epoch.train)}};
    if (epoch.test)
      entry["test"] = toJson(*epoch.test);
    epochs.push_back(entry);
  }
  return jsonText(Json{{"epoch", position.epoch},
                       {"step_in_epoch", position.stepInEpoch},
                       {"interval", toJson(position.interval)},
                       {"epoch_totals", toJson(position.epochTotals)},
                       {"watched", toJson(position.watched)},
                       {"skipped", position.skipped.value_or(0)},
                       {"epochs", epochs},
                       {"best_test_loss", position.bestTestLoss},
                       {"epochs_without_best", position.epochsWithoutBest}});
}

bool training::decodeTrainingProgress(const std::string &text, int64_t step,
                                      TrainingProgress &position) {
  Json object = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object())
    return false;
  position.step = step;
  position.epoch = countOf(object, "epoch");
  position.stepInEpoch = countOf(object, "step_in_epoch");
  position.interval = totalsOf(object.value("interval", Json()));
  position.epochTotals = totalsOf(object.value("epoch_totals", Json()));
  position.watched = totalsOf(object.value("watched", Json()));
  if (object.contains("skipped"))
    position.skipped = countOf(object, "skipped");
  position.epochsWithoutBest = countOf(object, "epochs_without_best");
  if (double best = numberOf(object.value("best_test_loss", Json()));
      !std::isnan(best))
    position.bestTestLoss = best;
  Json epochs = object.value("epochs", Json::array());
  if (!epochs.is_array())
    return false;
  for (const Json &entry : epochs) {
    if (!entry.is_object())
      return false;
    EpochReport epoch;
    epoch.epoch = countOf(entry, "epoch");
    Json train = entry.value("train", Json()),
         test = entry.value("test", Json());
    if (train.is_object())
      epoch.train = metricsOf(train);
    if (test.is_object())
      epoch.test = metricsOf(test);
    position.epochs.push_back(std::move(epoch));
  }
  return true;
}
