//===- ElementEmitterReduction.cpp - reductions at one result element -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A reduction whose result is asked for element by element becomes a loop nest
// at that element.
//
//===----------------------------------------------------------------------===//

#include "LoopKernels.h"

#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;
using arith::CmpIPredicate;

FailureOr<Value> ElementEmitter::emitComputed(Operation *op,
                                              const Request &at) {
  if (op->hasTrait<JoinsRows>())
    return emitReduce(op, at);
  if (isa<ArgmaxOp, ArgminOp>(op))
    return emitArgReduce(op, at);
  if (isa<MaxPoolOp, AvgPoolOp>(op))
    return emitPool(op, at);
  if (isa<MaxPoolGradientOp, AvgPoolGradientOp>(op))
    return emitPoolGradient(op, at);
  if (isa<RandomBitsOp>(op))
    return emitRandomBits(op, at);
  if (isa<BatchNormOp>(op))
    return emitBatchNorm(op, at);
  if (isa<MatmulOp>(op))
    return emitMatmul(op, at);
  if (isa<ConvOp>(op))
    return emitConv(op, at);
  return op->emitOpError("has no element-by-element form"), failure();
}

/// Full-rank indices of a reduction's input from those of its result.
static SmallVector<Value> expandIndices(ElementEmitter &emitter,
                                        ValueRange result,
                                        ArrayRef<int64_t> shape,
                                        ArrayRef<int64_t> axes) {
  bool keepsDims = result.size() == shape.size();
  SmallVector<Value> indices;
  size_t next = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    bool reduced = llvm::is_contained(axes, static_cast<int64_t>(dim));
    if (reduced && !keepsDims)
      indices.push_back(emitter.index(0));
    else
      indices.push_back(result[next++]);
  }
  return indices;
}

FailureOr<Value> ElementEmitter::emitReduce(Operation *op, const Request &at) {
  Value input = op->getOperand(0);
  ArrayRef<int64_t> shape = shapeOf(input);
  SmallVector<int64_t> axes = cast<ReductionOpInterface>(op).getReductionAxes();
  bool horizontal =
      llvm::is_contained(axes, static_cast<int64_t>(shape.size()) - 1);
  if (horizontal && at.lanes > 1)
    return emitPerLane(op->getResult(0), at);
  ValueMath math(builder, loc);
  Type elementType = getElementTypeOrSelf(input.getType());
  Type sumType = carriedType(accumulatorType(op));
  ReductionLoop loop{*this,
                     shape,
                     axes,
                     {reductionIdentity(math, op, sumType, elementType)},
                     [&](const ReductionLoop::Place &place, ValueRange sums) {
                       return accumulateAt(*this, op, place, sums);
                     },
                     [&](ValueRange x, ValueRange y) {
                       Value sum =
                           reductionStep(math, op, x[0], y[0], elementType);
                       return Carried{this->round(sum, accumulatorType(op))};
                     }};
  SmallVector<LaneSegment> segments;
  if (horizontal)
    segments = planLanes(*this, input, shape.back());
  FailureOr<Carried> sums =
      loop.run(expandIndices(*this, at.indices, shape, axes), at.lanes,
               at.range, segments);
  if (failed(sums))
    return failure();
  return finishReduction(*this, op, sums->front());
}

//===----------------------------------------------------------------------===//
// argmax, argmin
//===----------------------------------------------------------------------===//

FailureOr<Value> ElementEmitter::emitArgReduce(Operation *op,
                                               const Request &at) {
  Value input = op->getOperand(0);
  ArrayRef<int64_t> shape = shapeOf(input);
  bool largest = isa<ArgmaxOp>(op);
  bool selectLast = largest ? cast<ArgmaxOp>(op).getSelectLast()
                            : cast<ArgminOp>(op).getSelectLast();
  SmallVector<int64_t> axes = cast<ReductionOpInterface>(op).getReductionAxes();
  int64_t axis = axes.front();
  bool horizontal = axis + 1 == static_cast<int64_t>(shape.size());
  if (horizontal && at.lanes > 1)
    return emitPerLane(op->getResult(0), at);
  ValueMath math(builder, loc);
  Type elementType = getElementTypeOrSelf(input.getType());
  bool noSign = elementType.isUnsignedInteger() || elementType.isInteger(1);
  // Positions are carried in 32 bits where that is enough.
  Type placeType = shape[axis] < (int64_t(1) << 31) ? builder.getI32Type()
                                                    : builder.getI64Type();

  // x wins over y; NaN wins over numbers.
  auto before = [&](Value x, Value y) -> Value {
    if (isa<FloatType>(elementType)) {
      Value wins =
          math.compare(largest ? CmpFPredicate::UGT : CmpFPredicate::ULT, x, y);
      return math.bitAnd(wins, math.compare(CmpFPredicate::ORD, y, y));
    }
    CmpIPredicate predicate =
        noSign ? (largest ? CmpIPredicate::ugt : CmpIPredicate::ult)
               : (largest ? CmpIPredicate::sgt : CmpIPredicate::slt);
    return math.compare(predicate, x, y);
  };
  auto negate = [&](Value condition) {
    return math.bitXor(condition, math.integer(condition.getType(), -1));
  };

  SmallVector<Value> indices = expandIndices(*this, at.indices, shape, axes);
  indices[axis] = index(0);
  // Every lane starts from the first element.
  Result first =
      horizontal
          ? emitScalar(input, indices, 1)
          : emitRequest(input, Request{indices, at.lanes, at.mask, at.range});
  if (failed(first))
    return failure();

  auto placeOf = [&](const ReductionLoop::Place &place) -> Value {
    Value start = arith::IndexCastOp::create(builder, loc, placeType,
                                             place.indices[axis]);
    Value lanes = splat(start, place.lanes);
    if (!horizontal || place.lanes == 1)
      return lanes;
    SmallVector<Attribute> steps;
    for (int64_t lane = 0; lane < place.lanes; ++lane)
      steps.push_back(builder.getIntegerAttr(placeType, lane));
    auto type = cast<VectorType>(lanes.getType());
    return math.addInt(
        lanes, arith::ConstantOp::create(builder, loc,
                                         DenseElementsAttr::get(type, steps)));
  };
  ReductionLoop loop{
      *this,
      shape,
      axes,
      {},
      [&](const ReductionLoop::Place &place,
          ValueRange best) -> FailureOr<Carried> {
        Result value = emitIn(input, place.indices, place.lanes, place.range);
        if (failed(value))
          return failure();
        Value take = selectLast ? negate(before(best[0], *value))
                                : before(*value, best[0]);
        if (place.keep)
          take = math.bitAnd(take, place.keep);
        return Carried{math.select(take, *value, best[0]),
                       math.select(take, placeOf(place), best[1])};
      },
      [&](ValueRange x, ValueRange y) {
        Value later = math.compare(
            selectLast ? CmpIPredicate::sgt : CmpIPredicate::slt, y[1], x[1]);
        Value tie = math.bitAnd(negate(before(x[0], y[0])), later);
        Value take = math.bitOr(before(y[0], x[0]), tie);
        return Carried{math.select(take, y[0], x[0]),
                       math.select(take, y[1], x[1])};
      }};
  // The loop splats scalars; a vector start is already as wide as it has to be.
  loop.initial = {
      *first,
      math.integer(ValueMath::withElement((*first).getType(), placeType), 0)};
  SmallVector<LaneSegment> segments;
  if (horizontal)
    segments = planLanes(*this, input, shape.back());
  FailureOr<Carried> best = loop.run(indices, at.lanes, at.range, segments);
  if (failed(best))
    return failure();
  Value place = (*best)[1];
  return placeType.isInteger(64)
             ? place
             : math.extendSigned(place, builder.getI64Type());
}

//===----------------------------------------------------------------------===//
// batch_norm
//===----------------------------------------------------------------------===//

FailureOr<Value> ElementEmitter::emitBatchNorm(Operation *op,
                                               const Request &at) {
  auto norm = cast<BatchNormOp>(op);
  bool channelLanes = shapeOf(norm.getInput()).size() == 2;
  auto channel = [&](Value tensor) -> Result {
    Value position = at.indices[1];
    return channelLanes ? emitRequest(tensor, Request{position, at.lanes,
                                                      at.mask, at.range})
                        : emitScalar(tensor, position, at.lanes);
  };
  Result x = emitRequest(norm.getInput(), at), scale = channel(norm.getScale()),
         bias = channel(norm.getBias()), mean = channel(norm.getMean()),
         variance = channel(norm.getVariance());
  if (failed(x) || failed(scale) || failed(bias) || failed(mean) ||
      failed(variance))
    return failure();
  ValueMath math(builder, loc);
  Value one = math.constant((*x).getType(), 1.0);
  Value deviation =
      math.sqrt(math.add(*variance, norm.getEpsilon().convertToDouble()));
  Value scaled = math.mul(math.sub(*x, *mean), math.div(one, deviation));
  Value result = math.add(math.mul(scaled, *scale), *bias);
  return round(result, getElementTypeOrSelf(norm.getResult().getType()));
}
