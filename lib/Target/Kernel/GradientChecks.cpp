//===- GradientChecks.cpp - all_finite and global_norm --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Multi-tensor reductions. A first phase reduces fixed-size pieces of the
// tensors to one number each in scratch memory; a second phase combines these.
// Finiteness is checked by a sum of x * 0, which is 0 exactly if every x is
// finite.
//
//===----------------------------------------------------------------------===//

#include "GradientChecks.h"

#include "mpc/Dialect/Mpc/IR/MpcOptimizerOps.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;

namespace {
/// Elements per piece.
constexpr int64_t kPieceLength = 16384;
/// Tensors of at most this many elements are summed in order: vectors would
/// save little and round differently from the reference interpreter.
constexpr int64_t kLongestInOrder = 16;

/// A tensor and its range of pieces.
struct Pieces {
  Value tensor;
  int64_t first, count;
};

/// Shared state of the two phases of one op.
class GradientCheckState {
public:
  GradientCheckState(LoopContext &context, Operation *op)
      : context(context), emitter(context.emitter),
        math(context.builder, context.loc),
        index{context.builder, context.loc} {
    if (auto norm = dyn_cast<GlobalNormOp>(op)) {
      isNorm = true;
      ofNorms = norm.getOfNorms();
      set(norm);
      type = getElementTypeOrSelf(norm.getResult().getType());
    } else {
      set(cast<AllFiniteOp>(op));
      type = context.builder.getF32Type();
    }
    partial = context.allocate({std::max<int64_t>(items, 1)}, type);
  }

  /// Reduces piece `item` to its number.
  LogicalResult reduce(Value item);

  LoopContext &context;
  ElementEmitter &emitter;
  ValueMath math;
  IndexMath index;
  bool isNorm = false, ofNorms = false;
  /// Accumulator type.
  Type type;
  SmallVector<Pieces> tensors;
  int64_t items = 0;
  Value partial;

private:
  template <typename OpTy> void set(OpTy op) {
    unscale = op.getUnscale();
    divides = op.getUnscaleMode() == UnscaleMode::divide;
    for (Value gradient : op.getGradients()) {
      int64_t count =
          isFlat(gradient)
              ? llvm::divideCeil(elementCount(gradient), kPieceLength)
              : 1;
      tensors.push_back({gradient, items, count});
      items += count;
    }
  }

  /// Returns true if elements are indexed by their row-major position.
  bool isFlat(Value tensor) {
    return emitter.memoryOf(tensor) || shapeOf(tensor).size() == 1;
  }
  int64_t lanesFor(Value tensor, int64_t length);
  /// Reduces `length` elements of `tensor` from `begin` on.
  LogicalResult reduceRun(Value tensor, Value begin, int64_t length, Value item,
                          Value scale);
  LogicalResult reduceWhole(Value tensor, Value item, Value scale);
  FailureOr<Carried> accumulate(FailureOr<Value> element, Value keep,
                                Value scale, ValueRange sums);
  /// Reduces `shape`, with elements from `element`, and stores the number of
  /// `item`.
  LogicalResult
  run(ArrayRef<int64_t> shape, ArrayRef<LaneSegment> segments, Value item,
      Value scale,
      llvm::function_ref<FailureOr<Value>(const ReductionLoop::Place &)>
          element);

  Value unscale;
  bool divides = false;
};
} // namespace

int64_t GradientCheckState::lanesFor(Value tensor, int64_t length) {
  const ElementTarget &target = context.target;
  if (target.lanes == 1 || target.alignedVectors || length <= kLongestInOrder)
    return 1;
  bool isWide = type.isF64() || getElementTypeOrSelf(tensor.getType()).isF64();
  int64_t lanes = 4 * target.lanes / (isWide ? 2 : 1);
  while (lanes > length)
    lanes /= 2;
  return std::max<int64_t>(lanes, 1);
}

FailureOr<Carried> GradientCheckState::accumulate(FailureOr<Value> element,
                                                  Value keep, Value scale,
                                                  ValueRange sums) {
  if (failed(element))
    return failure();
  Value value = *element;
  Type f32 = context.builder.getF32Type();
  if (scale) {
    bool isWide = getElementTypeOrSelf(value.getType()).isF64();
    Value factor =
        isWide ? math.extendFloat(scale, context.builder.getF64Type()) : scale;
    if (isa<VectorType>(value.getType()))
      factor = vector::BroadcastOp::create(context.builder, context.loc,
                                           value.getType(), factor);
    value = divides ? math.div(value, factor) : math.mul(value, factor);
    if (isWide)
      value = math.truncateFloat(value, f32);
  }
  Type from = getElementTypeOrSelf(value.getType());
  if (from.isF64() && type.isF32()) {
    // A large finite f64 may overflow f32.
    if (!isNorm)
      value = math.mul(value, 0.0);
    value = math.truncateFloat(value, type);
  } else if (from.isF32() && type.isF64()) {
    value = math.extendFloat(value, type);
  }
  Value zero = math.constant(value.getType(), 0);
  if (keep)
    value = math.select(keep, value, zero);
  return Carried{math.fma(value, isNorm ? value : zero, sums[0])};
}

LogicalResult GradientCheckState::run(
    ArrayRef<int64_t> shape, ArrayRef<LaneSegment> segments, Value item,
    Value scale,
    llvm::function_ref<FailureOr<Value>(const ReductionLoop::Place &)>
        element) {
  SmallVector<int64_t> axes =
      llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
  ReductionLoop loop{emitter,
                     shape,
                     axes,
                     {math.constant(type, 0)},
                     [&](const ReductionLoop::Place &place, ValueRange sums) {
                       return accumulate(element(place), place.keep, scale,
                                         sums);
                     },
                     [&](ValueRange x, ValueRange y) {
                       return Carried{math.add(x[0], y[0])};
                     }};
  SmallVector<Value> start(shape.size(), emitter.index(0));
  FailureOr<Carried> sum = failure();
  if (shape.empty())
    sum = loop.body({start, 1, {0, 1}, {}}, loop.initial);
  else
    sum = loop.run(start, 1, {0, shape.back()}, segments);
  if (failed(sum))
    return failure();
  memref::StoreOp::create(context.builder, context.loc, sum->front(), partial,
                          item);
  return success();
}

LogicalResult GradientCheckState::reduceRun(Value tensor, Value begin,
                                            int64_t length, Value item,
                                            Value scale) {
  Value flat;
  if (Value memref = emitter.memoryOf(tensor))
    flat = emitter.viewAs(memref, elementCount(tensor));
  Type elementType = getElementTypeOrSelf(tensor.getType());
  LaneSegment segment{{0, length}, lanesFor(tensor, length)};
  return run(length, segment, item, scale,
             [&](const ReductionLoop::Place &place) -> FailureOr<Value> {
               Value at = index.add(begin, place.indices[0]);
               if (flat)
                 return emitter.load(flat, elementType, at, place.lanes);
               return emitter.emit(tensor, at, place.lanes);
             });
}

LogicalResult GradientCheckState::reduceWhole(Value tensor, Value item,
                                              Value scale) {
  ArrayRef<int64_t> shape = shapeOf(tensor);
  SmallVector<LaneSegment> segments;
  if (!shape.empty())
    segments = planLanes(emitter, tensor, shape.back());
  return run(
      shape, segments, item, scale, [&](const ReductionLoop::Place &place) {
        return emitter.emitIn(tensor,
                              shape.empty() ? ValueRange() : place.indices,
                              place.lanes, place.range);
      });
}

LogicalResult GradientCheckState::reduce(Value item) {
  Value scale;
  if (unscale) {
    SmallVector<Value> origin(shapeOf(unscale).size(), emitter.index(0));
    FailureOr<Value> value = emitter.emit(unscale, origin, 1);
    if (failed(value))
      return failure();
    scale = *value;
    if (scale.getType().isF64())
      scale = math.truncateFloat(scale, context.builder.getF32Type());
  }
  LogicalResult result = success();
  for (const Pieces &pieces : tensors) {
    if (pieces.count == 0)
      continue;
    Value local = index.sub(item, index.constant(pieces.first));
    auto guarded = [&](int64_t from, int64_t to,
                       llvm::function_ref<LogicalResult()> body) {
      if (from == to)
        return;
      // As unsigned, a piece before `from` is huge.
      Value inside =
          index.less(index.sub(local, index.constant(from)), to - from);
      index.branch(
          inside,
          [&] {
            if (succeeded(result))
              result = body();
          },
          [] {});
    };
    if (!isFlat(pieces.tensor)) {
      guarded(0, 1, [&] { return reduceWhole(pieces.tensor, item, scale); });
      continue;
    }
    int64_t all = elementCount(pieces.tensor), whole = all / kPieceLength;
    Value begin = index.mul(local, kPieceLength);
    guarded(0, whole, [&] {
      return reduceRun(pieces.tensor, begin, kPieceLength, item, scale);
    });
    guarded(whole, pieces.count, [&] {
      return reduceRun(pieces.tensor, begin, all - whole * kPieceLength, item,
                       scale);
    });
  }
  return result;
}

namespace {
/// Reduces pieces.
class PiecesPhase : public Phase {
public:
  explicit PiecesPhase(std::shared_ptr<GradientCheckState> check)
      : check(std::move(check)) {}

  PhaseCost cost() override {
    return {check->items, static_cast<double>(kPieceLength) / 8};
  }
  LogicalResult emit(Value item) override { return check->reduce(item); }

private:
  std::shared_ptr<GradientCheckState> check;
};

/// Combines the numbers of all pieces.
class CombinePiecesPhase : public Phase {
public:
  CombinePiecesPhase(std::shared_ptr<GradientCheckState> check,
                     ArrayRef<Value> memrefs)
      : check(std::move(check)), memrefs(memrefs) {}

  PhaseCost cost() override {
    return {1, static_cast<double>(4 * check->items)};
  }

  LogicalResult emit(Value) override {
    return check->isNorm ? joinNorm() : joinFinite();
  }

private:
  Value sumOf(int64_t first, int64_t count) {
    OpBuilder &b = check->context.builder;
    Location loc = check->context.loc;
    Value zero = check->math.constant(check->type, 0);
    return carryLoop(check->emitter, check->emitter.index(first),
                     check->emitter.index(first + count), 1, zero,
                     [&](Value item, ValueRange sum) -> FailureOr<Carried> {
                       Value part =
                           memref::LoadOp::create(b, loc, check->partial, item);
                       return Carried{check->math.add(sum[0], part)};
                     })
        ->front();
  }

  LogicalResult joinNorm() {
    ValueMath &math = check->math;
    Value total = math.constant(check->type, 0);
    for (const Pieces &pieces : check->tensors) {
      Value sum = sumOf(pieces.first, pieces.count);
      if (check->ofNorms) {
        Value norm = math.sqrt(sum);
        total = math.fma(norm, norm, total);
      } else {
        total = math.add(total, sum);
      }
    }
    check->emitter.store(math.sqrt(total), memrefs[0], {}, 1);
    return success();
  }

  LogicalResult joinFinite() {
    ValueMath &math = check->math;
    Type count = check->context.builder.getI64Type();
    Value first = math.integer(count, -1), bad = math.integer(count, 0);
    // From the last tensor to the first, so that the first bad one is kept.
    for (size_t i = check->tensors.size(); i-- > 0;) {
      const Pieces &pieces = check->tensors[i];
      Value sum = sumOf(pieces.first, pieces.count);
      Value isBad = math.compare(CmpFPredicate::UNO, sum, sum);
      first = math.select(isBad, math.integer(count, i), first);
      bad = math.select(isBad, math.addInt(bad, 1), bad);
    }
    Value finite =
        math.compare(arith::CmpIPredicate::eq, bad, math.integer(count, 0));
    ElementEmitter &emitter = check->emitter;
    emitter.store(finite, memrefs[0], {}, 1);
    emitter.store(first, memrefs[1], emitter.index(0), 1);
    emitter.store(bad, memrefs[1], emitter.index(1), 1);
    return success();
  }

  std::shared_ptr<GradientCheckState> check;
  SmallVector<Value> memrefs;
};
} // namespace

SmallVector<std::unique_ptr<Phase>>
mpc::makeCheckPhases(LoopContext &context, Operation *op,
                     ArrayRef<Value> memrefs) {
  auto check = std::make_shared<GradientCheckState>(context, op);
  SmallVector<std::unique_ptr<Phase>> phases;
  if (check->items > 0)
    phases.push_back(std::make_unique<PiecesPhase>(check));
  phases.push_back(std::make_unique<CombinePiecesPhase>(check, memrefs));
  return phases;
}
