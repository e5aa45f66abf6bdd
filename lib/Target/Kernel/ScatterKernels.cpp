//===- ScatterKernels.cpp - scatter_elements and scatter_nd ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"

#include "LastDimensionRules.h"

using namespace mlir;
using namespace mpc;

namespace {
/// Copies the input and applies the updates in order. Updates conflict only
/// along the axis (scatter_nd: the dimensions that tuples index), so every
/// position along the others is an item of its own unless elements are vectors;
/// else there is one item.
class ScatterPhase : public Phase {
public:
  ScatterPhase(LoopContext &context, Operation *op, Value memref, bool copies)
      : copies(copies), context(context), emitter(context.emitter),
        math(context.builder, context.loc, context.target),
        index{context.builder, context.loc}, op(op), memref(memref),
        elementType(getElementTypeOrSelf(op->getResult(0).getType())) {}

  PhaseCost cost() override {
    double all = 10.0 * static_cast<double>(elementCount(op->getResult(0)));
    if (context.target.lanes > 1)
      return {1, all};
    int64_t lines = productOf(lineShape());
    return {lines, all / static_cast<double>(std::max<int64_t>(lines, 1))};
  }

  LogicalResult emit(Value item) override {
    if (context.target.lanes == 1)
      return isa<ScatterNdOp>(op) ? emitNdLine(item) : emitElementsLine(item);
    std::unique_ptr<Phase> copy =
        makeMapPhase(context, Root{op->getOperand(0), memref});
    LogicalResult result = success();
    index.loop(emitter.index(0), emitter.index(copy->cost().items), 1,
               [&](Value item) { result = copy->emit(item); });
    if (failed(result))
      return failure();
    return isa<ScatterNdOp>(op) ? emitNd() : emitElements();
  }

private:
  Value table() { return op->getOperand(1); }
  Value updates() { return op->getOperand(2); }

  /// The extents along which updates do not conflict.
  SmallVector<int64_t> lineShape() {
    SmallVector<int64_t> shape(shapeOf(op->getResult(0)));
    if (auto scatter = dyn_cast<ScatterElementsOp>(op))
      shape.erase(shape.begin() + scatter.getAxis());
    else
      shape.erase(shape.begin(), shape.begin() + shapeOf(table()).back());
    return shape;
  }

  /// Copies one element of the input.
  LogicalResult copy(ArrayRef<Value> at) {
    FailureOr<Value> value = emitter.emit(op->getOperand(0), at, 1);
    if (failed(value))
      return failure();
    emitter.store(*value, memref, at, 1);
    return success();
  }

  LogicalResult emitElementsLine(Value item) {
    auto scatter = cast<ScatterElementsOp>(op);
    size_t axis = scatter.getAxis();
    ArrayRef<int64_t> shape = shapeOf(op->getResult(0)),
                      tableShape = shapeOf(table());
    SmallVector<Value> from = index.delinearize(item, lineShape());
    from.insert(from.begin() + axis, emitter.index(0));
    LogicalResult result = success();
    if (copies)
      index.loop(emitter.index(0), emitter.index(shape[axis]), 1,
                 [&](Value position) {
                   from[axis] = position;
                   result = copy(from);
                 });
    if (failed(result))
      return failure();
    Value inTable = math.integer(context.builder.getI1Type(), 1);
    for (auto [dim, extent] : llvm::enumerate(tableShape))
      if (dim != axis && extent < shape[dim])
        inTable = math.bitAnd(inTable, index.less(from[dim], extent));
    index.branch(
        inTable,
        [&] {
          index.loop(emitter.index(0), emitter.index(tableShape[axis]), 1,
                     [&](Value number) {
                       from[axis] = number;
                       SmallVector<Value> to = from;
                       auto place = position(from, shape[axis]);
                       if (failed(place)) {
                         result = failure();
                         return;
                       }
                       to[axis] = place->first;
                       result = join(place->second, from, to,
                                     scatter.getReduction());
                     });
        },
        [] {});
    return result;
  }

  LogicalResult emitNdLine(Value item) {
    ArrayRef<int64_t> shape = shapeOf(op->getResult(0)),
                      outer = shape.take_front(shapeOf(table()).back());
    SmallVector<Value> rest = index.delinearize(item, lineShape());
    LogicalResult result = success();
    if (copies)
      index.loop(emitter.index(0), emitter.index(productOf(outer)), 1,
                 [&](Value position) {
                   SmallVector<Value> at = index.delinearize(position, outer);
                   llvm::append_range(at, rest);
                   result = copy(at);
                 });
    return succeeded(result) ? emitTuples(rest) : failure();
  }

  /// Returns an index read from the table and whether it is inside `extent`.
  FailureOr<std::pair<Value, Value>> position(ValueRange at, int64_t extent,
                                              int64_t component = 0) {
    FailureOr<Value> raw = emitter.emit(table(), at, 1);
    if (failed(raw))
      return failure();
    emitIndexCheck(emitter, op, *raw, extent, component);
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
    SmallVector<int64_t> inner = lineShape();
    return emitTuples(std::nullopt, inner);
  }

  /// Applies the updates of all tuples, at position `rest` of the inner
  /// dimensions or at all of `inner`.
  LogicalResult emitTuples(std::optional<ArrayRef<Value>> rest,
                           ArrayRef<int64_t> inner = {}) {
    auto scatter = cast<ScatterNdOp>(op);
    ArrayRef<int64_t> shape = shapeOf(op->getResult(0)),
                      tableShape = shapeOf(table());
    int64_t tuple = tableShape.back();
    ArrayRef<int64_t> outer = tableShape.drop_back();
    LogicalResult result = success();
    index.loop(productOf(outer), [&](Value item) {
      SmallVector<Value> from = index.delinearize(item, outer), at = from, to;
      at.push_back({});
      Value inside;
      for (int64_t i = 0; i < tuple; ++i) {
        at.back() = emitter.index(i);
        auto place = position(at, shape[i], i);
        if (failed(place)) {
          result = failure();
          return;
        }
        to.push_back(place->first);
        inside = inside ? math.bitAnd(inside, place->second) : place->second;
      }
      if (!inside)
        inside = math.integer(context.builder.getI1Type(), 1);
      auto joinAt = [&](ArrayRef<Value> position) {
        SmallVector<Value> source = from, target = to;
        llvm::append_range(source, position);
        llvm::append_range(target, position);
        if (failed(join(inside, source, target, scatter.getReduction())))
          result = failure();
      };
      if (rest)
        return joinAt(*rest);
      index.loop(productOf(inner), [&](Value position) {
        joinAt(index.delinearize(position, inner));
      });
    });
    return result;
  }

  /// Combines the update at `from` with the element at `to`, if `inside`.
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

  bool copies;
  LoopContext &context;
  ElementEmitter &emitter;
  MathExpansion math;
  IndexMath index;
  Operation *op;
  Value memref;
  Type elementType;
};
} // namespace

std::unique_ptr<Phase> mpc::makeScatterPhase(LoopContext &context,
                                             Operation *op, Value memref,
                                             bool copies) {
  return std::make_unique<ScatterPhase>(context, op, memref, copies);
}
