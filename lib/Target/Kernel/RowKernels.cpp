//===- RowKernels.cpp - softmax, norms and reductions with their rows -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An item is a row: all positions along the reduced axes. Every op that reduces
// walks the row and leaves numbers per row; what follows computes from those
// and from the row's elements, and the last walk stores. Where the last
// dimension is not reduced, an item is a vector of neighbouring rows instead.
//
//===----------------------------------------------------------------------===//

#include "RowForm.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;

/// Inputs that cost more than this per element are computed once and kept.
static constexpr int64_t kRecomputeCost = 10;

//===----------------------------------------------------------------------===//
// The phase
//===----------------------------------------------------------------------===//

namespace {
class RowPhase : public Phase {
public:
  RowPhase(LoopContext &context, ArrayRef<Root> roots, RowForm form)
      : context(context), emitter(context.emitter),
        math(context.builder, context.loc, context.target), roots(roots),
        form(std::move(form)) {
    for (auto [dim, extent] : llvm::enumerate(this->form.shape))
      if (!this->form.isAxis(dim))
        kept.push_back(extent);
    if (this->form.isVertical())
      planVertical();
  }

  PhaseCost cost() override;
  LogicalResult emit(Value item) override;

private:
  using Place = ReductionLoop::Place;
  void planVertical();
  LogicalResult storeRoots();
  LogicalResult emitRowOp(Operation *op);
  LogicalResult emitReduce(Operation *op);
  LogicalResult emitSoftmax(Operation *op, bool logarithm);
  LogicalResult emitNorm(Operation *op, Value scale, Value bias, double epsilon,
                         bool centred);

  /// Walks the row: accumulators of `initial`, one call of `body` per vector.
  FailureOr<Carried>
  walk(ArrayRef<Value> tensors, ArrayRef<Value> initial,
       std::function<FailureOr<Carried>(const Place &, ValueRange)> body,
       std::function<Carried(ValueRange, ValueRange)> join);
  /// The op's input at a place. The first walk over a costly input keeps it.
  FailureOr<Value> inputAt(Value input, const Place &place, bool firstWalk);
  /// Memory for one carried number per element of the row.
  Value rowBuffer(Type type);
  SmallVector<Value> bufferIndices(ValueRange indices);
  /// Indices of a value that exists once per row.
  SmallVector<Value> rowIndices(ArrayRef<int64_t> shape) {
    return form.rowIndices(emitter, at, shape);
  }
  int64_t rowLanes() const { return lanes; }
  /// A per-row number for `width` lanes of the row.
  Value spread(Value value, int64_t width);

  LoopContext &context;
  ElementEmitter &emitter;
  MathExpansion math;
  SmallVector<Root> roots;
  RowForm form;
  /// Extents of the dimensions that stay.
  SmallVector<int64_t> kept;
  /// Neighbouring rows of an item: more than 1 only where the last dimension
  /// stays.
  int64_t lanes = 1;
  /// Full-rank indices of the item; entries at the axes are set by walks.
  SmallVector<Value> at;
  llvm::DenseMap<Value, Value> keptInputs;
  /// Makes later walks of the current op read the kept input.
  std::function<void()> afterFirstWalk;
};
} // namespace

void RowPhase::planVertical() {
  // Results of the reducing ops count as given.
  SmallVector<Value> tensors;
  for (Operation *op : form.ops) {
    tensors.push_back(op->getOperand(0));
    emitter.bindSource(op->getResult(0), {});
  }
  for (const Root &root : roots)
    if (shapeOf(root.tensor) == ArrayRef<int64_t>(form.shape))
      tensors.push_back(root.tensor);
  SmallVector<LaneSegment> segments =
      planLanes(emitter, tensors, form.shape.back());
  bool whole = segments.size() == 1 && llvm::all_of(tensors, [&](Value tensor) {
                 return emitter.isContiguous(tensor, segments.front().range);
               });
  if (whole)
    lanes = segments.front().lanes;
  for (Operation *op : form.ops)
    emitter.unbind(op->getResult(0));
}

PhaseCost RowPhase::cost() {
  int64_t row = 1;
  for (int64_t axis : form.axes)
    row *= form.shape[axis];
  int64_t items = productOf(kept);
  if (form.isVertical())
    items = productOf(ArrayRef<int64_t>(kept).drop_back()) *
            llvm::divideCeil(form.shape.back(), lanes);
  double cycles = 0;
  for (Operation *op : form.ops)
    cycles += isa<SoftmaxOp, LogSoftmaxOp>(op) ? 3.0 : 1.5;
  return {items,
          20 + cycles * static_cast<double>(row) *
                   (form.isVertical() ? std::max(1.0, lanes / 8.0) : 1.0)};
}

LogicalResult RowPhase::emit(Value item) {
  IndexMath index{context.builder, context.loc};
  SmallVector<int64_t> counts = kept;
  if (form.isVertical())
    counts.back() = llvm::divideCeil(form.shape.back(), lanes);
  SmallVector<Value> position = index.delinearize(item, counts);
  if (form.isVertical()) {
    Value first = index.mul(position.back(), lanes);
    bool overlaps = form.shape.back() % lanes != 0;
    position.back() =
        overlaps ? index.min(first, form.shape.back() - lanes) : first;
  }
  at.assign(form.shape.size(), emitter.index(0));
  size_t next = 0;
  for (size_t dim = 0; dim < at.size(); ++dim)
    if (!form.isAxis(dim))
      at[dim] = position[next++];

  keptInputs.clear();
  for (ReshapeOp reshape : form.reshapes)
    emitter.bindSource(reshape.getResult(), [this, reshape](ValueRange, int64_t,
                                                            Value) mutable {
      Value input = reshape.getInput();
      return emitter.emit(input, rowIndices(shapeOf(input)), rowLanes());
    });
  for (Operation *op : form.ops)
    if (failed(emitRowOp(op)))
      return failure();
  if (failed(storeRoots()))
    return failure();
  for (Operation *op : form.ops)
    emitter.unbind(op->getResult(0));
  for (ReshapeOp reshape : form.reshapes)
    emitter.unbind(reshape.getResult());
  for (auto [input, buffer] : keptInputs)
    emitter.unbind(input);
  return success();
}

LogicalResult RowPhase::storeRoots() {
  SmallVector<Root> full;
  SmallVector<Value> tensors;
  for (const Root &root : roots) {
    auto found = form.dependent.find(root.tensor);
    bool perRow = found != form.dependent.end() && !found->second;
    if (!perRow) {
      full.push_back(root);
      tensors.push_back(root.tensor);
      continue;
    }
    SmallVector<Value> indices = rowIndices(shapeOf(root.tensor));
    FailureOr<Value> value = emitter.emit(root.tensor, indices, rowLanes());
    if (failed(value))
      return failure();
    emitter.store(*value, root.memref, indices, rowLanes());
  }
  if (full.empty())
    return success();
  return walk(
      tensors, {},
      [&](const Place &place, ValueRange) -> FailureOr<Carried> {
        SmallVector<Value> values;
        for (const Root &root : full) {
          FailureOr<Value> value = emitter.emitIn(root.tensor, place.indices,
                                                  place.lanes, place.range);
          if (failed(value))
            return failure();
          values.push_back(*value);
        }
        for (auto [root, value] : llvm::zip(full, values))
          emitter.store(value, root.memref, place.indices, place.lanes);
        return Carried{};
      },
      nullptr);
}

FailureOr<Carried> RowPhase::walk(
    ArrayRef<Value> tensors, ArrayRef<Value> initial,
    std::function<FailureOr<Carried>(const Place &, ValueRange)> body,
    std::function<Carried(ValueRange, ValueRange)> join) {
  ReductionLoop loop{emitter,         form.shape,
                     form.axes,       SmallVector<Value>(initial),
                     std::move(body), std::move(join)};
  LaneRange range{0, form.shape.back()};
  if (form.isVertical())
    return loop.run(at, lanes, range, {});
  return loop.run(at, 1, range, planLanes(emitter, tensors, form.shape.back()));
}

Value RowPhase::spread(Value value, int64_t width) {
  if (width == 1 || isa<VectorType>(value.getType()))
    return value;
  return vector::BroadcastOp::create(context.builder, context.loc,
                                     lanesOf(value.getType(), width), value);
}

Value RowPhase::rowBuffer(Type type) {
  SmallVector<int64_t> shape;
  for (int64_t axis : form.axes)
    shape.push_back(form.shape[axis]);
  if (form.isVertical())
    shape.push_back(lanes);
  return context.allocate(shape, type);
}

SmallVector<Value> RowPhase::bufferIndices(ValueRange indices) {
  SmallVector<Value> result;
  for (int64_t axis : form.axes)
    result.push_back(indices[axis]);
  if (form.isVertical())
    result.push_back(emitter.index(0));
  return result;
}

FailureOr<Value> RowPhase::inputAt(Value input, const Place &place,
                                   bool firstWalk) {
  FailureOr<Value> value =
      emitter.emitIn(input, place.indices, place.lanes, place.range);
  if (failed(value))
    return failure();
  Value buffer = keptInputs.lookup(input);
  if (buffer && firstWalk)
    emitter.store(*value, buffer, bufferIndices(place.indices), place.lanes);
  return value;
}

LogicalResult RowPhase::emitRowOp(Operation *op) {
  Value input = op->getOperand(0);
  bool single = op->hasTrait<JoinsRows>() && input.hasOneUse();
  LaneRange all{0, form.shape.back()};
  bool plain =
      emitter.breaksOf(input).empty() && emitter.isContiguous(input, all);
  bool keep = context.target.privateScratch && !single &&
              !emitter.isBound(input) &&
              (!plain || emitter.costOf(input) > kRecomputeCost);
  if (keep)
    keptInputs[input] =
        rowBuffer(carriedType(getElementTypeOrSelf(input.getType())));
  afterFirstWalk = [this, input, keep] {
    if (!keep)
      return;
    Value buffer = keptInputs.lookup(input);
    Type type = cast<MemRefType>(buffer.getType()).getElementType();
    emitter.bindSource(
        input, [this, buffer, type](ValueRange indices, int64_t width, Value) {
          return FailureOr<Value>(
              emitter.load(buffer, type, bufferIndices(indices), width));
        });
  };
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](SoftmaxOp) { return emitSoftmax(op, /*logarithm=*/false); })
      .Case([&](LogSoftmaxOp) { return emitSoftmax(op, /*logarithm=*/true); })
      .Case([&](LayerNormOp norm) {
        return emitNorm(op, norm.getScale(), norm.getBias(),
                        norm.getEpsilon().convertToDouble(),
                        /*centred=*/true);
      })
      .Case([&](RmsNormOp norm) {
        return emitNorm(op, norm.getScale(), {},
                        norm.getEpsilon().convertToDouble(),
                        /*centred=*/false);
      })
      .Default([&](Operation *) { return emitReduce(op); });
}

//===----------------------------------------------------------------------===//
// The ops
//===----------------------------------------------------------------------===//

LogicalResult RowPhase::emitReduce(Operation *op) {
  Value input = op->getOperand(0);
  Type elementType = getElementTypeOrSelf(input.getType());
  Value identity = reductionIdentity(math, op, carriedType(accumulatorType(op)),
                                     elementType);
  FailureOr<Carried> sums = walk(
      input, identity,
      [&](const Place &place, ValueRange carried) -> FailureOr<Carried> {
        if (failed(inputAt(input, place, /*firstWalk=*/true)))
          return failure();
        return accumulateAt(emitter, op, place, carried);
      },
      [&](ValueRange x, ValueRange y) {
        Value sum = reductionStep(math, op, x[0], y[0], elementType);
        bool exact = isa<ReduceMaxOp, ReduceMinOp>(op);
        return Carried{exact ? sum : emitter.round(sum, accumulatorType(op))};
      });
  if (failed(sums))
    return failure();
  afterFirstWalk();
  emitter.bindValue(op->getResult(0),
                    finishReduction(emitter, op, sums->front()));
  return success();
}

LogicalResult RowPhase::emitSoftmax(Operation *op, bool logarithm) {
  Value input = op->getOperand(0), result = op->getResult(0);
  Type elementType = getElementTypeOrSelf(input.getType()),
       type = carriedType(elementType);
  auto larger = [&](Value x, Value y) {
    return math.select(math.compare(CmpFPredicate::OGT, x, y), x, y);
  };
  // A NaN is passed over here and comes back through the sum.
  Value lowest = math.constant(type, -std::numeric_limits<double>::infinity());
  FailureOr<Carried> largest = walk(
      input, lowest,
      [&](const Place &place, ValueRange best) -> FailureOr<Carried> {
        FailureOr<Value> x = inputAt(input, place, /*firstWalk=*/true);
        if (failed(x))
          return failure();
        Value counted = place.keep ? math.select(place.keep, *x,
                                                 spread(lowest, place.lanes))
                                   : *x;
        return Carried{larger(counted, best[0])};
      },
      [&](ValueRange x, ValueRange y) { return Carried{larger(x[0], y[0])}; });
  if (failed(largest))
    return failure();
  afterFirstWalk();
  Value maximum = largest->front();

  bool keepsPowers = !logarithm && context.target.privateScratch;
  Value powers = keepsPowers ? rowBuffer(type) : Value();
  Value zero = math.constant(type, 0.0);
  FailureOr<Carried> sums = walk(
      input, zero,
      [&](const Place &place, ValueRange sum) -> FailureOr<Carried> {
        FailureOr<Value> x = inputAt(input, place, /*firstWalk=*/false);
        if (failed(x))
          return failure();
        Value power =
            math.expNonPositive(math.sub(*x, spread(maximum, place.lanes)));
        if (powers)
          emitter.store(power, powers, bufferIndices(place.indices),
                        place.lanes);
        if (place.keep)
          power = math.select(place.keep, power, spread(zero, place.lanes));
        return Carried{math.add(sum[0], power)};
      },
      [&](ValueRange x, ValueRange y) {
        return Carried{math.add(x[0], y[0])};
      });
  if (failed(sums))
    return failure();

  if (logarithm) {
    Value logOfSum = math.log(sums->front());
    emitter.bindSource(
        result,
        [=, this](ValueRange indices, int64_t width,
                  Value mask) -> FailureOr<Value> {
          FailureOr<Value> x = emitter.emit(input, indices, width, mask);
          if (failed(x))
            return failure();
          Value shifted = math.sub(*x, spread(maximum, width));
          return emitter.round(math.sub(shifted, spread(logOfSum, width)),
                               elementType);
        });
    return success();
  }
  Value one = math.constant(sums->front().getType(), 1.0);
  Value inverse = math.div(one, sums->front());
  auto powerAt = [=, this](ValueRange indices, int64_t width,
                           Value mask) -> FailureOr<Value> {
    if (powers)
      return emitter.load(powers, type, bufferIndices(indices), width);
    FailureOr<Value> x = emitter.emit(input, indices, width, mask);
    if (failed(x))
      return failure();
    return math.expNonPositive(math.sub(*x, spread(maximum, width)));
  };
  emitter.bindSource(result,
                     [=, this](ValueRange indices, int64_t width,
                               Value mask) -> FailureOr<Value> {
                       FailureOr<Value> power = powerAt(indices, width, mask);
                       if (failed(power))
                         return failure();
                       return emitter.round(
                           math.mul(*power, spread(inverse, width)),
                           elementType);
                     });
  return success();
}

LogicalResult RowPhase::emitNorm(Operation *op, Value scale, Value bias,
                                 double epsilon, bool centred) {
  Value input = op->getOperand(0), result = op->getResult(0);
  Type elementType = getElementTypeOrSelf(input.getType()),
       type = carriedType(elementType);
  auto count =
      static_cast<double>(cast<ReductionOpInterface>(op).getReductionSize());
  Value zero = math.constant(type, 0.0);
  auto join = [&](ValueRange x, ValueRange y) {
    return Carried{math.add(x[0], y[0])};
  };
  auto mean = [&](Value sum) {
    return math.div(sum, math.constant(sum.getType(), count));
  };
  Value center;
  bool firstWalk = true;
  if (centred) {
    FailureOr<Carried> sum = walk(
        input, zero,
        [&](const Place &place, ValueRange sums) -> FailureOr<Carried> {
          FailureOr<Value> x = inputAt(input, place, /*firstWalk=*/true);
          if (failed(x))
            return failure();
          Value counted = place.keep ? math.select(place.keep, *x,
                                                   spread(zero, place.lanes))
                                     : *x;
          return Carried{math.add(sums[0], counted)};
        },
        join);
    if (failed(sum))
      return failure();
    afterFirstWalk();
    firstWalk = false;
    center = mean(sum->front());
  }
  FailureOr<Carried> squares = walk(
      input, zero,
      [&](const Place &place, ValueRange sums) -> FailureOr<Carried> {
        FailureOr<Value> x = inputAt(input, place, firstWalk);
        if (failed(x))
          return failure();
        Value offset = center ? math.sub(*x, spread(center, place.lanes)) : *x;
        if (place.keep)
          offset = math.select(place.keep, offset, spread(zero, place.lanes));
        return Carried{math.fma(offset, offset, sums[0])};
      },
      join);
  if (failed(squares))
    return failure();
  if (firstWalk)
    afterFirstWalk();
  Value variance = mean(squares->front());
  Value deviation = math.sqrt(math.add(variance, epsilon));
  Value inverse = math.div(math.constant(variance.getType(), 1.0), deviation);

  emitter.bindSource(
      result,
      [=, this](ValueRange indices, int64_t width,
                Value mask) -> FailureOr<Value> {
        LaneRange range{0, form.shape.back()};
        FailureOr<Value> x = emitter.emit(input, indices, width, mask);
        FailureOr<Value> factor =
            emitter.emitBroadcast(scale, indices, width, range, mask);
        if (failed(x) || failed(factor))
          return failure();
        Value offset = center ? math.sub(*x, spread(center, width)) : *x;
        Value value =
            math.mul(math.mul(offset, spread(inverse, width)), *factor);
        if (bias) {
          FailureOr<Value> shift =
              emitter.emitBroadcast(bias, indices, width, range, mask);
          if (failed(shift))
            return failure();
          value = math.add(value, *shift);
        }
        return emitter.round(value, elementType);
      });
  return success();
}

std::unique_ptr<Phase> mpc::makeRowPhase(LoopContext &context,
                                         ArrayRef<Root> roots) {
  RowForm form;
  if (failed(form.analyze(context.emitter, roots)))
    return nullptr;
  return std::make_unique<RowPhase>(context, roots, std::move(form));
}
