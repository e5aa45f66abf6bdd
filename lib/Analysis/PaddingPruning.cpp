//===- PaddingPruning.cpp - drops padding that does not pay ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A family starts out padded if some contraction wants it and is dropped if
// that does not pay. Dropping one changes only the prices of the items it is
// part of; only these are recomputed.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Padding.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <set>

using namespace mlir;
using namespace mpc;

class PaddingPlan::Choice {
public:
  explicit Choice(PaddingPlan &plan);

  /// Returns a chosen family that does not pay, or nullopt.
  std::optional<int> findUseless() const;
  void giveUp(int family);

private:
  /// Sums of prices are exact in integers under repeated updates.
  using Femtoseconds = int64_t;

  /// An item with a price, and the time lost without each of its families.
  struct Item {
    enum class Kind { Contraction, Stored, Parameter } kind;
    size_t number;
    llvm::SmallSetVector<int, 4> families;
    SmallVector<Femtoseconds, 4> losses;
    /// The families from which a contraction gains.
    SmallVector<int, 4> gains;
  };
  struct Family {
    double growth = 0;
    Femtoseconds loss = 0;
    /// Number of contractions that gain from it.
    int64_t gains = 0;
    std::vector<size_t> items;
  };

  static void dropRows(Contraction &contraction, int family);
  double seconds(const Item &item, int without) const;
  void add(Item item);
  void price(Item &item);
  /// Adds an item's contributions to its families' sums, or, with a sign of -1,
  /// subtracts them.
  void count(const Item &item, int sign);
  void rank(int number, bool enters);

  PaddingPlan &plan;
  std::vector<Item> items;
  std::map<int, Family> families;
  /// Families from which no contraction gains, largest growth first.
  std::set<std::pair<double, int>> unwanted;
  /// Families that cost nothing to drop.
  std::set<int> lossless;
};

PaddingPlan::Choice::Choice(PaddingPlan &plan) : plan(plan) {
  for (auto [number, extent] : plan.chosen) {
    families[number].growth = double(extent) / plan.nodes[number].extent;
    rank(number, /*enters=*/true);
  }
  for (size_t i = 0; i < plan.contractions.size(); ++i) {
    Item item{Item::Kind::Contraction, i, {}, {}, {}};
    for (const std::optional<Place> &place : plan.contractions[i].places)
      if (place)
        item.families.insert(place->family);
    add(std::move(item));
  }
  // Without known peak rates only the growth of contractions counts.
  if (!plan.target.hasCeilings())
    return;
  for (size_t i = 0; i < plan.stored.size(); ++i) {
    Item item{Item::Kind::Stored, i, {}, {}, {}};
    for (const auto &[place, extent] : plan.stored[i].dims)
      item.families.insert(place.family);
    add(std::move(item));
  }
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    Item item{Item::Kind::Parameter, i, {}, {}, {}};
    item.families.insert(plan.parameters[i].begin(), plan.parameters[i].end());
    add(std::move(item));
  }
}

void PaddingPlan::Choice::add(Item item) {
  item.families.remove_if([&](int number) { return !families.count(number); });
  if (item.families.empty())
    return;
  for (int number : item.families)
    families[number].items.push_back(items.size());
  price(item);
  count(item, 1);
  items.push_back(std::move(item));
}

double PaddingPlan::Choice::seconds(const Item &item, int without) const {
  switch (item.kind) {
  case Item::Kind::Contraction:
    return plan.seconds(plan.contractions[item.number], without);
  case Item::Kind::Stored:
    return plan.seconds(plan.stored[item.number], without);
  case Item::Kind::Parameter:
    return plan.seconds(plan.parameters[item.number], without);
  }
  return 0;
}

void PaddingPlan::Choice::price(Item &item) {
  ++plan.priced;
  item.losses.clear();
  item.gains.clear();
  if (plan.target.hasCeilings()) {
    double now = seconds(item, kNothing);
    for (int number : item.families)
      item.losses.push_back(std::llround((seconds(item, number) - now) * 1e15));
  }
  if (item.kind != Item::Kind::Contraction)
    return;
  const Contraction &contraction = plan.contractions[item.number];
  if (plan.wins(contraction))
    for (unsigned growing : contraction.growing)
      if (contraction.places[growing])
        item.gains.push_back(contraction.places[growing]->family);
}

void PaddingPlan::Choice::count(const Item &item, int sign) {
  for (int number : item.families)
    rank(number, /*enters=*/false);
  for (auto [number, loss] : llvm::zip(item.families, item.losses))
    families[number].loss += sign * loss;
  for (int number : item.gains)
    if (auto family = families.find(number); family != families.end())
      family->second.gains += sign;
  for (int number : item.families)
    rank(number, /*enters=*/true);
}

void PaddingPlan::Choice::rank(int number, bool enters) {
  const Family &family = families[number];
  if (!enters) {
    unwanted.erase({-family.growth, number});
    lossless.erase(number);
    return;
  }
  if (!plan.chosen.count(number))
    return;
  if (family.gains == 0)
    unwanted.insert({-family.growth, number});
  if (family.loss <= 0)
    lossless.insert(number);
}

std::optional<int> PaddingPlan::Choice::findUseless() const {
  // Among families from which no contraction gains, the one of largest growth
  // is dropped first: it may be what spoils the others.
  if (!unwanted.empty())
    return unwanted.begin()->second;
  // The gain of one contraction may be less than the loss of others and of the
  // values in between.
  if (plan.target.hasCeilings() && !lossless.empty())
    return *lossless.begin();
  return std::nullopt;
}

/// If there are too few rows to pad, the contraction is treated like one with a
/// single row: only its columns and depth count.
void PaddingPlan::Choice::dropRows(Contraction &contraction, int family) {
  for (size_t i = contraction.wants.size(); i-- > 0;) {
    unsigned growing = contraction.growing[i];
    const std::optional<Place> &place = contraction.places[growing];
    AxisRole role = contraction.axes[growing].role;
    bool isRows = role == AxisRole::Rows || role == AxisRole::Batch;
    if (!isRows || !place || place->family != family)
      continue;
    contraction.wants.erase(contraction.wants.begin() + i);
    contraction.growing.erase(contraction.growing.begin() + i);
  }
}

void PaddingPlan::Choice::giveUp(int family) {
  plan.chosen.erase(family);
  rank(family, /*enters=*/false);
  for (size_t number : families[family].items) {
    Item &item = items[number];
    if (item.kind == Item::Kind::Contraction)
      dropRows(plan.contractions[item.number], family);
    count(item, -1);
    price(item);
    count(item, 1);
  }
}

void PaddingPlan::choose() {
  Families wanted;
  for (const Contraction &contraction : contractions)
    for (auto [want, growing] :
         llvm::zip_equal(contraction.wants, contraction.growing)) {
      std::optional<Place> place = contraction.places[growing];
      refused += !place;
      if (!place)
        continue;
      int64_t extent = nodes[place->family].extent;
      int64_t &to = wanted.try_emplace(place->family, extent).first->second;
      to = std::max<int64_t>(to, llvm::alignTo(extent, want.first));
    }
  chosen = wanted;
  Choice choice(*this);
  while (std::optional<int> family = choice.findUseless())
    choice.giveUp(*family);
  refused += wanted.size() - chosen.size();
}
