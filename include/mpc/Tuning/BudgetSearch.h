//===- BudgetSearch.h - discrete search under a budget ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generic search over variables with a few options each, and a planner that
// returns the cost and the error of a configuration.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TUNING_BUDGETSEARCH_H
#define MPC_TUNING_BUDGETSEARCH_H

#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace mpc {

/// An option per variable; option 0 is the widest.
using Choice = std::vector<int>;
/// Option of a variable that the planner decides.
inline constexpr int kFree = -1;

/// A configuration with its cost and error.
struct PricedConfiguration {
  /// Without free variables.
  Choice choice;
  double cost = 0, error = 0;
};

/// Definition of a search problem.
struct BudgetSearchProblem {
  /// Number of options per variable.
  std::vector<int> options;
  /// Whether the planner can decide the variable.
  std::vector<bool> planned;
  /// Returns the configuration with its free variables chosen to minimize cost
  /// + price * error.
  std::function<PricedConfiguration(const Choice &, double price)> plan;
  /// Configurations without free variables from other policies; the result is
  /// at least as cheap as each that is within the limit.
  std::vector<Choice> starts = {};
};

/// Returns a problem whose plans add up the changes of cost and error by each
/// option alone, instead of a plan each: exact for weight formats, whose bytes
/// and errors do not depend on each other. No variable may be planned.
BudgetSearchProblem makeSeparable(const BudgetSearchProblem &space);

/// Lagrangian relaxation over the planner: errors have a price, and a bisection
/// finds the smallest price that keeps them within the limit. Variables that
/// the planner does not decide are optimized by coordinate descent under each
/// price, warm-started from the previous one. The remaining budget is spent by
/// single changes; in small problems by pairs, from every configuration within
/// the limit found so far.
class BudgetSearch {
public:
  explicit BudgetSearch(BudgetSearchProblem space) : space(std::move(space)) {}

  /// Fixes a variable at an option from now on.
  void pin(size_t variable, int option);

  /// Returns the cheapest configuration found with error at most `limit`;
  /// nullopt if the widest exceeds it. `stop` ends the search early.
  std::optional<PricedConfiguration>
  within(double limit, const std::function<bool()> &stop = {});

  /// Returns the configuration found of least error with cost at most `limit`;
  /// nullopt if the cheapest costs more.
  std::optional<PricedConfiguration>
  withinCost(double limit, const std::function<bool()> &stop = {});

  /// Returns the cheapest configuration, whatever its error.
  PricedConfiguration cheapest(const std::function<bool()> &stop = {});

  /// Returns the Pareto front: configurations for rising prices, from the
  /// cheapest to the most accurate, in order of cost.
  std::vector<PricedConfiguration>
  front(int prices, const std::function<bool()> &stop = {});

  /// All variables at their widest option.
  PricedConfiguration widest() { return plan(extreme(/*narrow=*/false), 0); }

  /// The starts, with pins applied.
  std::vector<PricedConfiguration> starts();

  /// Returns the cost and error of a configuration without free variables.
  PricedConfiguration price(const Choice &choice) { return plan(choice, 0); }

  /// Number of plans made so far.
  int64_t getPlans() const { return plans; }

private:
  PricedConfiguration plan(const Choice &choice, double price);
  /// All variables wide, or those that the planner does not decide narrow and
  /// the others free.
  Choice extreme(bool narrow) const;
  PricedConfiguration descend(Choice start, double price);
  /// Applies single changes, and in small problems pairs, that improve `goal`
  /// and keep the other figure within `limit`.
  using Figure = double PricedConfiguration::*;
  PricedConfiguration spend(PricedConfiguration from, Figure goal,
                            Figure limited, double limit);
  bool stops() const { return shouldStop && shouldStop(); }

  BudgetSearchProblem space;
  std::vector<std::pair<size_t, int>> pinned;
  std::function<bool()> shouldStop;
  int64_t plans = 0;
  /// Cache of configurations without free variables (price-independent).
  std::map<Choice, PricedConfiguration> known;
};

/// Returns the elements of 0 .. count - 1 that alone make `violates` true, by
/// bisection: sets that do not violate are not split. `violates` is called
/// about twice the number of culprits times log2(`count`).
std::vector<size_t>
findCulprits(size_t count,
             const std::function<bool(const std::vector<size_t> &)> &violates);

} // namespace mpc

#endif // MPC_TUNING_BUDGETSEARCH_H
