//===- WhyBuilder.cpp - builds the explanation of a value's type ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gathers the facts that Why.cpp words.
//
//===----------------------------------------------------------------------===//

#include "WhyBuilder.h"

#include "PlanBuilder.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Analysis/OpTypes.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpc;

/// Maximum number of plans per question, one for each change tried.
static constexpr size_t kMostFlips = 32;
/// Maximum number of these tried together with the value's own op.
static constexpr size_t kMostPairs = 16;
/// Maximum distance from the value of labels to try, in ops.
static constexpr unsigned kMostSteps = 4;
/// Maximum number of readers in an explanation.
static constexpr size_t kMostReaders = 8;

WhyBuilder::WhyBuilder(const WhyAnalysis &why, const PrecisionPlan &plan,
                       Value value)
    : why(why), plan(plan), value(value) {
  account.op = value.getDefiningOp();
  account.type = storedType(plan, value);
}

//===----------------------------------------------------------------------===//
// Sentences
//===----------------------------------------------------------------------===//

std::string WhyBuilder::named(Operation *op) const {
  StringRef kind = op->getName().stripDialect();
  if (auto precision = dyn_cast<PrecisionOpInterface>(op))
    kind = precision.getPrecisionKind();
  SmallVector<StringRef> names = opNames(op);
  return names.empty() ? ("the op '" + kind + "'").str()
                       : ("'" + names.front() + "' (" + kind + ")").str();
}

std::string WhyBuilder::ruleOf(Operation *op) const {
  if (!plan.hasPlan(op))
    return "no policy applies to it";
  const OpPlan &label = plan.getPlan(op);
  if (label.override)
    return "override '" + label.override->text + "'";
  if (label.rule == "pin" || label.rule == "untouched")
    return label.reason.empty() ? "the policy does not apply to it"
                                : label.reason;
  return "rule '" + label.rule + "' of policy '" + why.policy.getName().str() +
         "'";
}

void WhyBuilder::describeLabel(Operation *op) {
  if (isa<ConstantOp>(op))
    return say("a constant: rounded at compile time to the type of each reader",
               op);
  std::string name = named(op), rule = ruleOf(op);
  switch (roleOf(plan, op)) {
  case OpPlan::Role::Untouched:
    return say(name + " keeps its types: " + rule, op);
  case OpPlan::Role::Move:
    return say(name + " moves elements and keeps their type: " + rule, op);
  case OpPlan::Role::Multiply: {
    const OpPlan &label = plan.getPlan(op);
    std::string mode =
        label.mode == ComputeMode::native
            ? typeName(label.compute)
            : stringifyComputeMode(label.mode).str() + " splits of f32";
    return say(name + " multiplies in " + mode + " and accumulates in " +
                   typeName(label.result) + ": " + rule,
               op);
  }
  case OpPlan::Role::Compute:
    return say(name + " computes in " + typeName(plan.getPlan(op).compute) +
                   ": " + rule,
               op);
  }
}

void WhyBuilder::describeStorage() {
  Operation *op = account.op;
  std::string type = typeName(account.type);
  if (!plan.isEligible(value))
    return say("its type is " + type + ": a policy applies to f32 values only",
               op);
  if (!op)
    return say("an input of the model: it is f32, and a reader of another type "
               "casts it",
               nullptr);
  if (isa<ConstantOp>(op))
    return;
  const ValueReason &reason = plan.getReason(value);
  const OpPlan *label = plan.hasPlan(op) ? &plan.getPlan(op) : nullptr;
  std::string text = "its result is stored in " + type;
  // The plan describes its own storage; if that is f32 and all readers narrow
  // it, memory holds their type.
  if (plan.getStorage(value) != account.type)
    text += ": every reader reads it in that type";
  else if (!reason.text.empty())
    text += ": " + reason.text;
  else if (label && !label->reason.empty() && !label->override)
    text += ": " + label->reason;
  say(text, op);
}

void WhyBuilder::describeReaders() {
  llvm::SmallPtrSet<Operation *, 8> seen;
  size_t left = 0;
  for (OpOperand &use : value.getUses()) {
    Operation *reader = use.getOwner();
    if (!seen.insert(reader).second)
      continue;
    if (seen.size() > kMostReaders)
      ++left;
    else if (reader->hasTrait<OpTrait::IsTerminator>())
      say("it is an output of the model", nullptr);
    else if (!plan.isEligible(value))
      say("it is read by " + named(reader), reader);
    else
      say("it is read by " + named(reader) + " in " +
              typeName(typeOfRead(plan, use)) + ": " + ruleOf(reader),
          reader);
  }
  if (left)
    say("and by " + Twine(left) + " more ops", nullptr);
}

void WhyBuilder::describePull() {
  if (!plan.isEligible(value) || !account.op)
    return;
  const ValueReason &reason = plan.getReason(value);
  Operation *because = reason.because;
  if (!because || because == account.op ||
      llvm::is_contained(value.getUsers(), because))
    return;
  for (const ValueReason::Pull &pull : reason.pulls)
    if (pull.op == because)
      return say((pull.reads ? "downstream, " : "upstream, ") + named(because) +
                     (pull.reads ? " reads it in " : " makes it in ") +
                     typeName(pull.type) + ": " + ruleOf(because),
                 because);
  say("it follows " + named(because) + ": " + ruleOf(because), because);
}

//===----------------------------------------------------------------------===//
// The label that decides
//===----------------------------------------------------------------------===//

bool WhyBuilder::isHard(Operation *op) const {
  if (!plan.hasPlan(op))
    return false;
  const OpPlan &label = plan.getPlan(op);
  return label.override || label.rule == "low" || label.rule == "high" ||
         label.rule == "high_result";
}

SmallVector<Operation *> WhyBuilder::candidates() const {
  llvm::SetVector<Operation *> order;
  auto add = [&](Operation *op) {
    if (op && plan.hasPlan(op) && isa<PrecisionOpInterface>(op) &&
        plan.getPlan(op).role != OpPlan::Role::Untouched &&
        !opNames(op).empty())
      order.insert(op);
  };
  Operation *own = account.op;
  if (own && isHard(own))
    add(own);
  if (plan.isEligible(value)) {
    const ValueReason &reason = plan.getReason(value);
    add(reason.because);
    for (const ValueReason::Pull &pull : reason.pulls)
      add(pull.op);
  }

  // By distance, hard labels before the free ones between them.
  SmallVector<Operation *> front, reached;
  llvm::SmallPtrSet<Operation *, 32> seen;
  auto reach = [&](Operation *op) {
    if (op && seen.insert(op).second) {
      front.push_back(op);
      reached.push_back(op);
    }
  };
  for (Operation *reader : value.getUsers())
    reach(reader);
  if (own) {
    seen.insert(own);
    for (Value operand : own->getOperands())
      reach(operand.getDefiningOp());
  }
  for (unsigned step = 1; step < kMostSteps; ++step) {
    SmallVector<Operation *> before;
    before.swap(front);
    for (Operation *op : before) {
      if (isa<ConstantOp>(op))
        continue;
      for (Operation *reader : op->getUsers())
        reach(reader);
      for (Value operand : op->getOperands())
        reach(operand.getDefiningOp());
    }
  }
  for (Operation *op : reached)
    if (isHard(op))
      add(op);
  add(own);
  llvm::for_each(reached, add);
  return order.takeVector();
}

std::string WhyBuilder::opposite(Operation *op) const {
  SmallVector<StringRef> names = opNames(op);
  if (names.empty())
    return "";
  const OpPlan &label = plan.getPlan(op);
  FloatType wide = Float32Type::get(op->getContext());
  FloatType now = label.role == OpPlan::Role::Move ? movedType(plan, op)
                  : label.compute                  ? label.compute
                                                   : wide;
  PolicyType low = why.policy.getCompute();
  if (toFloatType(low, op->getContext()) == wide)
    low = PolicyType::BFloat16;
  // For a narrow value, an op that computes in f32 is set to f32 as well: the
  // override is a rule, so that it reads and stores nothing narrower.
  bool widen = account.type != wide || now != wide;
  PolicyType other = widen ? PolicyType::Float32 : low;
  return ("name:" + names.front() + "=" + stringify(other)).str();
}

std::string WhyBuilder::namedOverride(Operation *op) const {
  const PolicyOverride *override = plan.getPlan(op).override;
  return override && override->key == PolicyOverride::Key::Name &&
                 override->source == PolicyOverride::Source::CommandLine
             ? override->text
             : "";
}

std::optional<WhyFlip> WhyBuilder::tryPlan(Operation *op,
                                           std::vector<std::string> add,
                                           StringRef drop) const {
  std::vector<std::string> overrides;
  for (const std::string &set : why.sets)
    if (set != drop)
      overrides.push_back(set);
  llvm::append_range(overrides, add);
  // Warnings of the changed plan are not about the model.
  ScopedDiagnosticHandler silence(account.type.getContext(),
                                  [](Diagnostic &) { return success(); });
  FailureOr<PrecisionPlan> changed = why.planWith(overrides);
  if (failed(changed))
    return std::nullopt;
  Type type = storedType(*changed, value);
  if (type == account.type)
    return std::nullopt;
  return WhyFlip{op, std::move(add), drop.str(), type};
}

std::optional<WhyFlip> WhyBuilder::flip(Operation *op) const {
  const PolicyOverride *override = plan.getPlan(op).override;
  if (override && override->source == PolicyOverride::Source::CommandLine)
    if (std::optional<WhyFlip> found = tryPlan(op, {}, override->text))
      return found;
  return tryPlan(op, {opposite(op)}, namedOverride(op));
}

std::optional<WhyFlip> WhyBuilder::flipBoth(Operation *op,
                                            Operation *other) const {
  std::string first = opposite(op), second = opposite(other);
  // An explanation names at most one override to remove.
  std::string drop = namedOverride(op), otherDrop = namedOverride(other);
  if (first == second || (!drop.empty() && !otherDrop.empty()))
    return std::nullopt;
  return tryPlan(op, {first, second}, drop.empty() ? otherDrop : drop);
}

std::optional<WhyFlip> WhyBuilder::findFlip() const {
  SmallVector<Operation *> ops = candidates();
  for (Operation *op : ArrayRef(ops).take_front(kMostFlips))
    if (std::optional<WhyFlip> found = flip(op))
      return found;
  // A value between two labels that agree changes only with both.
  Operation *own = account.op;
  if (own && llvm::is_contained(ops, own))
    for (Operation *op : ArrayRef(ops).take_front(kMostPairs))
      if (op != own)
        if (std::optional<WhyFlip> found = flipBoth(op, own))
          return found;
  return std::nullopt;
}

std::string WhyBuilder::whyFixed() const {
  if (!plan.isEligible(value))
    return "the model's own type, which no policy changes";
  llvm::SetVector<Operation *> readers;
  readers.insert(value.user_begin(), value.user_end());
  std::string text;
  for (Operation *reader : readers)
    text += (text.empty() ? "" : ", ") +
            (reader->hasTrait<OpTrait::IsTerminator>() ? "the model's output"
                                                       : named(reader));
  if (readers.size() > 1)
    return "several readers together: " + text;
  return readers.empty() ? "nothing: no op reads it"
                         : "more labels than two around " + text;
}

WhyAccount WhyBuilder::build() {
  if (account.op)
    describeLabel(account.op);
  describeStorage();
  describeReaders();
  describePull();
  if (plan.isEligible(value)) {
    const ValueReason &reason = plan.getReason(value);
    if (!reason.hard) {
      account.bytesSaved = reason.bytesSaved;
      account.castBytes = reason.castBytes;
    }
    account.flip = findFlip();
  }
  if (!account.flip)
    account.keeps = whyFixed();
  return std::move(account);
}
