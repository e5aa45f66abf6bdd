//===- BudgetSearch.cpp - discrete search under a budget ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Tuning/BudgetSearch.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace mpc;

/// Maximum rounds over all variables under one price.
static constexpr int kMostBudgetRounds = 4;
/// Bisection steps of the price interval, in powers of two.
static constexpr int kBudgetHalvings = 14;
/// Maximum variables of a problem to search pair by pair.
static constexpr size_t kFewVariables = 16;

BudgetSearchProblem mpc::makeSeparable(const BudgetSearchProblem &space) {
  /// Cost and error by variable and option, as changes from the widest.
  using Changes = std::vector<std::vector<std::pair<double, double>>>;
  const Choice wide(space.options.size(), 0);
  const PricedConfiguration widest = space.plan(wide, 0);
  Changes changes;
  for (size_t i = 0; i < wide.size(); ++i) {
    changes.push_back({{0, 0}});
    for (int option = 1; option < space.options[i]; ++option) {
      Choice other = wide;
      other[i] = option;
      PricedConfiguration found = space.plan(other, 0);
      changes[i].emplace_back(found.cost - widest.cost,
                              found.error - widest.error);
    }
  }
  BudgetSearchProblem separable = space;
  separable.plan = [widest, changes = std::move(changes)](const Choice &choice,
                                                          double) {
    PricedConfiguration priced{choice, widest.cost, widest.error};
    for (size_t i = 0; i < choice.size(); ++i) {
      priced.cost += changes[i][choice[i]].first;
      priced.error += changes[i][choice[i]].second;
    }
    return priced;
  };
  return separable;
}

void BudgetSearch::pin(size_t variable, int option) {
  pinned.emplace_back(variable, option);
}

PricedConfiguration BudgetSearch::plan(const Choice &choice, double price) {
  constexpr size_t kMostKnown = 1 << 16;
  Choice asked = choice;
  for (auto [variable, option] : pinned)
    asked[variable] = option;
  if (auto found = known.find(asked); found != known.end())
    return found->second;
  ++plans;
  PricedConfiguration made = space.plan(asked, price);
  bool isFixed = std::find(asked.begin(), asked.end(), kFree) == asked.end();
  if (known.size() < kMostKnown && (isFixed || price == 0))
    known[isFixed ? asked : made.choice] = made;
  return made;
}

Choice BudgetSearch::extreme(bool narrow) const {
  Choice choice(space.options.size(), 0);
  if (narrow)
    for (size_t i = 0; i < choice.size(); ++i)
      choice[i] = space.planned[i] ? kFree : space.options[i] - 1;
  return choice;
}

PricedConfiguration BudgetSearch::descend(Choice start, double price) {
  // Without a price an infinite error costs nothing either.
  auto weigh = [&](const PricedConfiguration &found) {
    return price == 0 ? found.cost : found.cost + price * found.error;
  };
  for (size_t i = 0; i < start.size(); ++i)
    if (space.planned[i])
      start[i] = kFree;
  PricedConfiguration best = plan(start, price);
  bool improved = true;
  for (int round = 0; improved && round < kMostBudgetRounds; ++round) {
    improved = false;
    for (size_t i = 0; i < start.size(); ++i) {
      if (space.planned[i])
        continue;
      for (int option = 0; option < space.options[i] && !stops(); ++option) {
        if (option == start[i])
          continue;
        Choice other = start;
        other[i] = option;
        PricedConfiguration found = plan(other, price);
        if (weigh(found) >= weigh(best))
          continue;
        best = std::move(found);
        start = std::move(other);
        improved = true;
      }
    }
  }
  return best;
}

/// Applies the most profitable change of each round.
PricedConfiguration BudgetSearch::spend(PricedConfiguration from, Figure goal,
                                        Figure limited, double limit) {
  size_t count = space.options.size();
  bool inPairs = count <= kFewVariables;
  bool improved = true;
  for (int round = 0; improved && !stops(); ++round) {
    improved = false;
    PricedConfiguration best = from;
    auto consider = [&](const Choice &choice) {
      PricedConfiguration found = plan(choice, 0);
      if (found.*limited <= limit && found.*goal < best.*goal)
        best = std::move(found);
    };
    for (size_t i = 0; i < count && !stops(); ++i) {
      for (int a = 0; a < space.options[i]; ++a) {
        if (a == from.choice[i])
          continue;
        Choice one = from.choice;
        one[i] = a;
        consider(one);
        for (size_t j = i + 1; inPairs && j < count; ++j)
          for (int b = 0; b < space.options[j]; ++b) {
            if (b == from.choice[j])
              continue;
            Choice two = one;
            two[j] = b;
            consider(two);
          }
      }
      // In large problems, take any improvement.
      if (!inPairs && best.*goal < from.*goal) {
        from = best;
        improved = true;
      }
    }
    if (best.*goal < from.*goal) {
      from = std::move(best);
      improved = true;
    }
    if (!inPairs && round >= 1)
      break;
  }
  return from;
}

std::optional<PricedConfiguration>
BudgetSearch::within(double limit, const std::function<bool()> &stop) {
  shouldStop = stop;
  PricedConfiguration widest = plan(extreme(/*narrow=*/false), 0);
  if (!(widest.error <= limit))
    return std::nullopt;
  PricedConfiguration cheapest = descend(extreme(/*narrow=*/true), 0);
  PricedConfiguration best = widest;
  std::vector<PricedConfiguration> kept = {widest};
  auto consider = [&](const PricedConfiguration &found) {
    if (found.error > limit)
      return;
    kept.push_back(found);
    if (found.cost < best.cost)
      best = found;
  };
  consider(cheapest);
  bool needsPrice = cheapest.error > limit;
  // Initial interval: from the price at which the whole saving is worth a
  // hundredth of the limit to that at which it is worth a million limits.
  double saving = std::max(widest.cost - cheapest.cost, 1e-30);
  double scale = saving / std::max(limit, 1e-30);
  double low = std::log2(scale) - 7, high = std::log2(scale) + 20;
  Choice at = cheapest.choice;
  for (int i = 0; needsPrice && i < kBudgetHalvings && !stops(); ++i) {
    double middle = (low + high) / 2;
    PricedConfiguration found = descend(at, std::exp2(middle));
    consider(found);
    // Try the other end: where a descent from narrow is stuck, one from wide
    // may not be.
    if (found.error > limit) {
      PricedConfiguration other =
          descend(extreme(/*narrow=*/false), std::exp2(middle));
      consider(other);
      if (other.error <= limit)
        found = std::move(other);
    }
    (found.error <= limit ? high : low) = middle;
    at = found.choice;
  }
  constexpr Figure kCost = &PricedConfiguration::cost,
                   kError = &PricedConfiguration::error;
  best = spend(std::move(best), kCost, kError, limit);
  bool isSmall = space.options.size() <= kFewVariables;
  for (const PricedConfiguration &start : starts()) {
    if (start.error > limit)
      continue;
    kept.push_back(start);
    PricedConfiguration other =
        isSmall ? start : spend(start, kCost, kError, limit);
    if (other.cost < best.cost)
      best = std::move(other);
  }
  if (!isSmall)
    return best;
  std::sort(kept.begin(), kept.end(),
            [](const auto &a, const auto &b) { return a.choice < b.choice; });
  for (size_t i = 0; i < kept.size() && !stops(); ++i) {
    if (i && kept[i].choice == kept[i - 1].choice)
      continue;
    PricedConfiguration other = spend(kept[i], kCost, kError, limit);
    if (other.cost < best.cost)
      best = std::move(other);
  }
  return best;
}

PricedConfiguration BudgetSearch::cheapest(const std::function<bool()> &stop) {
  shouldStop = stop;
  return descend(extreme(/*narrow=*/true), 0);
}

std::vector<PricedConfiguration> BudgetSearch::starts() {
  std::vector<PricedConfiguration> priced;
  priced.reserve(space.starts.size());
  for (const Choice &start : space.starts)
    priced.push_back(plan(start, 0));
  return priced;
}

std::optional<PricedConfiguration>
BudgetSearch::withinCost(double limit, const std::function<bool()> &stop) {
  shouldStop = stop;
  PricedConfiguration cheapest = descend(extreme(/*narrow=*/true), 0);
  if (!(cheapest.cost <= limit))
    return std::nullopt;
  PricedConfiguration best = cheapest;
  auto consider = [&](const PricedConfiguration &found) {
    if (found.cost <= limit && found.error < best.error)
      best = found;
  };
  PricedConfiguration widest = plan(extreme(/*narrow=*/false), 0);
  consider(widest);
  for (const PricedConfiguration &start : starts())
    consider(start);
  // As in within(), for the error of the cheapest configuration.
  double errors = std::isfinite(cheapest.error) ? cheapest.error : 1;
  double saving = std::max(widest.cost - cheapest.cost, 1e-30);
  double scale = std::log2(saving / std::max(errors, 1e-30));
  double low = scale - 7, high = scale + 30;
  Choice at = cheapest.choice;
  for (int i = 0; widest.cost > limit && i < kBudgetHalvings && !stops(); ++i) {
    double middle = (low + high) / 2;
    PricedConfiguration found = descend(at, std::exp2(middle));
    consider(found);
    (found.cost <= limit ? low : high) = middle;
    at = found.choice;
  }
  return spend(std::move(best), &PricedConfiguration::error,
               &PricedConfiguration::cost, limit);
}

std::vector<PricedConfiguration>
BudgetSearch::front(int prices, const std::function<bool()> &stop) {
  shouldStop = stop;
  PricedConfiguration widest = plan(extreme(/*narrow=*/false), 0);
  PricedConfiguration cheapest = descend(extreme(/*narrow=*/true), 0);
  std::vector<PricedConfiguration> found = {cheapest, widest};
  // An infinite error has no price; use a large one instead.
  double errors = std::isfinite(cheapest.error) ? cheapest.error : 1;
  double saving = std::max(widest.cost - cheapest.cost, 1e-30);
  Choice at = cheapest.choice;
  for (int i = 0; i < prices && !stops(); ++i) {
    // From a hundredth to 2^30 times the value of the cheapest configuration's
    // error.
    double power = -7 + 37.0 * i / std::max(prices - 1, 1);
    PricedConfiguration next =
        descend(at, saving / std::max(errors, 1e-30) * std::exp2(power));
    at = next.choice;
    found.push_back(std::move(next));
  }
  std::sort(found.begin(), found.end(), [](const auto &a, const auto &b) {
    return a.cost != b.cost ? a.cost < b.cost : a.error < b.error;
  });
  std::vector<PricedConfiguration> front;
  for (PricedConfiguration &point : found)
    if (front.empty() || point.error < front.back().error)
      front.push_back(std::move(point));
  return front;
}

std::vector<size_t> mpc::findCulprits(
    size_t count,
    const std::function<bool(const std::vector<size_t> &)> &violates) {
  std::vector<size_t> culprits;
  std::vector<std::vector<size_t>> blocks(1, std::vector<size_t>(count));
  std::iota(blocks.front().begin(), blocks.front().end(), 0);
  while (!blocks.empty()) {
    std::vector<size_t> block = std::move(blocks.back());
    blocks.pop_back();
    if (block.empty() || !violates(block))
      continue;
    if (block.size() == 1) {
      culprits.push_back(block.front());
      continue;
    }
    auto middle = block.begin() + block.size() / 2;
    blocks.emplace_back(middle, block.end());
    blocks.emplace_back(block.begin(), middle);
  }
  return culprits;
}
