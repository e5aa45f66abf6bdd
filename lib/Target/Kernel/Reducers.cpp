//===- Reducers.cpp - sums, products, extrema and argmax ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Reducers.h"

#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;
using arith::CmpIPredicate;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Type mpc::accumulatorType(Operation *op) {
  return cast<ReductionOpInterface>(op).getAccumulateType();
}

/// Returns a value of `type` that every element is at least as large (small)
/// as.
static Value beyond(ValueMath &math, Type type, Type elementType,
                    bool largest) {
  if (isa<FloatType>(type)) {
    double infinity = std::numeric_limits<double>::infinity();
    return math.constant(type, largest ? -infinity : infinity);
  }
  unsigned width = type.getIntOrFloatBitWidth();
  APInt end =
      isUnsignedElement(elementType)
          ? (largest ? APInt::getMinValue(width) : APInt::getMaxValue(width))
          : (largest ? APInt::getSignedMinValue(width)
                     : APInt::getSignedMaxValue(width));
  return math.integer(type, end.getSExtValue());
}

/// Returns the identity of a sum, product, maximum or minimum in `type`.
static Value reductionIdentity(ValueMath &math, Operation *op, Type type,
                               Type elementType) {
  bool isFloat = isa<FloatType>(type);
  if (isa<ReduceProdOp>(op))
    return isFloat ? math.constant(type, 1) : math.integer(type, 1);
  if (!op->hasTrait<Exact>())
    return isFloat ? math.constant(type, 0) : math.integer(type, 0);
  return beyond(math, type, elementType, isa<ReduceMaxOp>(op));
}

/// Applies the op to accumulators.
static Value reductionStep(ValueMath &math, Operation *op, Value x, Value y,
                           Type elementType) {
  OpBuilder &b = math.getBuilder();
  Location loc = math.getLoc();
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(x.getType()));
  if (isa<ReduceProdOp>(op))
    return isFloat ? math.mul(x, y)
                   : Value(arith::MulIOp::create(b, loc, x, y));
  if (op->hasTrait<Exact>()) {
    bool largest = isa<ReduceMaxOp>(op);
    if (isFloat)
      return largest ? Value(arith::MaximumFOp::create(b, loc, x, y))
                     : Value(arith::MinimumFOp::create(b, loc, x, y));
    if (elementType.isInteger(1))
      return largest ? math.bitOr(x, y) : math.bitAnd(x, y);
    if (isUnsignedElement(elementType))
      return largest ? Value(arith::MaxUIOp::create(b, loc, x, y))
                     : Value(arith::MinUIOp::create(b, loc, x, y));
    return largest ? Value(arith::MaxSIOp::create(b, loc, x, y))
                   : Value(arith::MinSIOp::create(b, loc, x, y));
  }
  return isFloat ? math.add(x, y) : math.addInt(x, y);
}

Value mpc::toAccumulator(ValueMath &math, Value value, Type accumulator) {
  Type scalar = carriedType(accumulator);
  if (scalar.isF64() && getElementTypeOrSelf(value.getType()).isF32())
    return math.extendFloat(value, scalar);
  return value;
}

/// One step of a reduce op at a position of its input.
static FailureOr<Carried> accumulateAt(ElementEmitter &emitter, Operation *op,
                                       const ReductionLoop::Place &place,
                                       ValueRange sums) {
  Value input = op->getOperand(0);
  Type elementType = getElementTypeOrSelf(input.getType()),
       accumulator = accumulatorType(op);
  FailureOr<Value> value =
      emitter.emitIn(input, place.indices, place.lanes, place.range);
  if (failed(value))
    return failure();
  ValueMath math(emitter.getBuilder(), emitter.getLoc());
  Value element = toAccumulator(math, *value, accumulator);
  if (place.keep) {
    Value scalar = reductionIdentity(
        math, op, getElementTypeOrSelf(element.getType()), elementType);
    Value identity = vector::BroadcastOp::create(
        emitter.getBuilder(), emitter.getLoc(), element.getType(), scalar);
    element = math.select(place.keep, element, identity);
  }
  Value sum = reductionStep(math, op, sums.front(), element, elementType);
  if (!op->hasTrait<Exact>())
    sum = emitter.round(sum, accumulator);
  return Carried(1, sum);
}

Value mpc::finishReduction(ElementEmitter &emitter, Operation *op, Value sum) {
  ValueMath math(emitter.getBuilder(), emitter.getLoc());
  Type accumulator = accumulatorType(op);
  Type elementType = getElementTypeOrSelf(op->getResult(0).getType());
  int64_t count = cast<ReductionOpInterface>(op).getReductionSize();
  if (isa<ReduceMeanOp>(op)) {
    if (isa<FloatType>(elementType)) {
      sum = emitter.round(math.div(sum, math.constant(sum.getType(), count)),
                          accumulator);
    } else if (getElementTypeOrSelf(sum.getType()).getIntOrFloatBitWidth() >
               1) {
      Value divisor = math.integer(sum.getType(), std::max<int64_t>(count, 1));
      OpBuilder &b = emitter.getBuilder();
      sum =
          isUnsignedElement(elementType)
              ? Value(arith::DivUIOp::create(b, emitter.getLoc(), sum, divisor))
              : Value(
                    arith::DivSIOp::create(b, emitter.getLoc(), sum, divisor));
    } else if (count > 1) {
      sum = math.integer(sum.getType(), 0);
    }
  }
  if (getElementTypeOrSelf(sum.getType()).isF64() && !elementType.isF64())
    sum = elementType.isF32() ? math.truncateFloat(sum, elementType)
                              : math.truncateToOdd(sum);
  return emitter.round(sum, elementType);
}

/// Returns the reducer of a reduce op.
static Reducer numberReducer(ElementEmitter &emitter, Operation *op) {
  Type elementType = getElementTypeOrSelf(op->getOperand(0).getType()),
       accumulator = accumulatorType(op);
  bool isSum = op->hasTrait<SumsElements>() && accumulator.isF32();
  ValueMath math(emitter.getBuilder(), emitter.getLoc());
  Reducer reducer;
  reducer.initial = {
      reductionIdentity(math, op, carriedType(accumulator), elementType)};
  reducer.name = isa<ReduceMaxOp>(op)    ? "largest"
                 : isa<ReduceMinOp>(op)  ? "least"
                 : isa<ReduceProdOp>(op) ? "product"
                                         : "sum";
  reducer.joining = isa<ReduceMaxOp>(op)   ? tile::NamedReduction::largest
                    : isa<ReduceMinOp>(op) ? tile::NamedReduction::least
                    : isSum                ? tile::NamedReduction::sum
                                           : tile::NamedReduction::any;
  reducer.body = [&emitter, op](const ReductionLoop::Place &place,
                                ValueRange carried) {
    return accumulateAt(emitter, op, place, carried);
  };
  reducer.join = [=, &emitter](ValueRange x, ValueRange y) mutable {
    Value sum = reductionStep(math, op, x[0], y[0], elementType);
    return Carried{op->hasTrait<Exact>() ? sum
                                         : emitter.round(sum, accumulator)};
  };
  reducer.finish = [&emitter, op](ValueRange sums) {
    return finishReduction(emitter, op, sums.front());
  };
  return reducer;
}

//===----------------------------------------------------------------------===//
// argmax and argmin
//===----------------------------------------------------------------------===//

namespace {

/// argmax and argmin: the extremum so far and its position.
class Position {
public:
  Position(ElementEmitter &emitter, Operation *op)
      : emitter(emitter), math(emitter.getBuilder(), emitter.getLoc()), op(op),
        largest(isa<ArgmaxOp>(op)),
        selectLast(largest ? cast<ArgmaxOp>(op).getSelectLast()
                           : cast<ArgminOp>(op).getSelectLast()),
        axis(cast<ReductionOpInterface>(op).getReductionAxes().front()),
        elementType(getElementTypeOrSelf(op->getOperand(0).getType())) {}

  /// No element is worse. A thread whose elements all equal this keeps position
  /// 0: position 0 has such an element too if the thread wins, and among equals
  /// the last is taken.
  Carried initial() {
    SmallVector<Type> types =
        partialTypes(op, shapeOf(op->getOperand(0))[axis]);
    return {beyond(math, types[0], elementType, largest),
            math.integer(types[1], 0)};
  }

  /// A thread visits its elements in ascending order.
  FailureOr<Carried> take(const ReductionLoop::Place &place, ValueRange best) {
    FailureOr<Value> value = emitter.emitIn(op->getOperand(0), place.indices,
                                            place.lanes, place.range);
    if (failed(value))
      return failure();
    Value take =
        selectLast ? negate(before(best[0], *value)) : before(*value, best[0]);
    return Carried{math.select(take, *value, best[0]),
                   math.select(take, placeOf(place, best[1]), best[1])};
  }

  Carried join(ValueRange x, ValueRange y) {
    Value later = math.compare(
        selectLast ? CmpIPredicate::sgt : CmpIPredicate::slt, y[1], x[1]);
    Value tie = math.bitAnd(negate(before(x[0], y[0])), later);
    Value take = math.bitOr(before(y[0], x[0]), tie);
    return {math.select(take, y[0], x[0]), math.select(take, y[1], x[1])};
  }

  Value finish(ValueRange best) {
    Type result = math.getBuilder().getI64Type();
    return getElementTypeOrSelf(best[1].getType()) == result
               ? Value(best[1])
               : math.extendSigned(best[1], result);
  }

private:
  /// Returns whether x is better than y; NaN is better than numbers.
  Value before(Value x, Value y) {
    if (isa<FloatType>(elementType)) {
      Value wins =
          math.compare(largest ? CmpFPredicate::UGT : CmpFPredicate::ULT, x, y);
      return math.bitAnd(wins, math.compare(CmpFPredicate::ORD, y, y));
    }
    return math.compare(
        isUnsignedElement(elementType)
            ? (largest ? CmpIPredicate::ugt : CmpIPredicate::ult)
            : (largest ? CmpIPredicate::sgt : CmpIPredicate::slt),
        x, y);
  }
  Value negate(Value condition) {
    return math.bitXor(condition, math.integer(condition.getType(), -1));
  }

  /// Returns the positions of the elements at `place`, in the type of `like`.
  Value placeOf(const ReductionLoop::Place &place, Value like) {
    OpBuilder &builder = math.getBuilder();
    Location loc = math.getLoc();
    Type type = getElementTypeOrSelf(like.getType());
    Value start =
        arith::IndexCastOp::create(builder, loc, type, place.indices[axis]);
    auto vector = dyn_cast<VectorType>(like.getType());
    if (!vector)
      return start;
    start = vector::BroadcastOp::create(builder, loc, vector, start);
    if (axis + 1 != static_cast<int64_t>(place.indices.size()))
      return start;
    SmallVector<Attribute> steps;
    for (int64_t lane = 0; lane < place.lanes; ++lane)
      steps.push_back(builder.getIntegerAttr(type, lane));
    return math.addInt(
        start, arith::ConstantOp::create(
                   builder, loc, DenseElementsAttr::get(vector, steps)));
  }

  ElementEmitter &emitter;
  ValueMath math;
  Operation *op;
  bool largest, selectLast;
  int64_t axis;
  Type elementType;
};

} // namespace

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

bool mpc::isReducing(Operation *op) {
  return op->hasTrait<ReducesRows>() || isa<ArgmaxOp, ArgminOp>(op);
}

SmallVector<Type> mpc::partialTypes(Operation *op, int64_t length) {
  if (!isa<ArgmaxOp, ArgminOp>(op))
    return {carriedType(accumulatorType(op))};
  // Positions are 32-bit if that is enough.
  bool narrow = length < std::numeric_limits<int32_t>::max();
  return {carriedType(getElementTypeOrSelf(op->getOperand(0).getType())),
          IntegerType::get(op->getContext(), narrow ? 32 : 64)};
}

Reducer mpc::reducerOf(ElementEmitter &emitter, Operation *op) {
  if (!isa<ArgmaxOp, ArgminOp>(op))
    return numberReducer(emitter, op);
  auto position = std::make_shared<Position>(emitter, op);
  return {position->initial(),
          isa<ArgmaxOp>(op) ? "largest" : "least",
          tile::NamedReduction::any,
          [=](const ReductionLoop::Place &place, ValueRange best) {
            return position->take(place, best);
          },
          [=](ValueRange x, ValueRange y) { return position->join(x, y); },
          [=](ValueRange best) { return position->finish(best); }};
}
