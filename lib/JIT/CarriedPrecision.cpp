//===- CarriedPrecision.cpp - a policy's types on another graph -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CarriedPrecision.h"

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include "llvm/ADT/SetVector.h"

#include <cmath>
#include <map>

using namespace mlir;
using namespace mpc;
using mpc::reference::Tensor;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

void ValueDigests::add(Value value, const Tensor &tensor) {
  if (!tensor.isFloat())
    return;
  Digest digest;
  digest.size = tensor.size();
  for (double element : tensor.floats()) {
    if (!std::isfinite(element))
      continue;
    digest.sum += element;
    digest.magnitude += std::fabs(element);
    digest.squares += element * element;
  }
  digests[value] = digest;
}

void ValueDigests::addArguments(func::FuncOp function,
                                ArrayRef<Tensor> arguments) {
  for (auto [argument, tensor] : llvm::zip(function.getArguments(), arguments))
    add(argument, tensor);
}

OpObserver ValueDigests::observer() {
  return [this](Operation *op, ArrayRef<Tensor> results) {
    for (auto [value, tensor] : llvm::zip_equal(op->getResults(), results))
      add(value, tensor);
  };
}

bool ValueDigests::isSame(Value value, const ValueDigests &others,
                          Value other) const {
  auto own = digests.find(value), found = others.digests.find(other);
  if (own == digests.end() || found == others.digests.end() ||
      own->second.size != found->second.size)
    return false;
  // Rewrites round folded constants to f32.
  constexpr double kClose = 1e-5;
  const Digest &a = own->second, &b = found->second;
  return std::fabs(a.sum - b.sum) <= kClose * a.magnitude &&
         std::fabs(a.magnitude - b.magnitude) <= kClose * a.magnitude &&
         std::fabs(a.squares - b.squares) <= 2 * kClose * a.squares;
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

/// The element type of a float value, or null.
static FloatType floatElement(Value value) {
  return dyn_cast<FloatType>(getElementTypeOrSelf(value.getType()));
}

static bool isF32(Value value) {
  FloatType type = floatElement(value);
  return type && type.isF32();
}

/// The type with fewer digits; null is wider than all.
static FloatType narrower(FloatType lhs, FloatType rhs) {
  if (!lhs || !rhs)
    return lhs ? lhs : rhs;
  return rhs.getFPMantissaWidth() < lhs.getFPMantissaWidth() ? rhs : lhs;
}

/// Whether a value of `type` has lost digits of f32.
static bool isNarrow(FloatType type) { return type && type.getWidth() < 32; }

/// A cast that the precision stage put in.
static CastOp insertedCast(Operation *op) {
  auto cast = dyn_cast_if_present<CastOp>(op);
  return cast && !cast.getPinned() && floatElement(cast.getInput()) &&
                 floatElement(cast.getResult())
             ? cast
             : CastOp();
}

/// Whether `op` is one on constants where all of its operands are constants.
static bool followsFromOperands(Operation *op) {
  return !isa<ConstantOp>(op) &&
         (op->getNumOperands() > 0 || fusionClassOf(op) == FusionClass::Source);
}

namespace {

/// A value before the casts that the precision stage put between it and a
/// reader, and the narrowest type on the way.
struct Source {
  Value value;
  FloatType narrowest;

  explicit Source(Value read) : value(read), narrowest(floatElement(read)) {
    while (CastOp cast = insertedCast(value.getDefiningOp())) {
      value = cast.getInput();
      narrowest = narrower(narrowest, floatElement(value));
    }
  }
};

/// The narrowest types of several ops.
struct NarrowestTypes {
  FloatType operands, results;
  void add(Operation *op) {
    for (Value operand : op->getOperands())
      if (FloatType type = floatElement(operand))
        operands = narrower(operands, type);
    for (Value result : op->getResults())
      if (FloatType type = floatElement(result))
        results = narrower(results, type);
  }
};

/// Carries the types of one graph to the other.
class Carrier {
public:
  Carrier(const ObservedGraph &imported, const ObservedGraph &simplified,
          func::FuncOp typed)
      : imported(imported), simplified(simplified), typed(typed),
        builder(typed.getContext()) {}

  void run();

private:
  using Ops = llvm::SmallSetVector<Operation *, 4>;

  void indexTyped();
  /// Ops of `typed` that stand for `op`.
  Ops counterparts(Operation *op) const;
  /// Whether `value` of `imported` is `other` of `typed`.
  bool isSame(Value value, Value other) const {
    auto before = origins.find(other);
    return before != origins.end() &&
           imported.values.isSame(value, simplified.values, before->second);
  }
  /// The one among `ops` that computes what `op` does.
  Operation *match(Operation *op, const Ops &ops) const;
  /// The one in all of `typed`, by value; null where none does.
  Operation *findByValue(Operation *op) const;
  void carryExactly(Operation *op, Operation *from);
  void carryPart(Operation *op, const Ops &ops);
  void carryFamily(Operation *op);
  /// Whether `value` is made inside what `ops` stand for.
  bool isInside(Value value, const Ops &ops) const;
  bool isConstant(Operation *op) const {
    return isa<ConstantOp>(op) || constants.contains(op);
  }

  Value cast(Value value, FloatType type);
  /// Rounds what `operand` reads to `type`, and leaves it f32.
  void roundOperand(OpOperand &operand, FloatType type);
  /// The same of what all readers of `result` see.
  void roundResult(OpResult result, FloatType type);

  const ObservedGraph &imported, &simplified;
  func::FuncOp typed;
  OpBuilder builder;
  /// Of each value of `typed` the one of `simplified` that it was.
  DenseMap<Value, Value> origins;
  /// Ops of `typed` by the places in the model that they stand for.
  DenseMap<Attribute, SmallVector<Operation *>> byPlace;
  DenseMap<OperationName, SmallVector<Operation *>> byKind;
  std::map<FusionClass, NarrowestTypes> byFamily;
  /// Of each op of `imported`.
  DenseMap<Operation *, Ops> standFor;
  /// Ops of constants alone.
  DenseSet<Operation *> constants;
};

} // namespace

/// The places in the model that a location stands for.
static llvm::SmallSetVector<Attribute, 4> placesOf(Operation *op) {
  llvm::SmallSetVector<Attribute, 4> places;
  SmallVector<Location> pending = {op->getLoc()};
  while (!pending.empty()) {
    Location loc = pending.pop_back_val();
    if (auto fused = dyn_cast<FusedLoc>(loc))
      llvm::append_range(pending, fused.getLocations());
    else if (auto call = dyn_cast<CallSiteLoc>(loc))
      pending.push_back(call.getCallee());
    else if (!isa<UnknownLoc>(loc))
      places.insert(LocationAttr(loc));
  }
  return places;
}

void Carrier::indexTyped() {
  // The stage changes ops in place: those of one place and kind keep their
  // order.
  using Key = std::pair<Attribute, OperationName>;
  DenseMap<Key, SmallVector<Operation *>> before;
  auto keyOf = [](Operation &op) {
    return Key(LocationAttr(op.getLoc()), op.getName());
  };
  func::FuncOp untyped = simplified.function;
  for (Operation &op : untyped.getBody().front())
    before[keyOf(op)].push_back(&op);
  for (auto [value, other] :
       llvm::zip(typed.getArguments(), untyped.getArguments()))
    origins[value] = other;
  DenseMap<Key, size_t> next;
  for (Operation &op : typed.getBody().front().without_terminator()) {
    if (isa<ConstantOp>(op) || insertedCast(&op))
      continue;
    const SmallVector<Operation *> &same = before[keyOf(op)];
    if (size_t number = next[keyOf(op)]++; number < same.size())
      for (auto [value, other] :
           llvm::zip(op.getResults(), same[number]->getResults()))
        origins[value] = other;
    for (Attribute place : placesOf(&op))
      byPlace[place].push_back(&op);
    byKind[op.getName()].push_back(&op);
    byFamily[fusionClassOf(&op)].add(&op);
  }
}

Carrier::Ops Carrier::counterparts(Operation *op) const {
  Ops ops;
  for (Attribute place : placesOf(op))
    if (auto found = byPlace.find(place); found != byPlace.end())
      ops.insert_range(found->second);
  return ops;
}

/// Whether the types of one op fit the other.
static bool isLike(Operation *op, Operation *other) {
  return other->getName() == op->getName() &&
         other->getNumOperands() == op->getNumOperands() &&
         other->getNumResults() == op->getNumResults();
}

Operation *Carrier::match(Operation *op, const Ops &ops) const {
  Operation *found = nullptr;
  for (Operation *other : ops) {
    if (!isLike(op, other))
      continue;
    if (op->getNumResults() > 0 &&
        isSame(op->getResult(0), other->getResult(0)))
      return other;
    // Which of several it is only values can tell.
    if (found)
      return nullptr;
    found = other;
  }
  return found;
}

Operation *Carrier::findByValue(Operation *op) const {
  for (Operation *other : byKind.lookup(op->getName()))
    if (isLike(op, other) && op->getNumResults() > 0 &&
        isSame(op->getResult(0), other->getResult(0)))
      return other;
  return nullptr;
}

Value Carrier::cast(Value value, FloatType type) {
  if (floatElement(value) == type)
    return value;
  return CastOp::create(
      builder, value.getLoc(),
      mlir::cast<RankedTensorType>(value.getType()).clone(type), value,
      /*pinned=*/false);
}

void Carrier::roundOperand(OpOperand &operand, FloatType type) {
  if (!isF32(operand.get()) || !isNarrow(type))
    return;
  builder.setInsertionPoint(operand.getOwner());
  operand.set(cast(cast(operand.get(), type), builder.getF32Type()));
}

void Carrier::roundResult(OpResult result, FloatType type) {
  if (!isF32(result) || !isNarrow(type))
    return;
  builder.setInsertionPointAfter(result.getOwner());
  Value narrow = cast(result, type);
  Value wide = cast(narrow, builder.getF32Type());
  result.replaceAllUsesExcept(wide, narrow.getDefiningOp());
}

void Carrier::carryExactly(Operation *op, Operation *from) {
  for (auto [operand, other] :
       llvm::zip_equal(op->getOpOperands(), from->getOperands())) {
    FloatType type = floatElement(other);
    if (!isF32(operand.get()) || !type)
      continue;
    FloatType stored = Source(other).narrowest;
    if (narrower(stored, type) != type)
      roundOperand(operand, stored);
    builder.setInsertionPoint(op);
    operand.set(cast(operand.get(), type));
  }
  for (auto [result, other] :
       llvm::zip_equal(op->getResults(), from->getResults())) {
    FloatType type = floatElement(other);
    if (!isF32(result) || !type || type.isF32())
      continue;
    result.setType(mlir::cast<RankedTensorType>(result.getType()).clone(type));
    builder.setInsertionPointAfter(op);
    Value wide = cast(result, builder.getF32Type());
    result.replaceAllUsesExcept(wide, wide.getDefiningOp());
  }
  // How a contraction multiplies, and what a sum is added up in.
  for (StringRef name : {"compute", "accumulate"})
    if (Attribute attribute = from->getAttr(name))
      op->setAttr(name, attribute);
}

bool Carrier::isInside(Value value, const Ops &ops) const {
  auto found = standFor.find(value.getDefiningOp());
  return found != standFor.end() && llvm::any_of(found->second, [&](auto *op) {
           return ops.contains(op);
         });
}

void Carrier::carryPart(Operation *op, const Ops &ops) {
  NarrowestTypes narrowest;
  for (Operation *other : ops)
    narrowest.add(other);
  bool multiplies = isa<ContractionOpInterface>(op);
  for (OpOperand &operand : op->getOpOperands()) {
    // What its maker was given before stands between.
    Value own = Source(operand.get()).value;
    FloatType type;
    bool isKnown = false;
    for (Operation *other : ops)
      for (Value read : other->getOperands())
        if (Source source(read);
            floatElement(read) && isSame(own, source.value)) {
          type = narrower(type, source.narrowest);
          isKnown = true;
        }
    if (!isKnown && (multiplies || !isInside(own, ops)))
      type = narrowest.operands;
    roundOperand(operand, type);
  }
  for (OpResult result : op->getResults()) {
    FloatType type;
    bool isKnown = false;
    for (Operation *other : ops)
      for (Value made : other->getResults())
        if (isSame(result, made)) {
          type = narrower(type, floatElement(made));
          isKnown = true;
        }
    bool leaves = llvm::any_of(result.getUsers(), [&](Operation *user) {
      auto found = standFor.find(user);
      return found == standFor.end() ||
             llvm::none_of(found->second,
                           [&](auto *other) { return ops.contains(other); });
    });
    if (!isKnown && leaves)
      type = narrowest.results;
    roundResult(result, type);
  }
}

void Carrier::carryFamily(Operation *op) {
  // Moved elements are rounded where they are made and read.
  auto found = byFamily.find(fusionClassOf(op));
  if (isa<MovementOpInterface>(op) || found == byFamily.end())
    return;
  if (isa<ContractionOpInterface>(op)) {
    for (OpOperand &operand : op->getOpOperands())
      roundOperand(operand, found->second.operands);
    return;
  }
  for (OpResult result : op->getResults())
    roundResult(result, found->second.results);
}

void Carrier::run() {
  indexTyped();
  Block &body = func::FuncOp(imported.function).getBody().front();
  SmallVector<Operation *> ops;
  for (Operation &op : body.without_terminator()) {
    if (isa<ConstantOp>(op))
      continue;
    ops.push_back(&op);
    standFor[&op] = counterparts(&op);
    if (followsFromOperands(&op) &&
        llvm::all_of(op.getOperands(), [&](Value operand) {
          Operation *made = operand.getDefiningOp();
          return made && isConstant(made);
        }))
      constants.insert(&op);
  }
  for (auto [operand, other] :
       llvm::zip(body.getTerminator()->getOpOperands(),
                 typed.getBody().front().getTerminator()->getOperands()))
    roundOperand(operand, Source(other).narrowest);
  for (Operation *op : ops) {
    // The model's own casts stay as they are.
    if (isa<CastOp>(op))
      continue;
    const Ops &own = standFor[op];
    if (own.empty() && isConstant(op))
      continue;
    if (Operation *same = own.empty() ? findByValue(op) : match(op, own))
      carryExactly(op, same);
    else if (!own.empty())
      carryPart(op, own);
    else
      carryFamily(op);
  }
}

void mpc::carryPrecision(const ObservedGraph &imported,
                         const ObservedGraph &simplified, func::FuncOp typed) {
  Carrier(imported, simplified, typed).run();
}
