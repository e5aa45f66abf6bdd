//===- StorageRules.cpp - storage types fixed by rules --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A value that all readers take in 16 bits loses nothing by being stored in 16
// bits; the rules that protect precision apply to values with an f32 reader.
//
//===----------------------------------------------------------------------===//

#include "StorageRules.h"

#include "MeasuredRanges.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mpc;

/// Minimum size, in f32 bytes, for rounding a value only to save memory:
/// smaller values save nothing noticeable.
static constexpr int64_t kMinStoredBytes = 4096;

std::string mpc::describeOp(Operation *op) {
  std::string kind = op->getName().stripDialect().str();
  StringRef name = opName(op);
  return name == kind ? kind : kind + " '" + name.str() + "'";
}

/// Returns true if the order of the results of `op` depends on the operand's
/// elements, so that rounding the operand changes it.
static bool passesOrder(Operation *op) {
  switch (fusionClassOf(op)) {
  case FusionClass::Elementwise:
  case FusionClass::RowWise:
  case FusionClass::Scan:
    return true;
  default:
    return false;
  }
}

void StorageRules::findUnrounded(const PlanBuilder &builder) {
  using Kind = OperandReading::Kind;
  // Propagates the reader of a result of `op` to its operand `value`.
  auto inherit = [](llvm::DenseMap<Value, Operation *> &readers, Value value,
                    Operation *op) {
    for (Value result : op->getResults())
      if (Operation *reader = readers.lookup(result))
        readers.try_emplace(value, reader);
  };
  for (Operation &op : llvm::reverse(builder.getBody()))
    for (OpOperand &operand : op.getOpOperands()) {
      Value value = operand.get();
      Kind kind = readingOf(builder.getPlan(), operand).kind;
      auto order = dyn_cast<OrderDependentOpInterface>(op);
      if (kind == Kind::Exact && order &&
          order.dependsOnOrder(operand.getOperandNumber()))
        ordered[value] = &op;
      else if (kind == Kind::Exact && builder.isEligible(value))
        unrounded[value] = &op;
      if (kind == Kind::Moved)
        inherit(unrounded, value, &op);
      if (kind == Kind::Moved || (kind != Kind::Narrow && passesOrder(&op)))
        inherit(ordered, value, &op);
    }
}

/// Returns a row-wise op that reads `value` if there are no other readers. It
/// subtracts a mean or a maximum, which turns the rounding of a large sum into
/// an error of small differences.
static Operation *onlyNormsRead(Value value) {
  Operation *norm = nullptr;
  for (Operation *user : value.getUsers()) {
    if (fusionClassOf(user) != FusionClass::RowWise)
      return nullptr;
    norm = user;
  }
  return norm;
}

std::optional<StorageRule> StorageRules::ruleOf(const PlanBuilder &builder,
                                                const CastPlacementModel &model,
                                                Value value) const {
  Operation *op = value.getDefiningOp();
  auto high = [](std::string text, Operation *because = nullptr,
                 const char *decision = "") {
    return StorageRule{StorageLabel::High, std::move(text), because, decision};
  };
  if (!op)
    return high("the function's signature never changes");
  const OpPlan *plan = builder.findPlan(op);
  if (!plan || plan->role == OpPlan::Role::Untouched)
    return high("the policy does not apply to " + describeOp(op), op);
  FloatType born = bornType(builder.getPlan(), value);
  if (born && born != builder.wide) {
    std::string type;
    llvm::raw_string_ostream(type) << born;
    return StorageRule{born.getWidth() < 32 ? StorageLabel::Low
                                            : StorageLabel::High,
                       describeOp(op) + " yields " + type, op, ""};
  }
  if (Operation *reader = unrounded.lookup(value))
    return high(isa<func::ReturnOp>(reader)
                    ? "the function returns it unrounded"
                    : describeOp(reader) + " reads the unrounded value",
                reader, "a reader needs the unrounded value");
  if (Operation *reader = ordered.lookup(value))
    return high(
        "the result of " + describeOp(reader) +
            " depends on the order of its values, which rounding may change",
        reader, "its reader depends on the order of its values");
  const CastPlacementModel::Demand &demand = model.demandOf(value);
  if (demand.narrow.size() > 1)
    return high("its readers need different 16-bit types", op);
  if (!model.lowType(value))
    return high(born ? "the policy stores values in f32"
                     : "its operands have different types",
                op);
  if (std::string overflow =
          measuredOverflow(builder.policy, value, model.lowType(value));
      !overflow.empty())
    return high(overflow, op, "values overflow 16 bits");
  bool isForced = plan->override && plan->compute == builder.wide;
  SmallVector<StringRef> names = opNames(op);
  if (std::optional<bool> narrow =
          builder.policy.storesNarrow(names, builder.isBackward(op));
      narrow && !(demand.wide && (isForced || builder.isWidePart(op))))
    return StorageRule{*narrow ? StorageLabel::Low : StorageLabel::High,
                       "policy '" + builder.policy.getName().str() +
                           "' sets the storage type of " + describeOp(op),
                       op, "the policy sets the type of this value by name"};
  if (!demand.wide)
    return std::nullopt;

  // Some reader needs f32.
  if (builder.store == builder.wide)
    return high("the policy stores values in f32", op);
  // Traffic depends on the number of rows and on a backward pass; roundings
  // must not.
  if (builder.target.machine.facts().isReproducible)
    return high("results are reproducible and a reader needs f32", op);
  if (!born) {
    // A moved value is as precise as its source.
    bool hasSource = false;
    for (Value operand : op->getOperands()) {
      if (!builder.isEligible(operand) ||
          operand.getDefiningOp<mpc::ConstantOp>())
        continue;
      hasSource = true;
      if (const StorageRule *rule = find(operand);
          rule && rule->label == StorageLabel::High)
        return StorageRule{StorageLabel::High, rule->text, rule->op, ""};
    }
    if (hasSource)
      return std::nullopt;
  }
  // A norm ends in a scale: its result is no precision-sensitive sum.
  bool sensitive = plan->cls == PrecisionClass::High &&
                   fusionClassOf(op) != FusionClass::RowWise;
  if (isForced)
    return high("override " + plan->override->text + " keeps " +
                    describeOp(op) + " in f32, and a reader needs f32",
                op);
  if (builder.isWidePart(op))
    return high("it is part of a loss, a decomposed softmax, an angle or "
                "coordinates, and a reader needs f32",
                op);
  // The price includes the effect of the rules below.
  if (builder.prices && !names.empty())
    return std::nullopt;
  if (sensitive)
    return high("the policy computes " + describeOp(op) +
                    " in f32, and a reader needs f32",
                op);
  if (byteCount(value.getType()) < kMinStoredBytes)
    return high("it has fewer than " + std::to_string(kMinStoredBytes) +
                    " bytes, too few to save memory traffic",
                op);
  if (Operation *norm = onlyNormsRead(value); norm && born)
    return high("only norms and softmax read it, such as " + describeOp(norm),
                norm, "only norms and softmax read it");
  return std::nullopt;
}

StorageRules::StorageRules(const PlanBuilder &builder,
                           const CastPlacementModel &model) {
  findUnrounded(builder);
  for (Value value : model.getValues()) {
    std::optional<StorageRule> rule = ruleOf(builder, model, value);
    if (!rule && builder.carriesIntegers(value))
      rule = StorageRule{StorageLabel::High,
                         "it carries integers that 16 bits may not hold",
                         value.getDefiningOp(),
                         "it carries integers that 16 bits may not hold"};
    if (rule)
      rules[value] = std::move(*rule);
  }
}
