//===- TuneRefine.cpp - cheapest configuration without search -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The cheapest configuration is known without derivatives. If it satisfies the
// budget, or an equally cheap built-in policy does, there is nothing to search:
// one or two runs per sample, besides those in float64.
//
//===----------------------------------------------------------------------===//

#include "Tune.h"

#include "mpc/Analysis/WeightColumns.h"

#include <algorithm>
#include <limits>

using namespace mpc;
using namespace mpc::tool;

/// Marks a value without a prediction.
static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// Approximate number of significant bits of a contraction's operands, or of a
/// value.
static int bitsOf(const PolicySearchSpace::Option &option) {
  int bits = option.type == PolicyType::TensorFloat32
                 ? kFloat16Bits
                 : significantBits(option.type);
  switch (option.weights.type) {
  case WeightType::Float32:
    return bits;
  case WeightType::Float16:
    return std::min(bits, kFloat16Bits);
  case WeightType::BFloat16:
    return std::min(bits, kBFloat16Bits);
  case WeightType::Int16:
    return std::min(bits, 15);
  case WeightType::Int8:
    return std::min(bits, 7);
  case WeightType::Float8:
    return std::min(bits, 4);
  case WeightType::Int4:
    return std::min(bits, 3);
  }
  llvm_unreachable("every type has bits");
}

/// Returns `found` with more bits where they are free.
static PricedConfiguration withMoreBits(const PolicySearchSpace &space,
                                        BudgetSearch &search,
                                        PricedConfiguration found) {
  for (auto [index, variable] : llvm::enumerate(space.getVariables()))
    for (size_t option = 0; option < variable.options.size(); ++option) {
      Choice other = found.choice;
      other[index] = int(option);
      if (bitsOf(variable.options[option]) <=
          bitsOf(variable.options[found.choice[index]]))
        continue;
      PricedConfiguration priced = search.price(other);
      if (priced.cost <= found.cost)
        found = std::move(priced);
    }
  return found;
}

/// Returns the cost of a configuration once compiled.
Result<double> TuneCommand::compiledCost(const Choice &choice) const {
  TunedPoint point;
  point.priced.choice = choice;
  Result<TemporaryPolicy> policy = TemporaryPolicy::write(policyFile(point));
  if (!policy.ok())
    return policy.status();
  Result<PolicyMeasurements> figures =
      meter->measure(policy->path(), /*samples=*/{}, /*isTimed=*/false);
  if (!figures.ok())
    return figures.status();
  return costOf(*figures);
}

Status TuneCommand::refineCheapest() {
  // Reports and trials need derivatives; times are measured, not predicted.
  bool isTimed = objective == TuningObjective::Time && meter->isCompiled();
  if (costBudget || isTimed || !arguments.html.empty() || arguments.trials)
    return {};
  // Without error contributions.
  Sensitivity none(model.entry(), budget.measure);
  BudgetSearch cheap(space->searchSpace(none));
  std::optional<PricedConfiguration> found = cheap.within(0);
  if (!found)
    return {};
  found = withMoreBits(*space, cheap, std::move(*found));
  Status failed;
  TuningCallbacks asked = questions(failed);
  auto point =
      [&](const PricedConfiguration &priced) -> std::optional<TunedPoint> {
    std::optional<Measurement> measured = asked.measure(priced.choice);
    if (!measured)
      return std::nullopt;
    return TunedPoint{priced, kUnknown, measured->error,
                      measured->cost.value_or(priced.cost)};
  };
  std::optional<TunedPoint> best = point(*found);
  // Relative cost difference below the model's resolution.
  constexpr double kSame = 1e-3;
  for (const PricedConfiguration &start : cheap.starts()) {
    if (!best || best->measured <= budget.limit)
      break;
    if (start.cost <= found->cost * (1 + kSame))
      best = point(start);
  }
  if (!best || !(best->measured <= budget.limit))
    return failed;
  // From here on an interrupt saves a result.
  stopper.emplace();
  result.best = best;
  if (!heldBack.empty()) {
    if (Status status = evaluateValidation(); !status.ok())
      return status;
    ++looks;
    if (*promised > budget.limit) {
      result.best.reset();
      promised.reset();
      stopper.reset();
      return {};
    }
  }
  // Then float32's own error is not needed.
  PricedConfiguration widest = cheap.widest();
  result.widest = TunedPoint{widest, kUnknown, kUnknown, widest.cost};
  if (meter->isCompiled()) {
    Result<double> cost = compiledCost(widest.choice);
    if (!cost.ok())
      return cost.status();
    result.widest->cost = *cost;
  }
  result.tried = {*best};
  Result<bool> isLeast = costsLeast(*best, cheap);
  if (!isLeast.ok())
    return isLeast.status();
  isCheapest = *isLeast;
  return {};
}

Result<bool> TuneCommand::costsLeast(const TunedPoint &point,
                                     BudgetSearch &cheap) {
  if (!meter->isCompiled())
    return true;
  std::vector<Choice> others = {cheap.widest().choice};
  for (const PricedConfiguration &start : cheap.starts()) {
    if (stops())
      return false;
    others.push_back(start.choice);
    Result<double> cost = compiledCost(start.choice);
    if (!cost.ok())
      return cost.status();
    if (*cost < point.cost)
      return false;
  }
  // Then it need not be as fast either.
  if (!isGuarded())
    return true;
  return isAsFast(point.priced.choice, std::move(others));
}
