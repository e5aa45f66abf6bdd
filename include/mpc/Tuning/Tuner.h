//===- Tuner.h - tuning with measurements -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TUNING_TUNER_H
#define MPC_TUNING_TUNER_H

#include "mpc/Tuning/Budget.h"
#include "mpc/Tuning/BudgetSearch.h"

namespace mpc {

/// Measurement of a configuration.
struct Measurement {
  /// In the unit of the budget, infinite if outputs are not finite.
  double error = 0;
  /// Measured cost; nullopt if the predicted one is used.
  std::optional<double> cost;
};

/// A measured configuration.
struct TunedPoint {
  PricedConfiguration priced;
  /// First-order and measured errors, in the unit of the budget.
  double predicted = 0, measured = 0;
  /// Measured or predicted cost.
  double cost = 0;
};

struct TuningCallbacks {
  /// Measures a configuration on samples; nullopt ends the tuning as failed.
  std::function<std::optional<Measurement>(const Choice &)> measure;
  /// Returns true to end the tuning with the best so far.
  std::function<bool()> stop;
  /// Called with each point when it is measured.
  std::function<void(const TunedPoint &)> onPoint;
};

struct TuningResult {
  /// The cheapest point within the budget; nullopt if f32 exceeds it or a
  /// measurement failed.
  std::optional<TunedPoint> best;
  /// All variables wide.
  std::optional<TunedPoint> widest;
  /// In the order of measurement.
  std::vector<TunedPoint> tried;
  /// Variables that exceed the budget alone although their first-order error is
  /// small; they are pinned wide.
  std::vector<size_t> culprits;
  bool isStopped = false;
};

/// Searches for configurations with a first-order error within `limit` and
/// measures them; a larger measured error tightens the search's limit, a
/// smaller one loosens it. If errors do not add up, bisects for the variables
/// that exceed the budget and pins them wide. Also measures
/// BudgetSearchProblem::starts: the best point costs no more than any of those
/// within the budget.
TuningResult tuneToBudget(BudgetSearch &search, const Budget &budget,
                          const TuningCallbacks &questions);

/// Searches for the least error at `share` of the cost of the widest
/// configuration, as measured; measured costs adjust the search's limit. Errors
/// are in the unit of `measure`; `best` is nullopt if the cheapest
/// configuration costs more.
TuningResult tuneToCost(BudgetSearch &search, Budget::Measure measure,
                        double share, const TuningCallbacks &questions);

} // namespace mpc

#endif // MPC_TUNING_TUNER_H
