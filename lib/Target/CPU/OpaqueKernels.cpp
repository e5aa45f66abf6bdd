//===- OpaqueKernels.cpp - cumsum, top_k, scatters ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoopKernels.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;
using arith::CmpIPredicate;

static bool isUnsignedElement(Type type) {
  return type.isUnsignedInteger() || type.isInteger(1);
}

namespace {
/// Kernels that go along lines of one axis: what they share.
class LinePhase : public Phase {
public:
  LinePhase(LoopContext &context, Value input, int64_t axis)
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

class CumsumPhase : public LinePhase {
public:
  CumsumPhase(LoopContext &context, CumsumOp op, Value memref)
      : LinePhase(context, op.getInput(), op.getAxis()), op(op),
        memref(memref) {
    // Lines side by side form vectors where the axis is not the last dimension.
    if (axis + 1 == static_cast<int64_t>(shape.size()))
      return;
    SmallVector<LaneSegment> segments = planLanes(emitter, input, shape.back());
    if (segments.size() == 1 &&
        emitter.isContiguous(input, segments.front().range))
      lanes = segments.front().lanes;
    others.back() = llvm::divideCeil(shape.back(), lanes);
  }

  PhaseCost cost() override {
    return {productOf(others), 4.0 * static_cast<double>(shape[axis])};
  }

  LogicalResult emit(Value begin, Value end) override {
    LogicalResult result = success();
    index.loop(begin, end, 1, [&](Value item) {
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
            indices[axis] =
                op.getReverse()
                    ? index.sub(emitter.index(shape[axis] - 1), step)
                    : step;
            FailureOr<Value> value = emitter.emit(input, indices, lanes);
            if (failed(value))
              return failure();
            Value next = isa<FloatType>(elementType)
                             ? math.add(carried[0], *value)
                             : math.addInt(carried[0], *value);
            next = emitter.round(next, elementType);
            emitter.store(op.getExclusive() ? carried[0] : next, memref,
                          indices, lanes);
            return Carried{next};
          });
      if (failed(sum))
        result = failure();
    });
    return result;
  }

private:
  CumsumOp op;
  Value memref;
  int64_t lanes = 1;
};

//===----------------------------------------------------------------------===//
// top_k
//===----------------------------------------------------------------------===//

/// Keeps the best k elements of a line in order, by insertion into the results.
class TopKPhase : public LinePhase {
public:
  TopKPhase(LoopContext &context, TopKOp op, Value values, Value places)
      : LinePhase(context, op.getInput(), op.getAxis()), op(op), values(values),
        places(places) {}

  PhaseCost cost() override {
    return {productOf(others), 10.0 * static_cast<double>(shape[axis])};
  }

  LogicalResult emit(Value begin, Value end) override {
    if (op.getK() == 0)
      return success();
    LogicalResult result = success();
    index.loop(begin, end, 1, [&](Value item) {
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
    });
    return result;
  }

private:
  /// Whether x comes before y; NaN counts as larger than every number.
  Value before(Value x, Value y) {
    bool largest = op.getLargest();
    if (!isa<FloatType>(elementType)) {
      bool noSign = isUnsignedElement(elementType);
      CmpIPredicate predicate =
          noSign ? (largest ? CmpIPredicate::ugt : CmpIPredicate::ult)
                 : (largest ? CmpIPredicate::sgt : CmpIPredicate::slt);
      return math.compare(predicate, x, y);
    }
    // "Greater or unordered" also holds for a NaN on the other side: that is
    // cut out.
    Value wins =
        math.compare(largest ? CmpFPredicate::UGT : CmpFPredicate::ULT, x, y);
    Value number = largest ? y : x;
    return math.bitAnd(wins, math.compare(CmpFPredicate::ORD, number, number));
  }

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
    // The first k elements always enter, later ones when they beat the last.
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
          // Moves what comes after the new element one rank down.
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

  TopKOp op;
  Value values, places;
};

//===----------------------------------------------------------------------===//
// Scatters
//===----------------------------------------------------------------------===//

/// Copies the input and applies the updates in order: one item.
class ScatterPhase : public Phase {
public:
  ScatterPhase(LoopContext &context, Operation *op, Value memref)
      : context(context), emitter(context.emitter),
        math(context.builder, context.loc, context.target),
        index{context.builder, context.loc}, op(op), memref(memref),
        elementType(getElementTypeOrSelf(op->getResult(0).getType())) {}

  PhaseCost cost() override {
    return {1, 10.0 * static_cast<double>(elementCount(op->getResult(0)))};
  }

  LogicalResult emit(Value, Value) override {
    std::unique_ptr<Phase> copy =
        makeMapPhase(context, Root{op->getOperand(0), memref});
    if (failed(copy->emit(emitter.index(0), emitter.index(copy->cost().items))))
      return failure();
    return isa<ScatterNdOp>(op) ? emitNd() : emitElements();
  }

private:
  Value table() { return op->getOperand(1); }
  Value updates() { return op->getOperand(2); }

  /// An index read from the table and whether it is inside `extent`.
  FailureOr<std::pair<Value, Value>> position(ValueRange at, int64_t extent) {
    FailureOr<Value> raw = emitter.emit(table(), at, 1);
    if (failed(raw))
      return failure();
    Value place = emitter.normalizeIndex(*raw, extent, /*clamp=*/false);
    return std::pair(place, index.less(place, extent));
  }

  LogicalResult emitElements() {
    auto scatter = cast<ScatterElementsOp>(op);
    ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
    LogicalResult result = success();
    index.loop(elementCount(updates()), [&](Value item) {
      SmallVector<Value> from = index.delinearize(item, shapeOf(table())),
                         to = from;
      auto place = position(from, shape[scatter.getAxis()]);
      if (failed(place)) {
        result = failure();
        return;
      }
      to[scatter.getAxis()] = place->first;
      Value inside = place->second;
      for (auto [dim, extent] : llvm::enumerate(shape))
        if (dim != scatter.getAxis() && shapeOf(table())[dim] > extent)
          inside = math.bitAnd(inside, index.less(to[dim], extent));
      if (failed(join(inside, from, to, scatter.getReduction())))
        result = failure();
    });
    return result;
  }

  LogicalResult emitNd() {
    auto scatter = cast<ScatterNdOp>(op);
    ArrayRef<int64_t> shape = shapeOf(op->getResult(0)),
                      tableShape = shapeOf(table());
    int64_t tuple = tableShape.back();
    ArrayRef<int64_t> outer = tableShape.drop_back(),
                      inner = shape.drop_front(tuple);
    LogicalResult result = success();
    index.loop(productOf(outer), [&](Value item) {
      SmallVector<Value> from = index.delinearize(item, outer), at = from, to;
      at.push_back({});
      Value inside;
      for (int64_t i = 0; i < tuple; ++i) {
        at.back() = emitter.index(i);
        auto place = position(at, shape[i]);
        if (failed(place)) {
          result = failure();
          return;
        }
        to.push_back(place->first);
        inside = inside ? math.bitAnd(inside, place->second) : place->second;
      }
      if (!inside)
        inside = math.integer(context.builder.getI1Type(), 1);
      index.loop(productOf(inner), [&](Value position) {
        SmallVector<Value> rest = index.delinearize(position, inner),
                           source = from, target = to;
        llvm::append_range(source, rest);
        llvm::append_range(target, rest);
        if (failed(join(inside, source, target, scatter.getReduction())))
          result = failure();
      });
    });
    return result;
  }

  /// Joins the update at `from` to the element at `to`, if `inside`.
  LogicalResult join(Value inside, ArrayRef<Value> from, ArrayRef<Value> to,
                     ScatterReduction reduction) {
    LogicalResult result = success();
    index.branch(
        inside,
        [&] {
          FailureOr<Value> update = emitter.emit(updates(), from, 1);
          if (failed(update)) {
            result = failure();
            return;
          }
          Value joined = *update;
          if (reduction != ScatterReduction::none)
            joined = combine(emitter.load(memref, elementType, to, 1), *update,
                             reduction);
          emitter.store(joined, memref, to, 1);
        },
        [] {});
    return result;
  }

  Value combine(Value old, Value update, ScatterReduction reduction) {
    OpBuilder &b = context.builder;
    Location loc = context.loc;
    bool isFloat = isa<FloatType>(elementType),
         noSign = isUnsignedElement(elementType);
    switch (reduction) {
    case ScatterReduction::none:
      return update;
    case ScatterReduction::add:
      return emitter.round(isFloat ? math.add(old, update)
                                   : math.addInt(old, update),
                           elementType);
    case ScatterReduction::mul:
      return emitter.round(
          isFloat ? math.mul(old, update)
                  : Value(arith::MulIOp::create(b, loc, old, update)),
          elementType);
    case ScatterReduction::max:
      if (isFloat)
        return arith::MaximumFOp::create(b, loc, old, update);
      return noSign ? Value(arith::MaxUIOp::create(b, loc, old, update))
                    : Value(arith::MaxSIOp::create(b, loc, old, update));
    case ScatterReduction::min:
      if (isFloat)
        return arith::MinimumFOp::create(b, loc, old, update);
      return noSign ? Value(arith::MinUIOp::create(b, loc, old, update))
                    : Value(arith::MinSIOp::create(b, loc, old, update));
    }
    return update;
  }

  LoopContext &context;
  ElementEmitter &emitter;
  MathExpansion math;
  IndexMath index;
  Operation *op;
  Value memref;
  Type elementType;
};
} // namespace

std::unique_ptr<Phase> mpc::makeOpaquePhase(LoopContext &context, Operation *op,
                                            ArrayRef<Value> memrefs) {
  if (auto cumsum = dyn_cast<CumsumOp>(op))
    return std::make_unique<CumsumPhase>(context, cumsum, memrefs[0]);
  if (auto topK = dyn_cast<TopKOp>(op))
    return std::make_unique<TopKPhase>(context, topK, memrefs[0], memrefs[1]);
  return std::make_unique<ScatterPhase>(context, op, memrefs[0]);
}
