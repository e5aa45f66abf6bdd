//===- LossVjps.cpp - derivatives of losses -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The cotangent and the mean's divisor are combined as scalars, so that one
// factor is applied to the elements.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLossOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"

#include "VjpBuilder.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// softmax_cross_entropy
//===----------------------------------------------------------------------===//

/// Cotangent of a row's loss: a scalar if all rows count, else `[rows..., 1]`
/// with 0 for ignored classes.
static Value rowCotangent(SoftmaxCrossEntropyOp op, VjpBuilder &v) {
  ArrayRef<int64_t> rows = shapeOf(op.getPredictions()).drop_back();
  if (!op.getIgnoreIndex())
    return v.mul(v.wideDy(), 1.0 / double(productOf(rows)));
  Value targets = op.getTargets();
  auto integer = DenseElementsAttr::get(
      RankedTensorType::get({}, v.elementOf(targets)),
      Attribute(IntegerAttr::get(v.elementOf(targets), *op.getIgnoreIndex())));
  Value counts = v.compare(ComparePredicate::ne, targets, v.constant(integer));
  Value total = v.sumTo(v.cast(counts, v.elementOf(v.wideDy())), {});
  SmallVector<int64_t> column(rows);
  column.push_back(1);
  // Selects instead of multiplying by 0 and 1: the quotient is infinite if no
  // row counts.
  return v.reshape(v.keepWhere(counts, v.div(v.wideDy(), total)), column);
}

/// Target distribution of each row, and its sum per row (null if 1).
static std::pair<Value, Value> distribution(SoftmaxCrossEntropyOp op,
                                            VjpBuilder &v, Type element) {
  ArrayRef<int64_t> shape = shapeOf(op.getPredictions());
  int64_t classes = shape.back(), axis = shape.size() - 1;
  double smoothing = op.getLabelSmoothing().convertToDouble();
  double share = smoothing / double(classes);
  Value targets = op.getTargets();
  if (!isa<FloatType>(v.elementOf(targets))) {
    Value on = v.splat({}, element, 1.0 - smoothing + share),
          off = v.splat({}, element, share);
    return {v.create<OneHotOp>(targets, on, off, classes, axis), Value()};
  }
  Value soft = v.cast(targets, element);
  if (smoothing != 0.0)
    soft = v.add(v.mul(soft, 1.0 - smoothing), share);
  return {soft, v.sum(soft, {axis})};
}

static void vjpOfSoftmaxCrossEntropy(SoftmaxCrossEntropyOp op, VjpBuilder &v) {
  Value logits = v.wide(op.getPredictions());
  int64_t axis = v.rankOf(logits) - 1;
  Value row = rowCotangent(op, v);
  if (v.needs(0)) {
    Value softmax = v.create<SoftmaxOp>(logits.getType(), logits, axis);
    auto [wanted, total] = distribution(op, v, v.elementOf(logits));
    if (total)
      softmax = v.mul(softmax, total);
    v.give(0, v.mul(v.sub(softmax, wanted), row));
  }
  if (v.needs(1)) {
    double smoothing = op.getLabelSmoothing().convertToDouble();
    Value log = v.create<LogSoftmaxOp>(logits.getType(), logits, axis);
    v.give(1, v.mul(log, v.mul(row, smoothing - 1.0)));
  }
}

//===----------------------------------------------------------------------===//
// Means over all elements
//===----------------------------------------------------------------------===//

/// `factor` times `slope(op, v, x, t)` is the derivative of an element's loss
/// with respect to the prediction; its negative, to the target.
template <typename OpTy, int factor, typename Slope>
static void attachMean(MLIRContext *context, Slope) {
  attachVjp<OpTy>(context, [](OpTy op, VjpBuilder &v) {
    Value x = v.wide(op.getPredictions()), t = v.wide(op.getTargets());
    Value each = v.mul(v.wideDy(), double(factor) / double(elementCount(x)));
    Value gradient = v.mul(Slope{}(op, v, x, t), each);
    v.give(0, gradient);
    if (v.needs(1))
      v.give(1, v.neg(gradient));
  });
}

void mpc::attachLossVjps(MLIRContext *context) {
  attachVjp<SoftmaxCrossEntropyOp>(context,
                                   [](SoftmaxCrossEntropyOp op, VjpBuilder &v) {
                                     vjpOfSoftmaxCrossEntropy(op, v);
                                   });
  attachVjp<SigmoidCrossEntropyOp>(
      context, [](SigmoidCrossEntropyOp op, VjpBuilder &v) {
        Value x = v.wide(op.getPredictions()), t = v.wide(op.getTargets());
        Value each = v.mul(v.wideDy(), 1.0 / double(elementCount(x)));
        if (v.needs(0))
          v.give(0, v.mul(v.sub(v.unary<SigmoidOp>(x), t), each));
        if (v.needs(1))
          v.give(1, v.neg(v.mul(x, each)));
      });
  attachMean<MeanSquaredErrorOp, 2>(
      context, [](MeanSquaredErrorOp, VjpBuilder &v, Value x, Value t) {
        return v.sub(x, t);
      });
  attachMean<MeanAbsoluteErrorOp, 1>(
      context, [](MeanAbsoluteErrorOp, VjpBuilder &v, Value x, Value t) {
        return v.unary<SignOp>(v.sub(x, t));
      });
  attachMean<HuberOp, 1>(
      context, [](HuberOp op, VjpBuilder &v, Value x, Value t) {
        double delta = op.getDelta().convertToDouble();
        return v.create<ClampOp>(v.sub(x, t), v.scalar(-delta, x),
                                 v.scalar(delta, x));
      });
}
