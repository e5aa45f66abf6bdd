//===- RowEmitterOps.cpp - the ops that reduce rows -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowEmitter.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;
using arith::CmpIPredicate;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// A number per item for all lanes of a vector.
Value RowEmitter::spread(Value value) {
  if (geometry.vector == 1 || isa<VectorType>(value.getType()))
    return value;
  auto type = VectorType::get({geometry.vector}, value.getType());
  TypedAttr constant;
  if (matchPattern(value, m_Constant(&constant)))
    return arith::ConstantOp::create(kernel.builder, kernel.loc,
                                     DenseElementsAttr::get(type, constant));
  return vector::BroadcastOp::create(kernel.builder, kernel.loc, type, value);
}

FailureOr<Value> RowEmitter::inputAt(Value input,
                                     const ReductionLoop::Place &place) {
  return emitter.emitIn(input, place.indices, place.lanes, place.range);
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

FailureOr<Carried> RowEmitter::store(ArrayRef<Stored> stores,
                                     ValueRange indices, int64_t lanes) {
  SmallVector<Value> values;
  for (const Stored &stored : stores) {
    FailureOr<Value> value = emitter.emit(stored.row(), indices, lanes);
    if (failed(value))
      return failure();
    values.push_back(*value);
  }
  for (auto [stored, value] : llvm::zip(stores, values)) {
    if (stored.result->movement.empty())
      emitter.store(value, stored.memref, indices, lanes);
    else if (failed(storeMoved(stored, value, indices, lanes)))
      return failure();
  }
  return Carried{};
}

LogicalResult RowEmitter::storeMoved(const Stored &stored, Value value,
                                     ValueRange indices, int64_t lanes) {
  SmallVector<Value> place(indices);
  Value exists;
  for (Operation *op : stored.result->movement) {
    ArrayRef<int64_t> from = shapeOf(op->getOperand(0)),
                      to = shapeOf(op->getResult(0));
    SmallVector<Value> next;
    if (auto transpose = dyn_cast<TransposeOp>(op)) {
      for (int64_t dim : transpose.getPermutation())
        next.push_back(place[dim]);
    } else if (auto slice = dyn_cast<SliceOp>(op)) {
      for (auto [dim, offset] : llvm::enumerate(slice.getOffsets())) {
        next.push_back(place[dim]);
        if (from[dim] == to[dim])
          continue;
        auto also = [&](CmpIPredicate predicate, int64_t bound) {
          Value holds =
              arith::CmpIOp::create(kernel.builder, kernel.loc, predicate,
                                    place[dim], emitter.index(bound));
          exists = exists ? math.bitAnd(exists, holds) : holds;
        };
        if (offset + to[dim] < from[dim])
          also(CmpIPredicate::ult, offset + to[dim]);
        if (offset == 0)
          continue;
        also(CmpIPredicate::uge, offset);
        next.back() = index.sub(place[dim], emitter.index(offset));
      }
    } else {
      Value linear = emitter.index(0);
      for (auto [dim, extent] : llvm::enumerate(from))
        linear = index.add(index.mul(linear, extent), place[dim]);
      next = index.delinearize(linear, to);
    }
    place = std::move(next);
  }
  FailureOr<Carried> done = guarded(exists, {}, [&]() -> FailureOr<Carried> {
    FailureOr<Value> last = value;
    Value moved = stored.result->moved(), result = stored.result->result;
    if (result != moved) {
      emitter.bindValue(moved, value);
      last = emitter.emit(result, place, lanes);
      emitter.unbind(moved);
    }
    if (failed(last))
      return failure();
    emitter.store(*last, stored.memref, place, lanes);
    return Carried{};
  });
  return success(succeeded(done));
}

/// Everything is computed before the first store: results may lie over what
/// others read.
FailureOr<Carried> RowEmitter::storePerRow(ArrayRef<Stored> stores) {
  int64_t lanes = form.isVertical() ? geometry.vector : 1;
  SmallVector<SmallVector<Value>> places;
  SmallVector<Value> values;
  for (const Stored &stored : stores) {
    places.push_back(form.rowIndices(emitter, at, shapeOf(stored.row())));
    FailureOr<Value> value = emitter.emit(stored.row(), places.back(), lanes);
    if (failed(value))
      return failure();
    values.push_back(*value);
  }
  for (auto [stored, value, place] : llvm::zip(stores, values, places)) {
    if (stored.result->movement.empty())
      emitter.store(value, stored.memref, place, lanes);
    else if (failed(storeMoved(stored, value, place, lanes)))
      return failure();
  }
  return Carried{};
}

LogicalResult RowEmitter::storeResults() {
  SmallVector<Stored> perRow, full;
  for (const Stored &stored : results) {
    if (plan->isPerRow(stored.row()))
      perRow.push_back(stored);
    else if (!plan->isEarly(stored.row()))
      full.push_back(stored);
  }
  if (!perRow.empty()) {
    Value condition = first && active ? math.bitAnd(first, active)
                      : first         ? first
                                      : active;
    FailureOr<Carried> done =
        guarded(condition, {},
                [&]() -> FailureOr<Carried> { return storePerRow(perRow); });
    if (failed(done))
      return failure();
  }
  bool sums = columnSums && !plan->sumsOnFirstWalk();
  if (full.empty() && !sums)
    return success();
  FailureOr<Carried> done =
      walkOwn({}, [&](const ReductionLoop::Place &place, ValueRange) {
        return guarded(active, {}, [&]() -> FailureOr<Carried> {
          if (sums && failed(addToSums(place)))
            return failure();
          return store(full, place.indices, place.lanes);
        });
      });
  return success(succeeded(done));
}

LogicalResult RowEmitter::addToSums(const ReductionLoop::Place &place) {
  return columnSums->add(place, step, position);
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult RowEmitter::emitOp(Operation *op) {
  startOp();
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](SoftmaxOp) { return emitSoftmax(op, /*logarithm=*/false); })
      .Case([&](LogSoftmaxOp) { return emitSoftmax(op, /*logarithm=*/true); })
      .Case([&](LayerNormOp norm) {
        return emitNorm(op, norm.getScale(), norm.getBias(),
                        norm.getEpsilon().convertToDouble(), /*centred=*/true);
      })
      .Case([&](RmsNormOp norm) {
        return emitNorm(op, norm.getScale(), {},
                        norm.getEpsilon().convertToDouble(),
                        /*centred=*/false);
      })
      .Default([&](Operation *) { return emitReduce(op); });
}

LogicalResult RowEmitter::emitSoftmax(Operation *op, bool logarithm) {
  Value input = op->getOperand(0), result = op->getResult(0);
  Type elementType = getElementTypeOrSelf(input.getType()),
       type = carriedType(elementType);
  auto larger = [&](Value x, Value y) {
    return math.select(math.compare(CmpFPredicate::OGT, x, y), x, y);
  };
  auto add = [&](ValueRange x, ValueRange y) {
    return Carried{math.add(x[0], y[0])};
  };
  auto powerOf = [&](Value x, Value maximum) {
    return math.expNonPositive(math.sub(x, spread(maximum)));
  };
  auto buffer = buffers.find(input);
  bool isKept = buffer != buffers.end();
  Value maximum, sum;
  bool powersKept = false;
  if (geometry.keep == RowKeep::Nowhere && geometry.steps > 1) {
    // One walk over memory for both: sums are rescaled when the maximum grows.
    // It starts from a finite number, so that infinite elements give the same
    // NaNs and zeros as they do in two walks.
    const llvm::fltSemantics &semantics =
        cast<FloatType>(type).getFloatSemantics();
    Value lowest = math.constant(
        type,
        APFloat::getLargest(semantics, /*Negative=*/true).convertToDouble());
    auto rescaled = [&](ValueRange x, Value to) {
      return math.mul(x[1], math.expNonPositive(math.sub(x[0], to)));
    };
    FailureOr<Carried> both = walk(
        {lowest, math.constant(type, 0.0)}, "sum", Kind::Other,
        [&](const ReductionLoop::Place &place,
            ValueRange carried) -> FailureOr<Carried> {
          FailureOr<Value> x = inputAt(input, place);
          if (failed(x))
            return failure();
          Value next = larger(*x, carried[0]);
          return Carried{next,
                         math.add(rescaled(carried, next),
                                  math.expNonPositive(math.sub(*x, next)))};
        },
        [&](ValueRange x, ValueRange y) {
          Value next = larger(x[0], y[0]);
          return Carried{next, math.add(rescaled(x, next), rescaled(y, next))};
        });
    if (failed(both))
      return failure();
    maximum = (*both)[0];
    sum = (*both)[1];
  } else {
    // A NaN is passed over here and comes back through the sum.
    FailureOr<Carried> largest = walk(
        math.constant(type, -std::numeric_limits<double>::infinity()),
        "largest", Kind::Largest,
        [&](const ReductionLoop::Place &place,
            ValueRange best) -> FailureOr<Carried> {
          FailureOr<Value> x = inputAt(input, place);
          if (failed(x))
            return failure();
          return Carried{larger(*x, best[0])};
        },
        [&](ValueRange x, ValueRange y) {
          return Carried{larger(x[0], y[0])};
        });
    if (failed(largest))
      return failure();
    maximum = largest->front();
    powersKept = isKept && !logarithm && input.hasOneUse();
    FailureOr<Carried> sums = walk(
        math.constant(type, 0.0), "sum", Kind::Sum,
        [&](const ReductionLoop::Place &place,
            ValueRange carried) -> FailureOr<Carried> {
          FailureOr<Value> x = inputAt(input, place);
          if (failed(x))
            return failure();
          Value power = powerOf(*x, maximum);
          if (powersKept)
            save(buffer->second, power);
          return Carried{math.add(carried[0], power)};
        },
        add);
    if (failed(sums))
      return failure();
    sum = sums->front();
  }

  if (logarithm) {
    Value logOfSum = kernel.named(math.log(sum), "logOfSum");
    emitter.bindSource(result,
                       [=, this](ValueRange indices, int64_t width,
                                 Value mask) -> FailureOr<Value> {
                         FailureOr<Value> x =
                             emitter.emit(input, indices, width, mask);
                         if (failed(x))
                           return failure();
                         Value shifted = math.sub(*x, spread(maximum));
                         return emitter.round(
                             math.sub(shifted, spread(logOfSum)), elementType);
                       });
    return success();
  }
  Value inverse =
      kernel.named(math.div(math.constant(sum.getType(), 1.0), sum), "inverse");
  emitter.bindSource(
      result,
      [=, this](ValueRange indices, int64_t width,
                Value mask) -> FailureOr<Value> {
        FailureOr<Value> power = emitter.emit(input, indices, width, mask);
        if (failed(power))
          return failure();
        if (!powersKept)
          power = math.expNonPositive(math.sub(*power, spread(maximum)));
        return emitter.round(math.mul(*power, spread(inverse)), elementType);
      });
  return success();
}

LogicalResult RowEmitter::emitNorm(Operation *op, Value scale, Value bias,
                                   double epsilon, bool centred) {
  Value input = op->getOperand(0), result = op->getResult(0);
  Type elementType = getElementTypeOrSelf(input.getType()),
       type = carriedType(elementType);
  auto count =
      static_cast<double>(cast<ReductionOpInterface>(op).getReductionSize());
  Value zero = math.constant(type, 0.0);
  auto add = [&](ValueRange x, ValueRange y) {
    return Carried{math.add(x[0], y[0])};
  };
  auto mean = [&](Value sum, StringRef name) {
    return kernel.named(math.div(sum, math.constant(sum.getType(), count)),
                        name);
  };
  Value center;
  if (centred) {
    FailureOr<Carried> sum = walk(
        zero, "sum", Kind::Sum,
        [&](const ReductionLoop::Place &place,
            ValueRange sums) -> FailureOr<Carried> {
          FailureOr<Value> x = inputAt(input, place);
          if (failed(x))
            return failure();
          return Carried{math.add(sums[0], *x)};
        },
        add);
    if (failed(sum))
      return failure();
    center = mean(sum->front(), "mean");
  }
  FailureOr<Carried> squares = walk(
      zero, "squares", Kind::Sum,
      [&](const ReductionLoop::Place &place,
          ValueRange sums) -> FailureOr<Carried> {
        FailureOr<Value> x = inputAt(input, place);
        if (failed(x))
          return failure();
        Value offset = center ? math.sub(*x, spread(center)) : *x;
        return Carried{math.fma(offset, offset, sums[0])};
      },
      add);
  if (failed(squares))
    return failure();
  Value variance = mean(squares->front(), "variance");
  Value deviation = math.sqrt(math.add(variance, epsilon));
  Value inverse = kernel.named(
      math.div(math.constant(variance.getType(), 1.0), deviation), "inverse");

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
        Value offset = center ? math.sub(*x, spread(center)) : *x;
        Value value = math.mul(math.mul(offset, spread(inverse)), *factor);
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
