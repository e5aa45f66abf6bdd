//===- CumsumTopKKernels.cpp - cumsum and top_k ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"

#include "AttentionLoops.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;
using arith::CmpIPredicate;

namespace {
/// Base class of kernels that process rows along one axis.
class AxisPhase : public Phase {
public:
  AxisPhase(LoopContext &context, Value input, int64_t axis)
      : context(context), emitter(context.emitter),
        math(context.builder, context.loc, context.target),
        index{context.builder, context.loc}, input(input), axis(axis),
        shape(shapeOf(input).begin(), shapeOf(input).end()),
        elementType(getElementTypeOrSelf(input.getType())) {
    for (auto [dim, extent] : llvm::enumerate(shape))
      if (static_cast<int64_t>(dim) != axis)
        others.push_back(extent);
  }

protected:
  /// Full-rank indices from those of the other dimensions; the axis is 0.
  SmallVector<Value> expand(ArrayRef<Value> position) {
    SmallVector<Value> indices(position);
    indices.insert(indices.begin() + axis, emitter.index(0));
    return indices;
  }

  LoopContext &context;
  ElementEmitter &emitter;
  MathExpansion math;
  IndexMath index;
  Value input;
  int64_t axis;
  SmallVector<int64_t> shape, others;
  Type elementType;
};

//===----------------------------------------------------------------------===//
// cumsum
//===----------------------------------------------------------------------===//

class CumsumPhase : public AxisPhase {
public:
  CumsumPhase(LoopContext &context, CumsumOp op, Value memref)
      : AxisPhase(context, op.getInput(), op.getAxis()), op(op),
        memref(memref) {
    // Adjacent rows form vectors if the axis is not the last dimension.
    if (axis + 1 == static_cast<int64_t>(shape.size()))
      return;
    SmallVector<LaneSegment> segments = planLanes(emitter, input, shape.back());
    if (segments.size() == 1 &&
        isContiguous(emitter, input, segments.front().range))
      lanes = segments.front().lanes;
    others.back() = llvm::divideCeil(shape.back(), lanes);
  }

  PhaseCost cost() override {
    return {productOf(others), 4.0 * static_cast<double>(shape[axis])};
  }

  LogicalResult emit(Value item) override {
    SmallVector<Value> indices = expand(index.delinearize(item, others));
    if (lanes > 1)
      indices.back() =
          index.min(index.mul(indices.back(), lanes), shape.back() - lanes);
    Type type = lanesOf(carriedType(elementType), lanes);
    Value zero = isa<FloatType>(elementType) ? math.constant(type, 0)
                                             : math.integer(type, 0);
    FailureOr<Carried> sum = carryLoop(
        emitter, emitter.index(0), emitter.index(shape[axis]), 1, zero,
        [&](Value step, ValueRange carried) -> FailureOr<Carried> {
          indices[axis] = op.getReverse()
                              ? index.sub(emitter.index(shape[axis] - 1), step)
                              : step;
          FailureOr<Value> value = emitter.emit(input, indices, lanes);
          if (failed(value))
            return failure();
          Value next = isa<FloatType>(elementType)
                           ? math.add(carried[0], *value)
                           : math.addInt(carried[0], *value);
          next = emitter.round(next, elementType);
          emitter.store(op.getExclusive() ? carried[0] : next, memref, indices,
                        lanes);
          return Carried{next};
        });
    return sum;
  }

private:
  CumsumOp op;
  Value memref;
  int64_t lanes = 1;
};

//===----------------------------------------------------------------------===//
// top_k
//===----------------------------------------------------------------------===//

/// Maximum row length for ranking element by element.
constexpr int64_t kLongestRanked = 8192;

/// Order of elements, shared by both algorithms.
class OrderedPhase : public AxisPhase {
public:
  OrderedPhase(LoopContext &context, TopKOp op, Value values, Value places)
      : AxisPhase(context, op.getInput(), op.getAxis()), op(op), values(values),
        places(places) {}

protected:
  /// Returns whether x comes before y; NaN counts as larger than every number.
  Value before(Value x, Value y) {
    bool largest = op.getLargest();
    if (!isa<FloatType>(elementType)) {
      bool noSign = isUnsignedElement(elementType);
      CmpIPredicate predicate =
          noSign ? (largest ? CmpIPredicate::ugt : CmpIPredicate::ult)
                 : (largest ? CmpIPredicate::sgt : CmpIPredicate::slt);
      return math.compare(predicate, x, y);
    }
    // "Greater or unordered" also holds for a NaN on the other side: exclude
    // that.
    Value wins =
        math.compare(largest ? CmpFPredicate::UGT : CmpFPredicate::ULT, x, y);
    Value number = largest ? y : x;
    return math.bitAnd(wins, math.compare(CmpFPredicate::ORD, number, number));
  }

  TopKOp op;
  Value values, places;
};

/// Rank sort: one item per element, which counts the elements before it and
/// stores itself at that rank if it is among the best k.
class RankPhase : public OrderedPhase {
public:
  using OrderedPhase::OrderedPhase;

  PhaseCost cost() override {
    return {op.getK() == 0 ? 0 : productOf(shape),
            4.0 * static_cast<double>(shape[axis])};
  }

  LogicalResult emit(Value item) override {
    OpBuilder &b = context.builder;
    SmallVector<Value> own = index.delinearize(item, shape);
    FailureOr<Value> value = emitter.emit(input, own, 1);
    if (failed(value))
      return failure();
    FailureOr<Carried> rank =
        carryLoop(emitter, emitter.index(0), emitter.index(shape[axis]), 1,
                  emitter.index(0),
                  [&](Value position, ValueRange count) -> FailureOr<Carried> {
                    SmallVector<Value> at = own;
                    at[axis] = position;
                    FailureOr<Value> other = emitter.emit(input, at, 1);
                    if (failed(other))
                      return failure();
                    // Ties are broken by position.
                    Value earlier = index.less(position, own[axis]);
                    Value level = math.bitXor(before(*value, *other), -1);
                    Value ahead = math.bitOr(before(*other, *value),
                                             math.bitAnd(level, earlier));
                    Value next = index.add(count[0], 1);
                    return Carried{math.select(ahead, next, count[0])};
                  });
    if (failed(rank))
      return failure();
    Value place =
        arith::IndexCastOp::create(b, context.loc, b.getI64Type(), own[axis]);
    index.branch(
        index.less(rank->front(), op.getK()),
        [&] {
          SmallVector<Value> at = own;
          at[axis] = rank->front();
          emitter.store(*value, values, at, 1);
          memref::StoreOp::create(b, context.loc, place, places, at);
        },
        [] {});
    return success();
  }
};

/// Insertion sort: keeps the best k elements of a row in order in the results.
class TopKPhase : public OrderedPhase {
public:
  using OrderedPhase::OrderedPhase;

  PhaseCost cost() override {
    return {productOf(others), 10.0 * static_cast<double>(shape[axis])};
  }

  LogicalResult emit(Value item) override {
    if (op.getK() == 0)
      return success();
    LogicalResult result = success();
    SmallVector<Value> indices = expand(index.delinearize(item, others));
    index.loop(emitter.index(0), emitter.index(shape[axis]), 1,
               [&](Value position) {
                 SmallVector<Value> at = indices;
                 at[axis] = position;
                 FailureOr<Value> value = emitter.emit(input, at, 1);
                 if (failed(value)) {
                   result = failure();
                   return;
                 }
                 insert(indices, position, *value);
               });
    return result;
  }

private:
  Value loadValue(ArrayRef<Value> line, Value rank) {
    SmallVector<Value> at(line);
    at[axis] = rank;
    return emitter.load(values, elementType, at, 1);
  }

  void put(ArrayRef<Value> line, Value rank, Value value, Value place) {
    SmallVector<Value> at(line);
    at[axis] = rank;
    emitter.store(value, values, at, 1);
    memref::StoreOp::create(context.builder, context.loc, place, places, at);
  }

  void insert(ArrayRef<Value> line, Value position, Value value) {
    OpBuilder &b = context.builder;
    Location loc = context.loc;
    Value k = emitter.index(op.getK()), zero = emitter.index(0),
          one = emitter.index(1);
    Value place = arith::IndexCastOp::create(b, loc, b.getI64Type(), position);
    // The first k elements are always inserted, later ones if they beat the
    // last.
    Value room = index.less(position, k);
    auto enters =
        scf::IfOp::create(b, loc, TypeRange{b.getI1Type()}, room, true, true);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToEnd(enters.thenBlock());
      scf::YieldOp::create(b, loc, room);
      b.setInsertionPointToEnd(enters.elseBlock());
      Value last = loadValue(line, emitter.index(op.getK() - 1));
      scf::YieldOp::create(b, loc, before(value, last));
    }
    index.branch(
        enters.getResult(0),
        [&] {
          Value start = index.min(position, emitter.index(op.getK() - 1));
          // Shifts the elements after the new one by one rank.
          auto shift = scf::WhileOp::create(
              b, loc, TypeRange{b.getIndexType()}, ValueRange{start},
              [&](OpBuilder &, Location, ValueRange state) {
                Value inside = arith::CmpIOp::create(b, loc, CmpIPredicate::ugt,
                                                     state[0], zero);
                auto beats = scf::IfOp::create(b, loc, TypeRange{b.getI1Type()},
                                               inside, true, true);
                OpBuilder::InsertionGuard guard(b);
                b.setInsertionPointToEnd(beats.thenBlock());
                Value previous = loadValue(line, index.sub(state[0], one));
                scf::YieldOp::create(b, loc, before(value, previous));
                b.setInsertionPointToEnd(beats.elseBlock());
                scf::YieldOp::create(b, loc, inside);
                b.setInsertionPointAfter(beats);
                scf::ConditionOp::create(b, loc, beats.getResult(0), state);
              },
              [&](OpBuilder &, Location, ValueRange state) {
                Value from = index.sub(state[0], one);
                SmallVector<Value> at(line);
                at[axis] = from;
                Value other = memref::LoadOp::create(b, loc, places, at);
                put(line, state[0], loadValue(line, from), other);
                scf::YieldOp::create(b, loc, from);
              });
          put(line, shift.getResult(0), value, place);
        },
        [] {});
  }
};
} // namespace

std::unique_ptr<Phase> mpc::makeSequentialPhase(LoopContext &context,
                                                Operation *op,
                                                ArrayRef<Value> memrefs) {
  if (auto cumsum = dyn_cast<CumsumOp>(op))
    return std::make_unique<CumsumPhase>(context, cumsum, memrefs[0]);
  if (auto topK = dyn_cast<TopKOp>(op)) {
    int64_t extent = shapeOf(topK.getInput())[topK.getAxis()];
    if (context.target.lanes == 1 && extent <= kLongestRanked)
      return std::make_unique<RankPhase>(context, topK, memrefs[0], memrefs[1]);
    return std::make_unique<TopKPhase>(context, topK, memrefs[0], memrefs[1]);
  }
  if (auto attention = dyn_cast<AttentionOp>(op))
    return makeAttentionPhase(context, attention, memrefs[0]);
  return makeScatterPhase(context, op, memrefs[0], /*copies=*/true);
}
