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
      : Phase(context), copies(copies), op(op), memref(memref),
        elementType(getElementTypeOrSelf(op->getResult(0).getType())) {}

  PhaseCost cost() override {
    double all = 10.0 * static_cast<double>(elementCount(op->getResult(0)));
    if (target.lanes > 1)
      return {1, all};
    int64_t lines = productOf(lineShape());
    return {lines, all / static_cast<double>(std::max<int64_t>(lines, 1))};
  }

  void emit(Value item) override {
    if (target.lanes == 1)
      return isa<ScatterNdOp>(op) ? emitNdLine(item) : emitElementsLine(item);
    std::unique_ptr<Phase> copy =
        makeMapPhase(context, Root{op->getOperand(0), memref});
    index.loop(emitter.index(0), emitter.index(copy->cost().items), 1,
               [&](Value item) { copy->emit(item); });
    isa<ScatterNdOp>(op) ? emitTuples(std::nullopt) : emitElements();
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
  void copy(ArrayRef<Value> at) {
    emitter.store(emitter.value(op->getOperand(0), at, 1), memref, at, 1);
  }

  void emitElementsLine(Value item) {
    size_t axis = cast<ScatterElementsOp>(op).getAxis();
    ArrayRef<int64_t> shape = shapeOf(op->getResult(0)),
                      tableShape = shapeOf(table());
    SmallVector<Value> from = index.delinearize(item, lineShape());
    from.insert(from.begin() + axis, emitter.index(0));
    if (copies)
      index.loop(emitter.index(0), emitter.index(shape[axis]), 1,
                 [&](Value position) {
                   from[axis] = position;
                   copy(from);
                 });
    Value inTable = math.integer(builder.getI1Type(), 1);
    for (auto [dim, extent] : llvm::enumerate(tableShape))
      if (dim != axis && extent < shape[dim])
        inTable = math.bitAnd(inTable, index.less(from[dim], extent));
    index.branch(inTable, [&] {
      index.loop(emitter.index(0), emitter.index(tableShape[axis]), 1,
                 [&](Value number) {
                   from[axis] = number;
                   SmallVector<Value> to = from;
                   auto [place, inside] = position(from, shape[axis]);
                   to[axis] = place;
                   join(inside, from, to);
                 });
    });
  }

  void emitNdLine(Value item) {
    ArrayRef<int64_t> shape = shapeOf(op->getResult(0)),
                      outer = shape.take_front(shapeOf(table()).back());
    SmallVector<Value> rest = index.delinearize(item, lineShape());
    if (copies)
      index.loop(emitter.index(0), emitter.index(productOf(outer)), 1,
                 [&](Value position) {
                   SmallVector<Value> at = index.delinearize(position, outer);
                   llvm::append_range(at, rest);
                   copy(at);
                 });
    emitTuples(rest);
  }

  /// Returns an index read from the table and whether it is inside `extent`.
  std::pair<Value, Value> position(ValueRange at, int64_t extent,
                                   int64_t component = 0) {
    Value raw = emitter.value(table(), at, 1);
    emitIndexCheck(emitter, op, raw, extent, component);
    Value place = emitter.normalizeIndex(raw, extent, /*clamp=*/false);
    return {place, index.less(place, extent)};
  }

  void emitElements() {
    size_t axis = cast<ScatterElementsOp>(op).getAxis();
    ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
    index.loop(elementCount(updates()), [&](Value item) {
      SmallVector<Value> from = index.delinearize(item, shapeOf(table())),
                         to = from;
      auto [place, inside] = position(from, shape[axis]);
      to[axis] = place;
      for (auto [dim, extent] : llvm::enumerate(shape))
        if (dim != axis && shapeOf(table())[dim] > extent)
          inside = math.bitAnd(inside, index.less(to[dim], extent));
      join(inside, from, to);
    });
  }

  /// Applies the updates of all tuples, at position `rest` of the inner
  /// dimensions or at all of them.
  void emitTuples(std::optional<ArrayRef<Value>> rest) {
    SmallVector<int64_t> inner = lineShape();
    ArrayRef<int64_t> shape = shapeOf(op->getResult(0)),
                      tableShape = shapeOf(table());
    int64_t tuple = tableShape.back();
    ArrayRef<int64_t> outer = tableShape.drop_back();
    index.loop(productOf(outer), [&](Value item) {
      SmallVector<Value> from = index.delinearize(item, outer), at = from, to;
      at.push_back({});
      Value inside;
      for (int64_t i = 0; i < tuple; ++i) {
        at.back() = emitter.index(i);
        auto [place, fits] = position(at, shape[i], i);
        to.push_back(place);
        inside = inside ? math.bitAnd(inside, fits) : fits;
      }
      if (!inside)
        inside = math.integer(builder.getI1Type(), 1);
      auto joinAt = [&](ArrayRef<Value> position) {
        SmallVector<Value> source = from, target = to;
        llvm::append_range(source, position);
        llvm::append_range(target, position);
        join(inside, source, target);
      };
      if (rest)
        return joinAt(*rest);
      index.loop(productOf(inner), [&](Value position) {
        joinAt(index.delinearize(position, inner));
      });
    });
  }

  /// Combines the update at `from` with the element at `to`, if `inside`.
  void join(Value inside, ArrayRef<Value> from, ArrayRef<Value> to) {
    ScatterReduction reduction =
        isa<ScatterNdOp>(op) ? cast<ScatterNdOp>(op).getReduction()
                             : cast<ScatterElementsOp>(op).getReduction();
    index.branch(inside, [&] {
      Value joined = emitter.value(updates(), from, 1);
      if (reduction != ScatterReduction::none)
        joined = combine(emitter.load(memref, elementType, to, 1), joined,
                         reduction);
      emitter.store(joined, memref, to, 1);
    });
  }

  Value combine(Value old, Value update, ScatterReduction reduction) {
    switch (reduction) {
    case ScatterReduction::none:
      return update;
    case ScatterReduction::add:
      return emitter.round(math.add(old, update), elementType);
    case ScatterReduction::mul:
      return emitter.round(math.mul(old, update), elementType);
    case ScatterReduction::max:
    case ScatterReduction::min:
      return math.extremum(old, update, reduction == ScatterReduction::max,
                           isUnsignedElement(elementType));
    }
    return update;
  }

  bool copies;
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
