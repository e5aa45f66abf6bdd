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

#include "LoopKernels.h"

#include "mpc/Dialect/Mpc/IR/MpcOptimizerOps.h"

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

/// Reduces pieces to numbers, or (with results) the numbers of all pieces.
class GradientCheckPhase : public Phase {
public:
  GradientCheckPhase(LoopContext &context, Operation *op, Value partial,
                     ArrayRef<Value> memrefs)
      : Phase(context), partial(partial), memrefs(memrefs) {
    if (auto norm = dyn_cast<GlobalNormOp>(op)) {
      isNorm = true;
      ofNorms = norm.getOfNorms();
      set(norm);
      type = getElementTypeOrSelf(norm.getResult().getType());
    } else {
      set(cast<AllFiniteOp>(op));
      type = builder.getF32Type();
    }
  }

  PhaseCost cost() override {
    if (memrefs.empty())
      return {items, static_cast<double>(kPieceLength) / 8};
    return {1, static_cast<double>(4 * items)};
  }
  void emit(Value item) override {
    memrefs.empty() ? reduce(item) : isNorm ? joinNorm() : joinFinite();
  }

  int64_t items = 0;
  /// Accumulator type.
  Type type;
  /// The numbers of the pieces.
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
  /// Reduces piece `item` to its number.
  void reduce(Value item);
  /// Reduces `length` elements of `tensor` from `begin` on.
  void reduceRun(Value tensor, Value begin, int64_t length, Value item,
                 Value scale);
  void reduceWhole(Value tensor, Value item, Value scale);
  Carried accumulate(Value value, Value keep, Value scale, ValueRange sums);
  /// Reduces `shape`, with elements from `element`, and stores the number of
  /// `item`.
  void run(ArrayRef<int64_t> shape, ArrayRef<LaneSegment> segments, Value item,
           Value scale,
           llvm::function_ref<Value(const Reducer::Place &)> element);
  Value sumOf(const Pieces &pieces);
  void joinNorm();
  void joinFinite();

  SmallVector<Value> memrefs;
  SmallVector<Pieces> tensors;
  bool isNorm = false, ofNorms = false;
  Value unscale;
  bool divides = false;
};
} // namespace

int64_t GradientCheckPhase::lanesFor(Value tensor, int64_t length) {
  if (target.lanes == 1 || target.alignedVectors || length <= kLongestInOrder)
    return 1;
  bool isWide = type.isF64() || getElementTypeOrSelf(tensor.getType()).isF64();
  int64_t lanes = 4 * target.lanes / (isWide ? 2 : 1);
  while (lanes > length)
    lanes /= 2;
  return std::max<int64_t>(lanes, 1);
}

Carried GradientCheckPhase::accumulate(Value value, Value keep, Value scale,
                                       ValueRange sums) {
  if (scale) {
    bool isWide = getElementTypeOrSelf(value.getType()).isF64();
    Value factor =
        isWide ? math.extendFloat(scale, builder.getF64Type()) : scale;
    if (auto vector = dyn_cast<VectorType>(value.getType()))
      factor = math.splat(factor, vector.getNumElements());
    value = divides ? math.div(value, factor) : math.mul(value, factor);
    if (isWide)
      value = math.truncateFloat(value, builder.getF32Type());
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
  return {math.fma(value, isNorm ? value : zero, sums[0])};
}

void GradientCheckPhase::run(
    ArrayRef<int64_t> shape, ArrayRef<LaneSegment> segments, Value item,
    Value scale, llvm::function_ref<Value(const Reducer::Place &)> element) {
  SmallVector<int64_t> axes =
      llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
  Reducer reducer;
  reducer.initial = {math.constant(type, 0)};
  reducer.body = [&](const Reducer::Place &place, ValueRange sums) {
    return accumulate(element(place), place.keep, scale, sums);
  };
  reducer.join = [&](ValueRange x, ValueRange y) {
    return Carried{math.add(x[0], y[0])};
  };
  SmallVector<Value> start(shape.size(), emitter.index(0));
  Carried sum = shape.empty()
                    ? reducer.body({start, 1, {0, 1}, {}}, reducer.initial)
                    : reducer.run(emitter, shape, axes, start, 1,
                                  {0, shape.back()}, segments);
  index.store(sum.front(), partial, item);
}

void GradientCheckPhase::reduceRun(Value tensor, Value begin, int64_t length,
                                   Value item, Value scale) {
  Value flat;
  if (Value memref = emitter.memoryOf(tensor))
    flat = emitter.viewAs(memref, elementCount(tensor));
  Type elementType = getElementTypeOrSelf(tensor.getType());
  LaneSegment segment{{0, length}, lanesFor(tensor, length)};
  run(length, segment, item, scale, [&](const Reducer::Place &place) {
    Value at = index.add(begin, place.indices[0]);
    return flat ? emitter.load(flat, elementType, at, place.lanes)
                : emitter.value(tensor, at, place.lanes);
  });
}

void GradientCheckPhase::reduceWhole(Value tensor, Value item, Value scale) {
  ArrayRef<int64_t> shape = shapeOf(tensor);
  SmallVector<LaneSegment> segments;
  if (!shape.empty())
    segments = planSummedLanes(emitter, tensor, shape.back());
  run(shape, segments, item, scale, [&](const Reducer::Place &place) {
    return emitter.valueIn(tensor, shape.empty() ? ValueRange() : place.indices,
                           place.lanes, place.range);
  });
}

void GradientCheckPhase::reduce(Value item) {
  Value scale;
  if (unscale) {
    scale = emitter.scalarValue(unscale, {}, 1);
    if (scale.getType().isF64())
      scale = math.truncateFloat(scale, builder.getF32Type());
  }
  for (const Pieces &pieces : tensors) {
    if (pieces.count == 0)
      continue;
    Value local = index.sub(item, index.constant(pieces.first));
    auto guarded = [&](int64_t from, int64_t to,
                       llvm::function_ref<void()> body) {
      if (from == to)
        return;
      // As unsigned, a piece before `from` is huge.
      Value inside =
          index.less(index.sub(local, index.constant(from)), to - from);
      index.branch(inside, body);
    };
    if (!isFlat(pieces.tensor)) {
      guarded(0, 1, [&] { reduceWhole(pieces.tensor, item, scale); });
      continue;
    }
    int64_t all = elementCount(pieces.tensor), whole = all / kPieceLength;
    Value begin = index.mul(local, kPieceLength);
    guarded(0, whole, [&] {
      reduceRun(pieces.tensor, begin, kPieceLength, item, scale);
    });
    guarded(whole, pieces.count, [&] {
      reduceRun(pieces.tensor, begin, all - whole * kPieceLength, item, scale);
    });
  }
}

/// Returns the sum of the numbers of a tensor's pieces.
Value GradientCheckPhase::sumOf(const Pieces &pieces) {
  return emitter.indexMath().carry(
      emitter.index(pieces.first), emitter.index(pieces.first + pieces.count),
      1, math.constant(type, 0), [&](Value item, ValueRange sum) {
        return Carried{math.add(sum[0], index.load(partial, item))};
      })[0];
}

void GradientCheckPhase::joinNorm() {
  Value total = math.constant(type, 0);
  for (const Pieces &pieces : tensors) {
    Value sum = sumOf(pieces);
    if (ofNorms) {
      Value norm = math.sqrt(sum);
      total = math.fma(norm, norm, total);
    } else {
      total = math.add(total, sum);
    }
  }
  emitter.store(math.sqrt(total), memrefs[0], {}, 1);
}

void GradientCheckPhase::joinFinite() {
  Type count = builder.getI64Type();
  Value first = math.integer(count, -1), bad = math.integer(count, 0);
  // From the last tensor to the first, so that the first bad one is kept.
  for (size_t i = tensors.size(); i-- > 0;) {
    Value sum = sumOf(tensors[i]);
    Value isBad = math.compare(CmpFPredicate::UNO, sum, sum);
    first = math.select(isBad, math.integer(count, i), first);
    bad = math.select(isBad, math.add(bad, 1), bad);
  }
  Value finite = math.compare(arith::CmpIPredicate::eq, bad, 0);
  emitter.store(finite, memrefs[0], {}, 1);
  emitter.store(first, memrefs[1], emitter.index(0), 1);
  emitter.store(bad, memrefs[1], emitter.index(1), 1);
}

SmallVector<std::unique_ptr<Phase>>
mpc::makeCheckPhases(LoopContext &context, Operation *op,
                     ArrayRef<Value> memrefs) {
  auto pieces = std::make_unique<GradientCheckPhase>(
      context, op, /*partial=*/Value(), ArrayRef<Value>());
  pieces->partial =
      context.allocate({std::max<int64_t>(pieces->items, 1)}, pieces->type);
  auto join = std::make_unique<GradientCheckPhase>(context, op, pieces->partial,
                                                   memrefs);
  SmallVector<std::unique_ptr<Phase>> phases;
  if (pieces->items > 0)
    phases.push_back(std::move(pieces));
  phases.push_back(std::move(join));
  return phases;
}
