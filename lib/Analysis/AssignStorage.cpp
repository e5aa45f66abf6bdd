//===- AssignStorage.cpp - storage types of values ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Assigns storage types: labels fixed by rules (StorageRules.h), then a minimum
// cut or color propagation for the free values. Records the reason of each.
//
//===----------------------------------------------------------------------===//

#include "PaintingPlacement.h"
#include "RunningSumPrices.h"
#include "StorageRules.h"

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mpc;

namespace {

class StorageAssigner {
public:
  explicit StorageAssigner(PlanBuilder &builder)
      : builder(builder), model(builder.func, builder.getPlan(), builder.target,
                                builder.store, builder.facts()),
        rules(builder, model) {
    if (!builder.prices)
      sums.emplace(builder, model, rules);
  }

  void cut();
  void paint();

private:
  void apply(ArrayRef<StorageLabel> labels,
             const llvm::DenseMap<Value, PaintedLabel> *painted);
  void store(Value value, StorageLabel label);
  ValueReason reasonOf(Value value, ArrayRef<StorageLabel> labels) const;
  void addPrices(PlacementProblem &priced, Value value) const;
  void collectPulls(Value value, ValueReason &reason) const;
  void recordAtOp(Value value, bool low, const ValueReason &reason);

  PlanBuilder &builder;
  CastPlacementModel model;
  StorageRules rules;
  /// Unset if errors have prices.
  std::optional<RunningSumPrices> sums;
};

} // namespace

//===----------------------------------------------------------------------===//
// Reasons
//===----------------------------------------------------------------------===//

void StorageAssigner::collectPulls(Value value, ValueReason &reason) const {
  constexpr size_t kMostPulls = 16;
  constexpr unsigned kMostSteps = 16;
  // A value read by thousands of movement ops has as many pulls.
  constexpr size_t kMostSeen = 128;
  const PrecisionPlan &plan = builder.getPlan();
  FloatType type = builder.getStorage(value);
  llvm::SmallPtrSet<Operation *, 8> seen;
  SmallVector<Value> frontier = {value};
  // Values beyond enough pulls are not among the nearest.
  for (unsigned distance = 0;
       !frontier.empty() && distance < kMostSteps &&
       reason.pulls.size() < kMostPulls && seen.size() < kMostSeen;
       ++distance) {
    SmallVector<Value> next;
    for (Value current : frontier) {
      if (Operation *producer = current.getDefiningOp();
          producer && seen.insert(producer).second) {
        FloatType born = bornType(plan, current);
        if (born)
          reason.pulls.push_back({producer, born, distance, /*reads=*/false});
        else
          for (Value operand : producer->getOperands())
            if (builder.isEligible(operand) &&
                !operand.getDefiningOp<mpc::ConstantOp>())
              next.push_back(operand);
      }
      for (OpOperand &use : current.getUses()) {
        Operation *user = use.getOwner();
        if (seen.size() >= kMostSeen)
          break;
        if (!seen.insert(user).second)
          continue;
        OperandReading reading = readingOf(plan, use);
        if (reading.type)
          reason.pulls.push_back({user, reading.type, distance, true});
        else
          for (Value result : user->getResults())
            if (builder.isEligible(result))
              next.push_back(result);
      }
    }
    frontier = std::move(next);
  }
  // Nearest first; at equal distance, readers that agree.
  using Key = std::tuple<unsigned, bool, bool, unsigned>;
  SmallVector<Key> order;
  for (auto [index, pull] : llvm::enumerate(reason.pulls))
    order.push_back({pull.distance, pull.type != type, !pull.reads, index});
  llvm::sort(order);
  if (order.size() > kMostPulls)
    order.truncate(kMostPulls);
  SmallVector<ValueReason::Pull, 0> sorted;
  for (const Key &key : order)
    sorted.push_back(reason.pulls[std::get<3>(key)]);
  reason.pulls = std::move(sorted);
}

ValueReason StorageAssigner::reasonOf(Value value,
                                      ArrayRef<StorageLabel> labels) const {
  const StorageRule *rule = rules.find(value);
  ValueReason reason;
  reason.hard = rule != nullptr;
  reason.bytesSaved = model.bytesSaved(value);
  reason.castBytes = model.castBytes(value, labels);
  collectPulls(value, reason);
  if (rule) {
    reason.text = rule->text;
    reason.because = rule->op;
    return reason;
  }
  FloatType type = builder.getStorage(value);
  for (const ValueReason::Pull &pull : reason.pulls)
    if (!reason.because && pull.type == type && pull.reads)
      reason.because = pull.op;
  llvm::raw_string_ostream text(reason.text);
  if (model.isInternal(value)) {
    text << "it never leaves the kernel of "
         << describeOp(value.getDefiningOp()) << ", where " << type
         << " costs nothing";
  } else if (reason.bytesSaved == 0) {
    text << "it is a view of its input";
  } else if (type == builder.wide) {
    text << "storing it in " << model.lowType(value) << " would save "
         << reason.bytesSaved << " bytes, ";
    if (sums->of(value) > 0)
      text << "but round once per " << sums->roundingsThrough(value)
           << " accumulation steps, an error that costs more";
    else
      text << "no more than the traffic of its casts";
  } else {
    text << "storing it in " << type << " saves " << reason.bytesSaved
         << " bytes";
    if (reason.castBytes)
      text << ", its casts move " << reason.castBytes;
  }
  if (reason.because)
    text << "; " << describeOp(reason.because) << " reads it in " << type;
  return reason;
}

//===----------------------------------------------------------------------===//
// Placing
//===----------------------------------------------------------------------===//

void StorageAssigner::store(Value value, StorageLabel label) {
  FloatType born = bornType(builder.getPlan(), value);
  if (born && born != builder.wide)
    builder.setStorage(value, born);
  else if (label == StorageLabel::Low)
    builder.setStorage(value, model.lowType(value));
}

/// Storage reason in #mpc.decision.
void StorageAssigner::recordAtOp(Value value, bool low,
                                 const ValueReason &reason) {
  Operation *op = value.getDefiningOp();
  const OpPlan *found = op ? builder.findPlan(op) : nullptr;
  if (!found || found->role == OpPlan::Role::Untouched)
    return;
  OpPlan &plan = builder.planOf(op);
  const StorageRule *rule = rules.find(value);
  if (!rule && low)
    plan.cost += reason.bytesSaved;
  if (!plan.reason.empty() || builder.store == builder.wide)
    return;
  bool isFree = !rule && plan.role != OpPlan::Role::Move;
  if (isFree && low && model.demandOf(value).wide)
    plan.reason = "stored in 16 bits between kernels";
  else if (isFree && !low && reason.bytesSaved > 0 && sums->of(value) > 0)
    plan.reason = "an accumulation, whose rounding errors would add up";
  else if (rule)
    plan.reason = rule->decision;
}

/// Stores every value by its label. If color propagation chose the labels, it
/// gives the reasons of free values.
void StorageAssigner::apply(
    ArrayRef<StorageLabel> labels,
    const llvm::DenseMap<Value, PaintedLabel> *painted) {
  for (Value value : model.getValues())
    store(value, labels[model.nodeOf(value)]);
  for (Value value : model.getValues()) {
    bool low = labels[model.nodeOf(value)] == StorageLabel::Low;
    if (model.prefersOwnCasts(value, labels))
      builder.setOwnCasts(value);
    if (builder.prices)
      continue;
    ValueReason reason = reasonOf(value, labels);
    if (painted && !reason.hard) {
      auto label = painted->find(value);
      if (label != painted->end())
        reason.text = label->second.text;
    }
    recordAtOp(value, low, reason);
    builder.setReason(value, std::move(reason));
  }
}

/// Converts an error to bytes; a non-finite one outweighs everything.
static int64_t inBytes(const RoundingErrorPrices &prices, double error) {
  constexpr double kMostBytes = 0x1p44;
  double bytes = prices.bytesPerError * error;
  if (error == 0 || prices.bytesPerError == 0)
    bytes = 0;
  return bytes < kMostBytes ? int64_t(bytes) : int64_t(kMostBytes);
}

/// Adds the price of rounding `value` to its label's cost, and the price of a
/// move that narrows it.
void StorageAssigner::addPrices(PlacementProblem &priced, Value value) const {
  const RoundingErrorPrices &prices = *builder.prices;
  PlacementProblem::Node &node = priced.nodes[model.nodeOf(value)];
  Operation *op = value.getDefiningOp();
  bool isMoved = op && isMove(builder.getPlan(), op);
  if (FloatType low = model.lowType(value); low && !isMoved)
    node.lowCost += inBytes(prices, prices.errors.ofValue(value, low));
  for (OpOperand &use : value.getUses()) {
    OperandReading reading = readingOf(builder.getPlan(), use);
    if (reading.kind == OperandReading::Kind::Narrow)
      node.highCost += inBytes(prices, prices.errors.ofUse(use, reading.type));
    if (reading.kind != OperandReading::Kind::Moved)
      continue;
    for (Value result : use.getOwner()->getResults())
      if (FloatType low = model.lowType(result)) {
        priced.casts.push_back({model.nodeOf(value),
                                {model.nodeOf(result)},
                                inBytes(prices, prices.errors.ofUse(use, low)),
                                0});
        break;
      }
  }
}

void StorageAssigner::cut() {
  PlacementProblem priced = model.problem;
  for (Value value : model.getValues()) {
    PlacementProblem::Node &node = priced.nodes[model.nodeOf(value)];
    if (builder.prices)
      addPrices(priced, value);
    else
      node.lowCost +=
          int64_t(sums->of(value) * double(model.bytesSaved(value)));
    if (const StorageRule *rule = rules.find(value))
      node.hard = rule->label;
  }
  apply(solvePlacement(priced), nullptr);
}

void StorageAssigner::paint() {
  llvm::DenseMap<Value, PaintedLabel> painted =
      paintStorage(builder, [&](Value value) -> std::optional<StorageLabel> {
        const StorageRule *rule = rules.find(value);
        return rule ? std::optional(rule->label) : std::nullopt;
      });
  auto isLow = [&](Value value) {
    auto label = painted.find(value);
    return label != painted.end() && label->second.label == StorageLabel::Low;
  };
  apply(model.labels(isLow), &painted);
}

void mpc::assignStorageByMinimumCut(PlanBuilder &builder) {
  StorageAssigner(builder).cut();
}

void mpc::assignStorageByPainting(PlanBuilder &builder) {
  StorageAssigner(builder).paint();
}
