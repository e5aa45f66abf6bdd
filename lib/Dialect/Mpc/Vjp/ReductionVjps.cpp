//===- ReductionVjps.cpp - derivatives of reductions and scans ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cotangents broadcast along the reduced axes.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"

#include "VjpBuilder.h"

using namespace mlir;
using namespace mpc;

/// Reshapes a reduction's result or cotangent to reduced extents of 1.
template <typename OpTy>
static Value keepDims(OpTy op, VjpBuilder &v, Value value) {
  SmallVector<int64_t> shape(shapeOf(op.getInput()));
  for (int64_t axis : op.getAxes())
    shape[axis] = 1;
  return v.reshape(value, shape);
}

/// Ties share the cotangent.
template <typename OpTy> static void attachExtremum(MLIRContext *context) {
  attachVjp<OpTy>(context, [](OpTy op, VjpBuilder &v) {
    Value x = v.wide(op.getInput()),
          y = keepDims(op, v, v.wide(op.getResult())),
          dy = keepDims(op, v, v.wideDy());
    Value won = v.cast(v.compare(ComparePredicate::eq, x, y), v.elementOf(x));
    v.give(0, v.mul(won, v.div(dy, v.sum(won, op.getAxes()))));
  });
}

/// Each element's derivative is the product of the others; handles zeros: with
/// one zero, only its derivative is nonzero.
static void vjpOfProduct(ReduceProdOp op, VjpBuilder &v) {
  Value x = v.wide(op.getInput()), dy = keepDims(op, v, v.wideDy());
  Value isZero = v.compare(ComparePredicate::eq, x, 0.0);
  Value safe = v.select(isZero, v.scalar(1.0, x), x);
  SmallVector<int64_t> shape(shapeOf(x));
  for (int64_t axis : op.getAxes())
    shape[axis] = 1;
  Value product = v.create<ReduceProdOp>(
      RankedTensorType::get(shape, v.elementOf(x)), safe, op.getAxesAttr(),
      v.builder.getUnitAttr(), TypeAttr());
  Value zero = v.cast(isZero, v.elementOf(x));
  Value others = v.sub(v.sum(zero, op.getAxes()), zero);
  Value rest = v.div(product, safe);
  v.give(0, v.mul(dy, v.keepWhere(v.compare(ComparePredicate::eq, others, 0.0),
                                  rest)));
}

void mpc::attachReductionVjps(MLIRContext *context) {
  attachVjp<ReduceSumOp>(context, [](ReduceSumOp op, VjpBuilder &v) {
    Value dy = v.cast(v.dy(), v.elementOf(op.getInput()));
    v.give(0, v.broadcastTo(keepDims(op, v, dy), shapeOf(op.getInput())));
  });
  attachVjp<ReduceMeanOp>(context, [](ReduceMeanOp op, VjpBuilder &v) {
    // Divides before the broadcast, on fewer elements.
    double share = 1.0 / double(op.getReductionSize());
    Value dy = v.cast(v.mul(v.wideDy(), share), v.elementOf(op.getInput()));
    v.give(0, v.broadcastTo(keepDims(op, v, dy), shapeOf(op.getInput())));
  });
  attachVjp<ReduceProdOp>(
      context, [](ReduceProdOp op, VjpBuilder &v) { vjpOfProduct(op, v); });
  attachExtremum<ReduceMaxOp>(context);
  attachExtremum<ReduceMinOp>(context);
  attachVjp<CumsumOp>(context, [](CumsumOp op, VjpBuilder &v) {
    v.give(0, v.create<CumsumOp>(v.dy().getType(), v.dy(), op.getAxis(),
                                 op.getExclusive(), !op.getReverse()));
  });
  // Indices are distinct: no element is written twice.
  attachVjp<TopKOp>(context, [](TopKOp op, VjpBuilder &v) {
    if (!v.dy(0))
      return;
    v.give(0,
           v.create<ScatterElementsOp>(
               op.getInput().getType(), v.zerosLike(op.getInput()),
               op.getIndices(), v.dy(0), op.getAxis(), ScatterReduction::none));
  });
}
