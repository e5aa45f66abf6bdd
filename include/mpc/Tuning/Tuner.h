//===- Tuner.h - a budget kept by measurement -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TUNING_TUNER_H
#define MPC_TUNING_TUNER_H

#include "mpc/Tuning/Budget.h"
#include "mpc/Tuning/BudgetSearch.h"

namespace mpc {

/// What a measurement says of a choice.
struct Measurement {
  /// In the unit of the budget, infinite where outputs are not finite.
  double error = 0;
  /// What the choice really costs; nothing where its price stands.
  std::optional<double> cost;
};

/// A choice that was measured.
struct TunedPoint {
  PricedChoice priced;
  /// Errors in the unit of the budget, to first order and as measured.
  double predicted = 0, measured = 0;
  /// As measured, or the price.
  double cost = 0;
};

struct TuningQuestions {
  /// What a choice does on samples; nothing ends the tuning, which has failed
  /// then.
  std::function<std::optional<Measurement>(const Choice &)> measure;
  /// True ends the tuning with what was found.
  std::function<bool()> stop;
  /// Told of each point as it is measured.
  std::function<void(const TunedPoint &)> onPoint;
};

struct TuningResult {
  /// The cheapest point that keeps the budget; nothing where f32 breaks it or
  /// a measurement failed.
  std::optional<TunedPoint> best;
  /// Everything wide.
  std::optional<TunedPoint> widest;
  /// In the order in which they were measured.
  std::vector<TunedPoint> tried;
  /// Variables that break the budget alone, though their first-order error is
  /// small; they are wide.
  std::vector<size_t> culprits;
  bool isStopped = false;
};

/// Searches what keeps `limit` to first order and measures it; more error than
/// that tightens what the search may spend, less loosens it. Where errors do
/// not add up at all, the variables that break the budget are looked for by
/// halves and pinned wide. What others would choose (SearchSpace::starts) is
/// measured as well: the point that is best costs no more than those of them
/// that keep the budget.
TuningResult tuneToBudget(BudgetSearch &search, const Budget &budget,
                          const TuningQuestions &questions);

/// Searches the least error at `share` of what everything wide costs, as
/// measured; what measurements say of costs moves what the search may spend.
/// Errors are in the unit of `measure`; `best` is nothing where the cheapest
/// choice costs more.
TuningResult tuneToCost(BudgetSearch &search, Budget::Measure measure,
                        double share, const TuningQuestions &questions);

} // namespace mpc

#endif // MPC_TUNING_TUNER_H
