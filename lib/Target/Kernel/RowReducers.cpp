//===- RowReducers.cpp - reduce ops and positions of extremes -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a reducing op carries along a row, and how two of these join.
//
//===----------------------------------------------------------------------===//

#include "RowProgram.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;
using arith::CmpIPredicate;

SmallVector<Type> mpc::partialTypes(Operation *op, int64_t length) {
  if (!isa<ArgmaxOp, ArgminOp>(op))
    return {carriedType(accumulatorType(op))};
  // Positions are carried in 32 bits where that is enough.
  bool narrow = length < std::numeric_limits<int32_t>::max();
  return {carriedType(getElementTypeOrSelf(op->getOperand(0).getType())),
          IntegerType::get(op->getContext(), narrow ? 32 : 64)};
}

RowProgram::Reducer RowProgram::reducerOf(Operation *op) {
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
  reducer.joining = isa<ReduceMaxOp>(op)   ? tile::Joining::largest
                    : isa<ReduceMinOp>(op) ? tile::Joining::least
                    : isSum                ? tile::Joining::sum
                                           : tile::Joining::any;
  reducer.body = [this, op](const Place &place, ValueRange carried) {
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

RowProgram::Reducer RowProgram::positionReducer(Operation *op, bool largest,
                                                bool selectLast) {
  Value input = op->getOperand(0);
  int64_t axis = form.axes.front();
  Type elementType = getElementTypeOrSelf(input.getType());
  SmallVector<Type> types = partialTypes(op, form.length());
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
  auto placeOf = [=, this](const Place &place) -> Value {
    Value wide = spread(arith::IndexCastOp::create(builder, loc, placeType,
                                                   place.indices[axis]),
                        place.lanes);
    auto vector = dyn_cast<VectorType>(wide.getType());
    if (form.isVertical() || !vector)
      return wide;
    SmallVector<Attribute> steps;
    for (int64_t lane = 0; lane < place.lanes; ++lane)
      steps.push_back(builder.getIntegerAttr(placeType, lane));
    return math.addInt(
        wide, arith::ConstantOp::create(builder, loc,
                                        DenseElementsAttr::get(vector, steps)));
  };
  reducer.body =
      [=, this, join = reducer.join](const Place &place,
                                     ValueRange carried) -> FailureOr<Carried> {
    FailureOr<Value> value = inputAt(input, place);
    if (failed(value))
      return failure();
    return join(carried, Carried{*value, placeOf(place)});
  };
  reducer.finish = [this](ValueRange best) {
    Type result = builder.getI64Type();
    return getElementTypeOrSelf(best[1].getType()) == result
               ? Value(best[1])
               : math.extendSigned(best[1], result);
  };
  return reducer;
}

LogicalResult RowProgram::emitReduce(Operation *op) {
  Reducer reducer = reducerOf(op);
  FailureOr<Carried> values =
      walk(op->getOperand(0), reducer.initial, reducer.name, reducer.joining,
           reducer.body, reducer.join);
  if (failed(values))
    return failure();
  emitter.bindValue(op->getResult(0), reducer.finish(*values));
  return success();
}

LogicalResult RowProgram::emitOneWalk() {
  startOp();
  SmallVector<Reducer> reducers;
  Carried initial;
  LaneSegment all = segments({}).front();
  for (Operation *op : form.ops) {
    reducers.push_back(reducerOf(op));
    for (Value value : reducers.back().initial)
      initial.push_back(spread(value, all.lanes));
  }
  auto part = [&](ValueRange values, size_t which) {
    size_t begin = 0;
    for (size_t i = 0; i < which; ++i)
      begin += reducers[i].initial.size();
    return values.slice(begin, reducers[which].initial.size());
  };
  FailureOr<Carried> own = walkSegment(
      all, initial,
      [&](const Place &place, ValueRange carried) -> FailureOr<Carried> {
        Carried next;
        for (auto [i, reducer] : llvm::enumerate(reducers)) {
          FailureOr<Carried> values = reducer.body(place, part(carried, i));
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
    joined.push_back(joinMembers(part(*own, i), reducer.initial, reducer.name,
                                 reducer.joining, reducer.join));
  for (auto [op, reducer, values] : llvm::zip(form.ops, reducers, joined))
    emitter.bindValue(op->getResult(0), reducer.finish(values));
  return success();
}
