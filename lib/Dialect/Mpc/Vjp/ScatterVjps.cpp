//===- ScatterVjps.cpp - derivatives of scatters --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Updates gather the cotangent at their indices; dropped ones get 0.
//
//===----------------------------------------------------------------------===//

#include "VjpBuilder.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace mpc;

namespace {

/// scatter_elements: one target element per update.
struct Elements {
  ScatterElementsOp op;
  VjpBuilder &v;

  Value write(Value into, Value updates, ScatterReduction reduction) {
    return v.create<ScatterElementsOp>(into.getType(), into, op.getIndices(),
                                       updates, op.getAxis(), reduction);
  }
  Value read(Value from) {
    return v.create<GatherElementsOp>(from, op.getIndices(), op.getAxis());
  }
  /// Shape of the target, and of the updates.
  ArrayRef<int64_t> places() { return shapeOf(op.getInput()); }
  ArrayRef<int64_t> writers() { return shapeOf(op.getUpdates()); }
  /// Broadcasts one entry per update over the update's elements.
  Value perUpdate(Value value) { return value; }
  Value isInside() {
    int64_t extent = places()[op.getAxis()];
    Value low =
              v.compare(ComparePredicate::ge, op.getIndices(), double(-extent)),
          high =
              v.compare(ComparePredicate::lt, op.getIndices(), double(extent));
    return v.create<AndOp>(low, high);
  }
};

/// scatter_nd: one target slice per index tuple.
struct Slices {
  ScatterNdOp op;
  VjpBuilder &v;

  Value write(Value into, Value updates, ScatterReduction reduction) {
    return v.create<ScatterNdOp>(into.getType(), into, op.getIndices(), updates,
                                 reduction);
  }
  Value read(Value from) {
    return v.create<GatherNdOp>(from, op.getIndices(), /*batch_dims=*/0);
  }
  int64_t tuple() { return shapeOf(op.getIndices()).back(); }
  ArrayRef<int64_t> places() {
    return shapeOf(op.getInput()).take_front(tuple());
  }
  ArrayRef<int64_t> writers() { return shapeOf(op.getIndices()).drop_back(); }
  Value perUpdate(Value value) {
    SmallVector<int64_t> shape(shapeOf(value));
    shape.resize(v.rankOf(op.getUpdates()), 1);
    return v.reshape(value, shape);
  }
  Value isInside() {
    Type element = v.elementOf(op.getIndices());
    auto type = RankedTensorType::get({tuple()}, element);
    SmallVector<Attribute> low, high;
    for (int64_t extent : places()) {
      low.push_back(IntegerAttr::get(element, -extent));
      high.push_back(IntegerAttr::get(element, extent));
    }
    auto bound = [&](ArrayRef<Attribute> values) {
      return v.constant(DenseElementsAttr::get(type, values));
    };
    Value inside = v.create<AndOp>(
        v.compare(ComparePredicate::ge, op.getIndices(), bound(low)),
        v.compare(ComparePredicate::lt, op.getIndices(), bound(high)));
    Type count = IntegerType::get(element.getContext(), 32);
    int64_t last = v.rankOf(inside) - 1;
    Value met = v.reshape(v.sum(v.cast(inside, count), {last}), writers());
    return perUpdate(v.compare(ComparePredicate::eq, met, double(tuple())));
  }
};

} // namespace

/// Returns true if at most one update is known to reach each target.
template <typename Kind> static bool isDistinct(Kind kind) {
  return productOf(kind.writers()) <= 1;
}

/// Mask of the updates that are the last one to their target.
template <typename Kind> static Value winners(Kind kind) {
  VjpBuilder &v = kind.v;
  ArrayRef<int64_t> writers = kind.writers();
  Type number = IntegerType::get(v.builder.getContext(), 64);
  Value order = v.reshape(
      v.create<IotaOp>(RankedTensorType::get({productOf(writers)}, number),
                       /*axis=*/uint64_t(0)),
      writers);
  Value last = kind.write(v.splat(kind.places(), number, -1.0), order,
                          ScatterReduction::none);
  return kind.perUpdate(
      v.compare(ComparePredicate::eq, kind.read(last), order));
}

template <typename OpTy, typename Kind>
static void vjpOfScatter(OpTy op, Kind kind) {
  VjpBuilder &v = kind.v;
  Value dy = v.dy(), x = op.getInput(), u = op.getUpdates();
  auto keepInside = [&](Value value) {
    return v.keepWhere(kind.isInside(), value);
  };
  auto zerosLike = [&](Value value) { return v.zerosLike(value); };
  switch (op.getReduction()) {
  case ScatterReduction::none:
    if (v.needs(0))
      v.give(0, kind.write(dy, zerosLike(u), ScatterReduction::none));
    if (v.needs(2)) {
      Value mine = keepInside(kind.read(dy));
      v.give(2, isDistinct(kind) ? mine : v.keepWhere(winners(kind), mine));
    }
    return;
  case ScatterReduction::add:
    v.give(0, dy);
    if (v.needs(2))
      v.give(2, keepInside(kind.read(dy)));
    return;
  case ScatterReduction::mul: {
    if (v.needs(0))
      v.give(0, v.mul(dy, kind.write(v.splat(shapeOf(x), v.elementOf(x), 1.0),
                                     u, ScatterReduction::mul)));
    if (!v.needs(2))
      return;
    // Product of the target without this factor, also if factors are 0.
    Value isZero = v.compare(ComparePredicate::eq, u, 0.0);
    Value safe = v.select(isZero, v.scalar(1.0, u), u);
    Value product = kind.write(x, safe, ScatterReduction::mul);
    Value zero = v.cast(isZero, v.elementOf(u));
    Value zeros = kind.write(zerosLike(x), zero, ScatterReduction::add);
    Value alone =
        v.compare(ComparePredicate::eq, v.sub(kind.read(zeros), zero), 0.0);
    v.give(2, keepInside(v.keepWhere(
                  alone, v.div(kind.read(v.mul(dy, product)), safe))));
    return;
  }
  case ScatterReduction::max:
  case ScatterReduction::min: {
    // Ties share the cotangent.
    Value y = op.getResult();
    Type element = v.elementOf(x);
    Value stayed = v.cast(v.compare(ComparePredicate::eq, x, y), element);
    Value won = keepInside(
        v.cast(v.compare(ComparePredicate::eq, u, kind.read(y)), element));
    Value share = v.div(dy, kind.write(stayed, won, ScatterReduction::add));
    v.give(0, v.mul(stayed, share));
    if (v.needs(2))
      v.give(2, v.mul(won, kind.read(share)));
    return;
  }
  }
}

void mpc::attachScatterVjps(MLIRContext *context) {
  attachVjp<ScatterElementsOp>(context,
                               [](ScatterElementsOp op, VjpBuilder &v) {
                                 vjpOfScatter(op, Elements{op, v});
                               });
  attachVjp<ScatterNdOp>(context, [](ScatterNdOp op, VjpBuilder &v) {
    vjpOfScatter(op, Slices{op, v});
  });
}
