//===- PrecisionTransfer.cpp - precision types on another graph -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PrecisionTransfer.h"

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

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
  // Tolerance for constants that rewrites rounded to f32.
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

/// Returns the type with the shorter significand; null is wider than all.
static FloatType narrower(FloatType lhs, FloatType rhs) {
  if (!lhs || !rhs)
    return lhs ? lhs : rhs;
  return rhs.getFPMantissaWidth() < lhs.getFPMantissaWidth() ? rhs : lhs;
}

/// Returns true if `type` is narrower than f32.
static bool isNarrow(FloatType type) { return type && type.getWidth() < 32; }

/// Returns the cast if the precision stage inserted it.
static CastOp insertedCast(Operation *op) {
  auto cast = dyn_cast_if_present<CastOp>(op);
  return cast && !cast.getPinned() && floatElement(cast.getInput()) &&
                 floatElement(cast.getResult())
             ? cast
             : CastOp();
}

/// Returns true if `op` is constant whenever all its operands are.
static bool followsFromOperands(Operation *op) {
  return !isa<ConstantOp>(op) &&
         (op->getNumOperands() > 0 || fusionClassOf(op) == FusionClass::Source);
}

namespace {

/// The origin of an operand, before the casts that the precision stage
/// inserted, and the narrowest type along these casts.
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

/// Narrowest operand and result types of a set of ops.
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

/// Transfers the types of the typed graph to the imported one.
class PrecisionPropagator {
public:
  PrecisionPropagator(const ObservedGraph &imported,
                      const ObservedGraph &simplified, func::FuncOp typed)
      : imported(imported), simplified(simplified), typed(typed),
        builder(typed.getContext()) {}

  void run();

private:
  using Ops = llvm::SmallSetVector<Operation *, 4>;

  void indexTyped();
  /// Ops of `typed` with a location of `op`.
  Ops counterparts(Operation *op) const;
  /// Returns true if `value` of `imported` equals `other` of `typed`.
  bool isSame(Value value, Value other) const {
    auto before = origins.find(other);
    return before != origins.end() &&
           imported.values.isSame(value, simplified.values, before->second);
  }
  /// Returns the counterpart of `op` among `ops`.
  Operation *match(Operation *op, const Ops &ops) const;
  /// Returns the counterpart of `op` in all of `typed` by value, or null.
  Operation *findByValue(Operation *op) const;
  void carryExactly(Operation *op, Operation *from);
  void carryPart(Operation *op, const Ops &ops);
  void carryFamily(Operation *op);
  /// Returns true if `value` is computed inside the ops that `ops` replaced.
  bool isInside(Value value, const Ops &ops) const;
  bool isConstant(Operation *op) const {
    return isa<ConstantOp>(op) || constants.contains(op);
  }

  Value cast(Value value, FloatType type);
  /// Rounds the operand to `type` and casts it back to f32.
  void roundOperand(OpOperand &operand, FloatType type);
  /// The same for all uses of `result`.
  void roundResult(OpResult result, FloatType type);

  const ObservedGraph &imported, &simplified;
  func::FuncOp typed;
  OpBuilder builder;
  /// Value of `simplified` from which each value of `typed` was made.
  DenseMap<Value, Value> origins;
  /// Ops of `typed` by the model locations that they cover.
  DenseMap<Attribute, SmallVector<Operation *>> byPlace;
  DenseMap<OperationName, SmallVector<Operation *>> byKind;
  std::map<FusionClass, NarrowestTypes> byFamily;
  /// Counterparts of each op of `imported`.
  DenseMap<Operation *, Ops> standFor;
  /// Constant ops: all operands are constants.
  DenseSet<Operation *> constants;
};

} // namespace

/// Returns the model locations that the op's location covers.
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

void PrecisionPropagator::indexTyped() {
  // The precision stage changes ops in place: ops with equal location and name
  // keep their order.
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

PrecisionPropagator::Ops
PrecisionPropagator::counterparts(Operation *op) const {
  Ops ops;
  for (Attribute place : placesOf(op))
    if (auto found = byPlace.find(place); found != byPlace.end())
      ops.insert_range(found->second);
  return ops;
}

/// Returns true if the types of one op fit the other.
static bool isLike(Operation *op, Operation *other) {
  return other->getName() == op->getName() &&
         other->getNumOperands() == op->getNumOperands() &&
         other->getNumResults() == op->getNumResults();
}

Operation *PrecisionPropagator::match(Operation *op, const Ops &ops) const {
  Operation *found = nullptr;
  for (Operation *other : ops) {
    if (!isLike(op, other))
      continue;
    if (op->getNumResults() > 0 &&
        isSame(op->getResult(0), other->getResult(0)))
      return other;
    // Ambiguous: only values can identify the counterpart.
    if (found)
      return nullptr;
    found = other;
  }
  return found;
}

Operation *PrecisionPropagator::findByValue(Operation *op) const {
  for (Operation *other : byKind.lookup(op->getName()))
    if (isLike(op, other) && op->getNumResults() > 0 &&
        isSame(op->getResult(0), other->getResult(0)))
      return other;
  return nullptr;
}

Value PrecisionPropagator::cast(Value value, FloatType type) {
  if (floatElement(value) == type)
    return value;
  return CastOp::create(
      builder, value.getLoc(),
      mlir::cast<RankedTensorType>(value.getType()).clone(type), value,
      /*pinned=*/false);
}

void PrecisionPropagator::roundOperand(OpOperand &operand, FloatType type) {
  if (!isF32(operand.get()) || !isNarrow(type))
    return;
  builder.setInsertionPoint(operand.getOwner());
  operand.set(cast(cast(operand.get(), type), builder.getF32Type()));
}

void PrecisionPropagator::roundResult(OpResult result, FloatType type) {
  if (!isF32(result) || !isNarrow(type))
    return;
  builder.setInsertionPointAfter(result.getOwner());
  Value narrow = cast(result, type);
  Value wide = cast(narrow, builder.getF32Type());
  result.replaceAllUsesExcept(wide, narrow.getDefiningOp());
}

void PrecisionPropagator::carryExactly(Operation *op, Operation *from) {
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
  // Compute and accumulator types of a contraction or a reduction.
  for (StringRef name : {"compute", "accumulate"})
    if (Attribute attribute = from->getAttr(name))
      op->setAttr(name, attribute);
}

bool PrecisionPropagator::isInside(Value value, const Ops &ops) const {
  auto found = standFor.find(value.getDefiningOp());
  return found != standFor.end() && llvm::any_of(found->second, [&](auto *op) {
           return ops.contains(op);
         });
}

void PrecisionPropagator::carryPart(Operation *op, const Ops &ops) {
  NarrowestTypes narrowest;
  for (Operation *other : ops)
    narrowest.add(other);
  bool multiplies = isa<ContractionOpInterface>(op);
  for (OpOperand &operand : op->getOpOperands()) {
    // The casts of the producer come in between.
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

void PrecisionPropagator::carryFamily(Operation *op) {
  // Data-movement results are rounded at their producers and consumers.
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

void PrecisionPropagator::run() {
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

void mpc::transferPrecision(const ObservedGraph &imported,
                            const ObservedGraph &simplified,
                            func::FuncOp typed) {
  PrecisionPropagator(imported, simplified, typed).run();
}
