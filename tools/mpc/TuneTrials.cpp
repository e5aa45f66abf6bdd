//===- TuneTrials.cpp - validation of error predictions -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tune.h"

#include "mpc/Tuning/RankCorrelation.h"

#include <cmath>
#include <random>

using namespace mpc;
using namespace mpc::tool;

/// Narrows a random fraction of the variables, so that errors spread over the
/// whole range.
static Choice drawChoice(const PolicySearchSpace &space,
                         std::mt19937_64 &generator) {
  std::uniform_real_distribution<double> part(0, 1);
  double share = part(generator);
  Choice choice;
  for (const PolicySearchSpace::Variable &variable : space.getVariables()) {
    bool isNarrow = part(generator) < share;
    std::uniform_int_distribution<int> option(1,
                                              int(variable.options.size()) - 1);
    choice.push_back(isNarrow ? option(generator) : 0);
  }
  return choice;
}

Status TuneCommand::measureTrials() {
  std::mt19937_64 generator(arguments.common.seed);
  // Float32's own error is a lower bound.
  double own = result.widest && std::isfinite(result.widest->measured)
                   ? squareOf(budget.measure, result.widest->measured)
                   : 0;
  // Some configurations overflow, as predicted, which is not informative.
  int64_t most = 20 * int64_t(arguments.trials);
  for (int64_t draw = 0;
       draw < most && int64_t(trials.size()) < arguments.trials && !stops();
       ++draw) {
    PricedConfiguration priced = finder->price(drawChoice(*space, generator));
    if (!std::isfinite(priced.error))
      continue;
    Result<PolicyMeasurements> figures =
        measure(priced.choice, TuneState::Part::Searched);
    if (!figures.ok())
      return figures.status();
    trials.push_back(
        {errorOf(budget.measure, priced.error + own), figures->error});
  }
  return {};
}

Json TuneCommand::describeTrials() const {
  std::vector<double> predicted, measured, ratios;
  Json points = Json::array();
  for (const TuningTrial &trial : trials) {
    predicted.push_back(trial.predicted);
    measured.push_back(trial.measured);
    if (trial.measured > 0 && std::isfinite(trial.measured))
      ratios.push_back(trial.predicted / trial.measured);
    points.push_back({jsonNumber(trial.predicted), jsonNumber(trial.measured)});
  }
  return {{"count", trials.size()},
          {"rank_correlation", rankCorrelation(predicted, measured)},
          {"median_ratio", ratios.empty() ? 1 : medianOf(ratios)},
          {"predicted_and_measured", points}};
}
