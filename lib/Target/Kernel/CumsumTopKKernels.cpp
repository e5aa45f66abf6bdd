//===- CumsumTopKKernels.cpp - cumsum and top_k ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"

#include "LoopKernels.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using arith::CmpIPredicate;

namespace {
/// Base class of kernels that process rows along one axis.
class AxisPhase : public Phase {
public:
  AxisPhase(LoopContext &context, Value input, int64_t axis)
      : Phase(context), input(input), axis(axis),
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

  void emit(Value item) override {
    SmallVector<Value> indices = expand(index.delinearize(item, others));
    if (lanes > 1)
      indices.back() =
          index.min(index.mul(indices.back(), lanes), shape.back() - lanes);
    Value zero = math.constant(lanesOf(carriedType(elementType), lanes), 0);
    index.carry(emitter.index(0), emitter.index(shape[axis]), 1, zero,
                [&](Value step, ValueRange carried) {
                  indices[axis] =
                      op.getReverse()
                          ? index.sub(emitter.index(shape[axis] - 1), step)
                          : step;
                  Value value = emitter.value(input, indices, lanes);
                  Value next =
                      emitter.round(math.add(carried[0], value), elementType);
                  emitter.store(op.getExclusive() ? carried[0] : next, memref,
                                indices, lanes);
                  return Carried{next};
                });
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
  /// Returns whether x comes before y.
  Value before(Value x, Value y) {
    return isBefore(math, x, y, op.getLargest(), isUnsignedElement(elementType),
                    /*nanFirst=*/false);
  }
  /// Stores `value`, from position `place`, at rank `rank` of the row `line`.
  void put(ArrayRef<Value> line, Value rank, Value value, Value place) {
    SmallVector<Value> at(line);
    at[axis] = rank;
    emitter.store(value, values, at, 1);
    index.store(place, places, at);
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

  void emit(Value item) override {
    SmallVector<Value> own = index.delinearize(item, shape);
    Value value = emitter.value(input, own, 1);
    Value rank =
        index.carry(emitter.index(0), emitter.index(shape[axis]), 1,
                    emitter.index(0), [&](Value position, ValueRange count) {
                      SmallVector<Value> at = own;
                      at[axis] = position;
                      Value other = emitter.value(input, at, 1);
                      // Ties are broken by position.
                      Value earlier = index.less(position, own[axis]);
                      Value level = math.bitXor(before(value, other), -1);
                      Value ahead = math.bitOr(before(other, value),
                                               math.bitAnd(level, earlier));
                      Value next = index.add(count[0], 1);
                      return Carried{math.select(ahead, next, count[0])};
                    })[0];
    Value place = math.castIndex(own[axis], builder.getI64Type());
    index.branch(index.less(rank, op.getK()),
                 [&] { put(own, rank, value, place); });
  }
};

/// Insertion sort: keeps the best k elements of a row in order in the results.
class TopKPhase : public OrderedPhase {
public:
  using OrderedPhase::OrderedPhase;

  PhaseCost cost() override {
    return {productOf(others), 10.0 * static_cast<double>(shape[axis])};
  }

  void emit(Value item) override {
    if (op.getK() == 0)
      return;
    SmallVector<Value> indices = expand(index.delinearize(item, others));
    index.loop(emitter.index(0), emitter.index(shape[axis]), 1,
               [&](Value position) {
                 SmallVector<Value> at = indices;
                 at[axis] = position;
                 insert(indices, position, emitter.value(input, at, 1));
               });
  }

private:
  Value loadValue(ArrayRef<Value> line, Value rank) {
    SmallVector<Value> at(line);
    at[axis] = rank;
    return emitter.load(values, elementType, at, 1);
  }

  void insert(ArrayRef<Value> line, Value position, Value value) {
    Value k = emitter.index(op.getK()), zero = emitter.index(0),
          one = emitter.index(1);
    Type flag = builder.getI1Type();
    Value place = math.castIndex(position, builder.getI64Type());
    // The first k elements are always inserted, later ones if they beat the
    // last.
    Value room = index.less(position, k);
    Value enters = index.choose(
        room, flag, [&] { return Carried{room}; },
        [&] {
          Value last = loadValue(line, emitter.index(op.getK() - 1));
          return Carried{before(value, last)};
        })[0];
    index.branch(enters, [&] {
      Value start = index.min(position, emitter.index(op.getK() - 1));
      // Shifts the elements after the new one by one rank.
      auto shift = scf::WhileOp::create(
          builder, loc, TypeRange{builder.getIndexType()}, ValueRange{start},
          [&](OpBuilder &, Location, ValueRange state) {
            Value inside = math.compare(CmpIPredicate::ugt, state[0], zero);
            Value beats = index.choose(
                inside, flag,
                [&] {
                  Value previous = loadValue(line, index.sub(state[0], one));
                  return Carried{before(value, previous)};
                },
                [&] { return Carried{inside}; })[0];
            scf::ConditionOp::create(builder, loc, beats, state);
          },
          [&](OpBuilder &, Location, ValueRange state) {
            Value from = index.sub(state[0], one);
            SmallVector<Value> at(line);
            at[axis] = from;
            Value other = index.load(places, at);
            put(line, state[0], loadValue(line, from), other);
            scf::YieldOp::create(builder, loc, from);
          });
      put(line, shift.getResult(0), value, place);
    });
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
    if (context.emitter.getTarget().lanes == 1 && extent <= kLongestRanked)
      return std::make_unique<RankPhase>(context, topK, memrefs[0], memrefs[1]);
    return std::make_unique<TopKPhase>(context, topK, memrefs[0], memrefs[1]);
  }
  if (auto attention = dyn_cast<AttentionOp>(op))
    return makeAttentionPhase(context, attention, memrefs[0]);
  return makeScatterPhase(context, op, memrefs[0], /*copies=*/true);
}
