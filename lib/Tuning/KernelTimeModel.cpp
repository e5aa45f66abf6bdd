//===- KernelTimeModel.cpp - time model from measured kernels -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Tuning/KernelTimeModel.h"

#include <algorithm>
#include <cassert>
#include <cmath>

using namespace mpc;

/// Bisection steps of the price interval, in powers of two.
static constexpr int kHalvings = 4;
/// Weight of a product's type relative to that of a value in the distance of
/// configurations: it determines what the kernel multiplies.
static constexpr double kProductWeight = 16;

KernelTimeModel::KernelTimeModel(std::vector<Variable> given)
    : variables(std::move(given)) {
  for (size_t i = 0; i < variables.size(); ++i) {
    shared.insert(i);
    for (const std::string &name : variables[i].names)
      byName.emplace(name, i);
  }
}

std::set<size_t>
KernelTimeModel::variablesOf(const std::vector<std::string> &names) const {
  std::set<size_t> found;
  for (const std::string &name : names)
    for (auto [at, end] = byName.equal_range(name); at != end; ++at)
      found.insert(at->second);
  return found;
}

void KernelTimeModel::add(const Choice &choice,
                          const std::vector<TimedKernel> &kernels) {
  Timed entry{choice, {}};
  for (const TimedKernel &kernel : kernels) {
    std::set<size_t> inside = variablesOf(kernel.ops);
    if (inside.empty())
      continue;
    for (size_t variable : inside)
      shared.unionSets(*inside.begin(), variable);
    entry.kernels.emplace_back(*inside.begin(), kernel.seconds);
  }
  timed.push_back(std::move(entry));
  std::map<size_t, Part> byLeader;
  for (size_t i = 0; i < variables.size(); ++i) {
    Part &part = byLeader[shared.getLeaderValue(i)];
    part.seconds.resize(timed.size());
    part.variables.insert(i);
    part.variables.insert(variables[i].reads.begin(), variables[i].reads.end());
  }
  for (size_t number = 0; number < timed.size(); ++number)
    for (auto [variable, seconds] : timed[number].kernels)
      byLeader[shared.getLeaderValue(variable)].seconds[number] += seconds;
  parts.clear();
  for (auto &[leader, part] : byLeader)
    parts.push_back(std::move(part));
}

double KernelTimeModel::distance(const std::set<size_t> &part, const Choice &a,
                                 const Choice &b) const {
  double sum = 0;
  for (size_t variable : part)
    if (a[variable] != b[variable])
      sum += variables[variable].isProduct ? kProductWeight : 1;
  return sum;
}

double KernelTimeModel::secondsOf(const Choice &choice) const {
  double sum = 0;
  for (const Part &part : parts) {
    double nearest = INFINITY, seconds = 0;
    int count = 0;
    for (size_t number = 0; number < timed.size(); ++number) {
      double away = distance(part.variables, timed[number].choice, choice);
      if (away > nearest)
        continue;
      if (away < nearest)
        nearest = away, seconds = count = 0;
      seconds += part.seconds[number];
      ++count;
    }
    sum += count ? seconds / count : 0;
  }
  return sum;
}

/// Returns `space` with a price of `price` per second above `free`.
static BudgetSearchProblem withPrice(BudgetSearchProblem space,
                                     SecondsOf secondsOf, double price,
                                     double free = 0) {
  space.plan = [plan = std::move(space.plan), secondsOf = std::move(secondsOf),
                price, free](const Choice &choice, double errorPrice) {
    PricedConfiguration found = plan(choice, errorPrice);
    found.cost += price * std::max(secondsOf(found.choice) - free, 0.0);
    return found;
  };
  return space;
}

/// Returns the price at which the whole time of the widest configuration is
/// worth its cost; nullopt if the time is unknown.
static std::optional<double> scaleOf(const BudgetSearchProblem &space,
                                     const SecondsOf &secondsOf) {
  PricedConfiguration widest = BudgetSearch(space).widest();
  double seconds = secondsOf(widest.choice);
  if (!(seconds > 0))
    return std::nullopt;
  return widest.cost / seconds;
}

BudgetSearchProblem mpc::withinTime(BudgetSearchProblem space,
                                    SecondsOf secondsOf, double most) {
  constexpr double kDear = 64;
  double price = kDear * scaleOf(space, secondsOf).value_or(0);
  return withPrice(std::move(space), std::move(secondsOf), price, most);
}

std::optional<PricedConfiguration>
mpc::cheapestInTime(const BudgetSearchProblem &space,
                    const SecondsOf &secondsOf, double limit, double most,
                    const std::function<bool()> &stop) {
  std::optional<double> scale = scaleOf(space, secondsOf);
  if (!scale)
    return std::nullopt;
  std::optional<PricedConfiguration> best;
  auto fits = [&](double power) {
    BudgetSearch search(withPrice(space, secondsOf, *scale * std::exp2(power)));
    std::optional<PricedConfiguration> found = search.within(limit, stop);
    if (!found || secondsOf(found->choice) > most)
      return false;
    PricedConfiguration priced = space.plan(found->choice, 0);
    if (!best || priced.cost < best->cost)
      best = std::move(priced);
    return true;
  };
  double low = -4, high = 8;
  if (!fits(high))
    return std::nullopt;
  for (int i = 0; i < kHalvings && !(stop && stop()); ++i) {
    double middle = (low + high) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return best;
}

size_t mpc::chooseTuningCandidate(const std::vector<TuningCandidate> &rivals,
                                  CandidateNoise noise) {
  double least = INFINITY, bar = INFINITY;
  for (const TuningCandidate &rival : rivals)
    if (rival.isBuiltIn)
      least = std::min(least, rival.cost);
  double mostCost = least * (1 + noise.cost);
  for (const TuningCandidate &rival : rivals)
    if (rival.isBuiltIn && rival.cost <= mostCost)
      bar = std::min(bar, rival.beside);
  double mostBeside = bar * (1 + noise.beside);
  auto isEligible = [&](const TuningCandidate &rival) {
    return rival.cost <= mostCost && rival.beside <= mostBeside;
  };
  double cheapest = INFINITY;
  for (const TuningCandidate &rival : rivals)
    if (isEligible(rival))
      cheapest = std::min(cheapest, rival.cost);
  size_t chosen = rivals.size();
  for (size_t i = 0; i < rivals.size(); ++i)
    if (isEligible(rivals[i]) && rivals[i].cost <= cheapest * (1 + noise.cost))
      if (chosen == rivals.size() || rivals[i].beside < rivals[chosen].beside)
        chosen = i;
  assert(chosen < rivals.size() && "one rival is built in");
  return chosen;
}
