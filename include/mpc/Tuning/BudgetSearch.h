//===- BudgetSearch.h - the cheapest choice within a budget -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Knows no graphs: variables with a few options each, and a planner that says
// what a choice costs and errs.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TUNING_BUDGETSEARCH_H
#define MPC_TUNING_BUDGETSEARCH_H

#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace mpc {

/// An option for each variable; option 0 is the widest.
using Choice = std::vector<int>;
/// Of a variable that the planner decides itself.
inline constexpr int kFree = -1;

/// A choice with its figures.
struct PricedChoice {
  /// Without a free variable.
  Choice choice;
  double cost = 0, error = 0;
};

/// What a search asks.
struct SearchSpace {
  /// Number of options by variable.
  std::vector<int> options;
  /// Whether the planner decides the variable where it is free.
  std::vector<bool> planned;
  /// The choice with its free variables decided so that cost + price * error is
  /// least, as far as they go.
  std::function<PricedChoice(const Choice &, double price)> plan;
  /// Choices without a free variable that others would make; none is cheaper
  /// than what is found, as long as it keeps the limit.
  std::vector<Choice> starts = {};
};

/// A Lagrangian over the planner: errors have a price, and the price is the
/// least at which they stay within the limit. Variables that the planner does
/// not decide are improved one by one under each price, beginning with those of
/// the price before. What the budget leaves over at the end is spent by single
/// changes; of small problems by pairs, from every choice within the limit that
/// was come by.
class BudgetSearch {
public:
  explicit BudgetSearch(SearchSpace space) : space(std::move(space)) {}

  /// Keeps a variable at an option from now on.
  void pin(size_t variable, int option);

  /// The cheapest choice found whose error is at most `limit`; nothing where
  /// that of the widest is above. `stop` ends the search with what there is.
  std::optional<PricedChoice> within(double limit,
                                     const std::function<bool()> &stop = {});

  /// The choice found of least error whose cost is at most `limit`; nothing
  /// where the cheapest costs more.
  std::optional<PricedChoice>
  withinCost(double limit, const std::function<bool()> &stop = {});

  /// What costs least, whatever it errs.
  PricedChoice cheapest(const std::function<bool()> &stop = {});

  /// Choices for rising prices, from the cheapest to the most exact, each one
  /// cheaper than the next.
  std::vector<PricedChoice> front(int prices,
                                  const std::function<bool()> &stop = {});

  /// Everything wide.
  PricedChoice widest() { return plan(extreme(/*narrow=*/false), 0); }

  /// What others would choose, under the pins.
  std::vector<PricedChoice> starts();

  /// What a choice without a free variable costs and errs.
  PricedChoice price(const Choice &choice) { return plan(choice, 0); }

  /// Plans that were made so far.
  int64_t getPlans() const { return plans; }

private:
  PricedChoice plan(const Choice &choice, double price);
  /// Everything wide, or everything that the planner does not decide narrow and
  /// the rest free.
  Choice extreme(bool narrow) const;
  PricedChoice descend(Choice start, double price);
  /// Single changes, and of small problems pairs, that make a choice better in
  /// `goal` and keep `limit` of the other figure.
  using Figure = double PricedChoice::*;
  PricedChoice spend(PricedChoice from, Figure goal, Figure limited,
                     double limit);
  bool stops() const { return shouldStop && shouldStop(); }

  SearchSpace space;
  std::vector<std::pair<size_t, int>> pinned;
  std::function<bool()> shouldStop;
  int64_t plans = 0;
  /// Choices without a free variable, whose figures no price changes.
  std::map<Choice, PricedChoice> known;
};

/// The elements of 0 .. count - 1 each of which alone makes `violates` true,
/// by halves: what does not violate together is not looked into. `violates` is
/// asked about twice the number of culprits times the logarithm of `count`.
std::vector<size_t>
findCulprits(size_t count,
             const std::function<bool(const std::vector<size_t> &)> &violates);

} // namespace mpc

#endif // MPC_TUNING_BUDGETSEARCH_H
