//===- Reducers.cpp - sums, products, extrema and argmax ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoopKernels.h"

#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using arith::CmpIPredicate;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Type mpc::accumulatorType(Operation *op) {
  return cast<ReductionOpInterface>(op).getAccumulateType();
}

/// Returns the identity of a sum, product, maximum or minimum in `type`.
static Value reductionIdentity(ValueMath &math, Operation *op, Type type,
                               Type elementType) {
  if (!op->hasTrait<Exact>())
    return math.constant(type, isa<ReduceProdOp>(op) ? 1 : 0);
  return math.extremumIdentity(type, isa<ReduceMaxOp>(op),
                               isUnsignedElement(elementType));
}

/// Applies the op to accumulators.
static Value reductionStep(ValueMath &math, Operation *op, Value x, Value y,
                           Type elementType) {
  if (!op->hasTrait<Exact>())
    return isa<ReduceProdOp>(op) ? math.mul(x, y) : math.add(x, y);
  return math.extremum(x, y, isa<ReduceMaxOp>(op),
                       isUnsignedElement(elementType));
}

Value mpc::toAccumulator(ValueMath &math, Value value, Type accumulator) {
  Type scalar = carriedType(accumulator);
  if (scalar.isF64() && getElementTypeOrSelf(value.getType()).isF32())
    return math.extendFloat(value, scalar);
  return value;
}

/// One step of a reduce op at a position of its input.
static Carried accumulateAt(ElementEmitter &emitter, Operation *op,
                            const Reducer::Place &place, ValueRange sums) {
  Value input = op->getOperand(0);
  Type elementType = getElementTypeOrSelf(input.getType()),
       accumulator = accumulatorType(op);
  Value value = emitter.valueIn(input, place.indices, place.lanes, place.range);
  MathExpansion math = emitter.math();
  Value element = toAccumulator(math, value, accumulator);
  if (place.keep) {
    Value identity = reductionIdentity(
        math, op, getElementTypeOrSelf(element.getType()), elementType);
    element =
        math.select(place.keep, element, math.splat(identity, place.lanes));
  }
  Value sum = reductionStep(math, op, sums.front(), element, elementType);
  if (!op->hasTrait<Exact>())
    sum = emitter.round(sum, accumulator);
  return {sum};
}

Value mpc::finishReduction(ElementEmitter &emitter, Operation *op, Value sum) {
  MathExpansion math = emitter.math();
  Type accumulator = accumulatorType(op);
  Type elementType = getElementTypeOrSelf(op->getResult(0).getType());
  int64_t count = cast<ReductionOpInterface>(op).getReductionSize();
  if (isa<ReduceMeanOp>(op)) {
    if (isa<FloatType>(elementType))
      sum = emitter.round(math.div(sum, math.constant(sum.getType(), count)),
                          accumulator);
    else if (getElementTypeOrSelf(sum.getType()).getIntOrFloatBitWidth() > 1)
      sum = math.div(sum,
                     math.constant(sum.getType(), std::max<int64_t>(count, 1)),
                     isUnsignedElement(elementType));
    else if (count > 1)
      sum = math.integer(sum.getType(), 0);
  }
  return emitter.round(math.narrowDouble(sum, elementType), elementType);
}

/// Returns the reducer of a reduce op.
static Reducer numberReducer(ElementEmitter &emitter, Operation *op) {
  Type elementType = getElementTypeOrSelf(op->getOperand(0).getType()),
       accumulator = accumulatorType(op);
  bool isSum = op->hasTrait<SumsElements>() && accumulator.isF32();
  MathExpansion math = emitter.math();
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
  reducer.body = [&emitter, op](const Reducer::Place &place,
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
      : emitter(emitter), math(emitter.math()), op(op),
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
    return {math.extremumIdentity(types[0], largest,
                                  isUnsignedElement(elementType)),
            math.integer(types[1], 0)};
  }

  /// A thread visits its elements in ascending order.
  Carried take(const Reducer::Place &place, ValueRange best) {
    Value value = emitter.valueIn(op->getOperand(0), place.indices, place.lanes,
                                  place.range);
    Value take =
        selectLast ? negate(before(best[0], value)) : before(value, best[0]);
    return {math.select(take, value, best[0]),
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
  /// Returns whether x is better than y.
  Value before(Value x, Value y) {
    return isBefore(math, x, y, largest, isUnsignedElement(elementType),
                    /*nanFirst=*/true);
  }
  Value negate(Value condition) { return math.bitXor(condition, -1); }

  /// Returns the positions of the elements at `place`, in the type of `like`.
  Value placeOf(const Reducer::Place &place, Value like) {
    Value start = math.castIndex(place.indices[axis],
                                 getElementTypeOrSelf(like.getType()));
    return axis + 1 == static_cast<int64_t>(place.indices.size())
               ? math.countFrom(start, place.lanes)
               : math.splat(start, place.lanes);
  }

  ElementEmitter &emitter;
  MathExpansion math;
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
          [=](const Reducer::Place &place, ValueRange best) {
            return position->take(place, best);
          },
          [=](ValueRange x, ValueRange y) { return position->join(x, y); },
          [=](ValueRange best) { return position->finish(best); }};
}
