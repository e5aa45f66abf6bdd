//===- RowReducers.cpp - reduce ops and positions of extremes -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowEmitter.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;
using arith::CmpIPredicate;

RowEmitter::Reducer RowEmitter::reducerOf(Operation *op) {
  if (auto argmax = dyn_cast<ArgmaxOp>(op))
    return positionReducer(op, /*largest=*/true, argmax.getSelectLast());
  if (auto argmin = dyn_cast<ArgminOp>(op))
    return positionReducer(op, /*largest=*/false, argmin.getSelectLast());
  Type elementType = getElementTypeOrSelf(op->getOperand(0).getType()),
       accumulator = accumulatorType(op);
  bool exact = isa<ReduceMaxOp, ReduceMinOp>(op);
  bool isSum = isa<ReduceSumOp, ReduceMeanOp>(op) && accumulator.isF32();
  Reducer reducer;
  reducer.initial = {
      reductionIdentity(math, op, carriedType(accumulator), elementType)};
  reducer.name = isa<ReduceMaxOp>(op)    ? "largest"
                 : isa<ReduceMinOp>(op)  ? "least"
                 : isa<ReduceProdOp>(op) ? "product"
                                         : "sum";
  reducer.kind = isa<ReduceMaxOp>(op)   ? Kind::Largest
                 : isa<ReduceMinOp>(op) ? Kind::Least
                 : isSum                ? Kind::Sum
                                        : Kind::Other;
  reducer.body = [this, op](const ReductionLoop::Place &place,
                            ValueRange carried) {
    return accumulateAt(emitter, op, place, carried);
  };
  reducer.join = [=, this](ValueRange x, ValueRange y) {
    Value sum = reductionStep(math, op, x[0], y[0], elementType);
    return Carried{exact ? sum : emitter.round(sum, accumulator)};
  };
  reducer.finish = [this, op](ValueRange sums) {
    return finishReduction(emitter, op, sums.front());
  };
  return reducer;
}

RowEmitter::Reducer RowEmitter::positionReducer(Operation *op, bool largest,
                                                bool selectLast) {
  Value input = op->getOperand(0);
  int64_t axis = form.axes.front();
  Type elementType = getElementTypeOrSelf(input.getType());
  SmallVector<Type> types = plan->partials(op);
  Type type = types[0], placeType = types[1];
  bool noSign = elementType.isUnsignedInteger() || elementType.isInteger(1);
  bool isFloat = isa<FloatType>(elementType);

  // x wins over y; NaN wins over numbers.
  auto before = [=, this](Value x, Value y) -> Value {
    if (isFloat) {
      Value wins =
          math.compare(largest ? CmpFPredicate::UGT : CmpFPredicate::ULT, x, y);
      return math.bitAnd(wins, math.compare(CmpFPredicate::ORD, y, y));
    }
    CmpIPredicate predicate =
        noSign ? (largest ? CmpIPredicate::ugt : CmpIPredicate::ult)
               : (largest ? CmpIPredicate::sgt : CmpIPredicate::slt);
    return math.compare(predicate, x, y);
  };

  Reducer reducer;
  reducer.name = largest ? "largest" : "least";
  // The start loses against every element, equal ones included.
  double infinity = std::numeric_limits<double>::infinity();
  unsigned width = type.getIntOrFloatBitWidth();
  APInt end =
      noSign ? (largest ? APInt::getMinValue(width) : APInt::getMaxValue(width))
      : largest ? APInt::getSignedMinValue(width)
                : APInt::getSignedMaxValue(width);
  reducer.initial = {
      isFloat ? math.constant(type, largest ? -infinity : infinity)
              : math.integer(type, end.getSExtValue()),
      math.integer(placeType, selectLast
                                  ? -1
                                  : APInt::getSignedMaxValue(
                                        placeType.getIntOrFloatBitWidth())
                                        .getSExtValue())};
  reducer.join = [=, this](ValueRange x, ValueRange y) {
    Value later = math.compare(
        selectLast ? CmpIPredicate::sgt : CmpIPredicate::slt, y[1], x[1]);
    Value worse = before(x[0], y[0]);
    Value tie = math.bitAnd(
        math.bitXor(worse, math.integer(worse.getType(), -1)), later);
    Value take = math.bitOr(before(y[0], x[0]), tie);
    return Carried{math.select(take, y[0], x[0]),
                   math.select(take, y[1], x[1])};
  };
  auto placeOf = [=, this](const ReductionLoop::Place &place) -> Value {
    OpBuilder &builder = kernel.builder;
    Value wide = spread(arith::IndexCastOp::create(
        builder, kernel.loc, placeType, place.indices[axis]));
    auto vector = dyn_cast<VectorType>(wide.getType());
    if (form.isVertical() || !vector)
      return wide;
    SmallVector<Attribute> steps;
    for (int64_t lane = 0; lane < place.lanes; ++lane)
      steps.push_back(builder.getIntegerAttr(placeType, lane));
    return math.addInt(
        wide, arith::ConstantOp::create(builder, kernel.loc,
                                        DenseElementsAttr::get(vector, steps)));
  };
  reducer.body =
      [=, this, join = reducer.join](const ReductionLoop::Place &place,
                                     ValueRange carried) -> FailureOr<Carried> {
    FailureOr<Value> value = inputAt(input, place);
    if (failed(value))
      return failure();
    return join(carried, Carried{*value, placeOf(place)});
  };
  reducer.finish = [this](ValueRange best) {
    Type result = kernel.builder.getI64Type();
    return getElementTypeOrSelf(best[1].getType()) == result
               ? Value(best[1])
               : math.extendSigned(best[1], result);
  };
  return reducer;
}

LogicalResult RowEmitter::emitReduce(Operation *op) {
  Reducer reducer = reducerOf(op);
  FailureOr<Carried> values = walk(reducer.initial, reducer.name, reducer.kind,
                                   reducer.body, reducer.join);
  if (failed(values))
    return failure();
  emitter.bindValue(op->getResult(0), reducer.finish(*values));
  return success();
}

LogicalResult RowEmitter::runOneWalk() {
  startOp();
  SmallVector<Reducer> reducers;
  Carried initial;
  for (Operation *op : form.ops) {
    reducers.push_back(reducerOf(op));
    for (Value value : reducers.back().initial)
      initial.push_back(spread(value));
  }
  auto part = [&](ValueRange all, size_t which) {
    size_t begin = 0;
    for (size_t i = 0; i < which; ++i)
      begin += reducers[i].initial.size();
    return all.slice(begin, reducers[which].initial.size());
  };
  FailureOr<Carried> own =
      walkOwn(initial,
              [&](const ReductionLoop::Place &place,
                  ValueRange carried) -> FailureOr<Carried> {
                Carried next;
                for (auto [i, reducer] : llvm::enumerate(reducers)) {
                  FailureOr<Carried> values =
                      reducer.body(place, part(carried, i));
                  if (failed(values))
                    return failure();
                  llvm::append_range(next, *values);
                }
                return next;
              });
  if (failed(own))
    return failure();
  afterFirstWalk();
  SmallVector<Carried> joined;
  for (auto [i, reducer] : llvm::enumerate(reducers))
    joined.push_back(
        joinAll(part(*own, i), reducer.name, reducer.kind, reducer.join));
  if (geometry.splits > 1)
    return leavePartials(reducers, joined);
  for (auto [op, reducer, values] : llvm::zip(form.ops, reducers, joined))
    emitter.bindValue(op->getResult(0), reducer.finish(values));
  return storeResults();
}
