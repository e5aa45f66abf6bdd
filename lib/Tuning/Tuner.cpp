//===- Tuner.cpp - tuning with measurements -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Tuning/Tuner.h"

#include <algorithm>
#include <cmath>
#include <utility>

using namespace mpc;

/// Maximum measurements, without those of the bisection.
static constexpr int kMostRounds = 12;
/// Share of the limit at which the search ends.
static constexpr double kWellSpent = 0.9;
/// Ratio of measured to predicted squares from which errors do not add up.
static constexpr double kNotAdditive = 25;
/// Maximum ratio of predicted to measured squares by which a budget is
/// extended: errors of outputs with few elements may be small by chance.
static constexpr double kMostLuck = 4;
/// Share of a cost limit at which the search ends.
static constexpr double kCostSpent = 0.97;
/// Safety factor of the next target relative to the last measurement.
static constexpr double kCaution = 0.9;

/// Measures and records a configuration; nullopt if the measurement failed.
static std::optional<TunedPoint> measurePoint(const PricedConfiguration &priced,
                                              Budget::Measure measure,
                                              const TuningCallbacks &questions,
                                              TuningResult &result) {
  std::optional<Measurement> measured = questions.measure(priced.choice);
  if (!measured)
    return std::nullopt;
  TunedPoint point{priced, errorOf(measure, priced.error), measured->error,
                   measured->cost.value_or(priced.cost)};
  result.tried.push_back(point);
  if (questions.onPoint)
    questions.onPoint(point);
  return point;
}

namespace {

class Tuner {
public:
  Tuner(BudgetSearch &search, const Budget &budget,
        const TuningCallbacks &questions)
      : search(search), budget(budget), questions(questions) {}

  TuningResult run();

private:
  std::optional<TunedPoint> measure(const PricedConfiguration &priced);
  void measureStarts();
  bool findCulprits(const Choice &choice);
  double square(double error) const { return squareOf(budget.measure, error); }
  bool stops() {
    result.isStopped |= questions.stop && questions.stop();
    return result.isStopped || failed;
  }

  BudgetSearch &search;
  const Budget &budget;
  const TuningCallbacks &questions;
  TuningResult result;
  bool failed = false;
};

} // namespace

std::optional<TunedPoint> Tuner::measure(const PricedConfiguration &priced) {
  for (const TunedPoint &point : result.tried)
    if (point.priced.choice == priced.choice)
      return point;
  std::optional<TunedPoint> found =
      measurePoint(priced, budget.measure, questions, result);
  failed |= !found;
  // Among equal costs, the smaller error.
  auto isBetter = [](const TunedPoint &a, const TunedPoint &b) {
    return std::pair(a.cost, a.measured) < std::pair(b.cost, b.measured);
  };
  if (found && found->measured <= budget.limit &&
      (!result.best || isBetter(*found, *result.best)))
    result.best = found;
  return found;
}

void Tuner::measureStarts() {
  for (const PricedConfiguration &start : search.starts())
    if (!stops())
      measure(start);
}

/// Pins the variables that exceed the budget alone; false if there are none.
bool Tuner::findCulprits(const Choice &choice) {
  std::vector<size_t> narrow;
  for (size_t i = 0; i < choice.size(); ++i)
    if (choice[i] > 0)
      narrow.push_back(i);
  std::vector<size_t> found =
      mpc::findCulprits(narrow.size(), [&](const std::vector<size_t> &block) {
        if (stops())
          return false;
        Choice part(choice.size(), 0);
        for (size_t index : block)
          part[narrow[index]] = choice[narrow[index]];
        std::optional<Measurement> measured = questions.measure(part);
        failed |= !measured;
        return measured && !(measured->error <= budget.limit);
      });
  for (size_t index : found) {
    search.pin(narrow[index], 0);
    result.culprits.push_back(narrow[index]);
  }
  return !found.empty();
}

TuningResult Tuner::run() {
  double target = square(budget.limit);
  result.widest = measure(search.widest());
  if (!result.widest || !(result.widest->measured <= budget.limit))
    return result;
  measureStarts();
  // Subtract the error of f32 itself.
  target = std::max(target - square(result.widest->measured), 0.0);
  double kept = 0, broken = INFINITY;
  for (int round = 0; round < kMostRounds && !stops(); ++round) {
    std::optional<PricedConfiguration> found =
        search.within(target, questions.stop);
    if (!found)
      break;
    std::optional<TunedPoint> point = measure(*found);
    if (!point)
      break;
    double squared = square(point->measured);
    if (point->measured <= budget.limit) {
      kept = std::max(kept, target);
      if (point->measured >= kWellSpent * budget.limit)
        break;
      double gain = squared > 0 ? square(budget.limit) / squared : 16;
      target *= std::clamp(gain * kCaution, 1.05, 16.0);
      // For Max and Top1 the prediction usually exceeds the measurement.
      if (budget.measure == Budget::Measure::Rms ||
          budget.measure == Budget::Measure::Kl ||
          budget.measure == Budget::Measure::Perplexity ||
          budget.measure == Budget::Measure::Cosine)
        target = std::min(target, kMostLuck * square(budget.limit));
      if (target <= kept)
        break;
    } else {
      broken = std::min(broken, target);
      bool isAdditive = squared <= kNotAdditive * found->error;
      if (!isAdditive && findCulprits(found->choice)) {
        // The pins have changed the problem.
        kept = 0;
        broken = INFINITY;
        continue;
      }
      double loss = std::isfinite(squared) ? square(budget.limit) / squared : 0;
      target *= std::clamp(loss * kCaution, 0.01, 0.9);
    }
    if (target >= broken || target <= kept)
      target =
          kept > 0 && std::isfinite(broken) ? std::sqrt(kept * broken) : target;
    if (broken < 1.1 * kept)
      break;
  }
  return result;
}

TuningResult mpc::tuneToBudget(BudgetSearch &search, const Budget &budget,
                               const TuningCallbacks &questions) {
  return Tuner(search, budget, questions).run();
}

TuningResult mpc::tuneToCost(BudgetSearch &search, Budget::Measure measure,
                             double share, const TuningCallbacks &questions) {
  TuningResult result;
  auto stops = [&] {
    result.isStopped |= questions.stop && questions.stop();
    return result.isStopped;
  };
  result.widest = measurePoint(search.widest(), measure, questions, result);
  if (!result.widest)
    return result;
  double limit = share * result.widest->cost;
  if (result.widest->cost <= limit)
    result.best = result.widest;
  // Predicted costs need not have the unit of measured ones.
  double target = share * result.widest->priced.cost;
  double kept = 0, broken = INFINITY;
  for (int round = 0; round < 2 * kMostRounds && !stops(); ++round) {
    std::optional<PricedConfiguration> found =
        search.withinCost(target, questions.stop);
    // The measured cost of the cheapest may be below its prediction.
    if (!found && !result.best)
      found = search.cheapest(questions.stop);
    if (!found)
      break;
    auto known = std::find_if(result.tried.begin(), result.tried.end(),
                              [&](const TunedPoint &tried) {
                                return tried.priced.choice == found->choice;
                              });
    if (known != result.tried.end()) {
      // A known configuration that costs too much: lower the limit below its
      // price.
      if (known->cost > limit) {
        target = std::min(target, found->cost) * 0.98;
        continue;
      }
      kept = std::max(kept, target);
      target *= 1.05;
      if (target >= broken)
        break;
      continue;
    }
    std::optional<TunedPoint> point =
        measurePoint(*found, measure, questions, result);
    if (!point)
      return result;
    double ratio = point->cost > 0 ? limit / point->cost : 2;
    if (point->cost <= limit) {
      if (!result.best || point->measured < result.best->measured)
        result.best = point;
      kept = std::max(kept, target);
      if (ratio < 1 / kCostSpent)
        break;
      target *= std::clamp(ratio, 1.02, 2.0);
    } else {
      broken = std::min(broken, target);
      target *= std::clamp(ratio * kCostSpent, 0.3, 0.98);
    }
    if (target >= broken || target <= kept)
      target = kept > 0 && std::isfinite(broken) ? (kept + broken) / 2 : target;
    if (broken < 1.02 * kept)
      break;
  }
  return result;
}
