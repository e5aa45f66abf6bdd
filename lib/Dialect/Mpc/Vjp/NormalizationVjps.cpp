//===- NormalizationVjps.cpp - derivatives of softmax and norms -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Softmax reads its result. Norms recompute the normalized value, so that only
// the input is saved. Computed in at least f32.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"

#include "VjpBuilder.h"

using namespace mlir;
using namespace mpc;

namespace {

/// A tensor normalized along some axes.
struct Normalized {
  Value value;  ///< (x - mean) / deviation
  Value factor; ///< 1 / deviation, extent 1 along the axes
};

} // namespace

static Normalized normalize(VjpBuilder &v, Value x, ArrayRef<int64_t> axes,
                            double epsilon) {
  Value centered = v.sub(x, v.mean(x, axes));
  Value factor =
      v.unary<RsqrtOp>(v.add(v.mean(v.square(centered), axes), epsilon));
  return {v.mul(centered, factor), factor};
}

/// Cotangent of the norm's input: removes the mean and the projection onto the
/// normalized value.
static Value throughNorm(VjpBuilder &v, Value dy, const Normalized &normal,
                         ArrayRef<int64_t> axes) {
  Value along = v.mul(normal.value, v.mean(v.mul(dy, normal.value), axes));
  dy = v.sub(dy, v.mean(dy, axes));
  return v.mul(v.sub(dy, along), normal.factor);
}

//===----------------------------------------------------------------------===//
// Norms over trailing axes
//===----------------------------------------------------------------------===//

template <typename OpTy> static void attachTrailingNorm(MLIRContext *context) {
  attachVjp<OpTy>(context, [](OpTy op, VjpBuilder &v) {
    constexpr bool kCentered = std::is_same_v<OpTy, LayerNormOp>;
    // One op: intermediate row sums need neither a type nor memory.
    if (v.needs(0) || v.needs(1)) {
      auto gradient = v.create<NormGradientOp>(
          TypeRange{op.getInput().getType(), op.getScale().getType()},
          op.getInput(), op.getScale(),
          v.cast(v.dy(), v.elementOf(op.getInput())), op.getAxisAttr(),
          op.getEpsilonAttr(),
          kCentered ? UnitAttr() : v.builder.getUnitAttr());
      v.give(0, gradient.getInputGradient());
      v.give(1, gradient.getScaleGradient());
    }
    if constexpr (kCentered)
      if (op.getBias())
        v.give(2, v.wideDy());
  });
}

//===----------------------------------------------------------------------===//
// Norms per channel
//===----------------------------------------------------------------------===//

/// Reduces over all axes but 1.
static void givePerChannel(VjpBuilder &v, unsigned operand, Value value) {
  if (!v.needs(operand))
    return;
  SmallVector<int64_t> axes = {0};
  llvm::append_range(axes, axesFrom(2, v.rankOf(value)));
  v.give(operand,
         v.reshape(v.sum(value, axes), shapeOf(v.op->getOperand(operand))));
}

static void vjpOfBatchNorm(BatchNormOp op, VjpBuilder &v) {
  Value x = v.wide(op.getInput()), dy = v.wideDy();
  auto channel = [&](Value value) { return v.perChannel(v.wide(value), x); };
  Value factor = v.unary<RsqrtOp>(
      v.add(channel(op.getVariance()), op.getEpsilon().convertToDouble()));
  Value centered = v.sub(x, channel(op.getMean()));
  Value scaled = v.mul(factor, channel(op.getScale()));
  if (v.needs(0))
    v.give(0, v.mul(dy, scaled));
  if (v.needs(1))
    givePerChannel(v, 1, v.mul(dy, v.mul(centered, factor)));
  givePerChannel(v, 2, dy);
  if (v.needs(3))
    givePerChannel(v, 3, v.neg(v.mul(dy, scaled)));
  if (v.needs(4)) {
    // d/dv of (v + e)^(-1/2) is -1/2 times its cube.
    Value slope = v.mul(v.mul(scaled, v.square(factor)), -0.5);
    givePerChannel(v, 4, v.mul(v.mul(dy, centered), slope));
  }
}

static void vjpOfBatchNormTraining(BatchNormTrainingOp op, VjpBuilder &v) {
  // The running statistics carry no gradient.
  if (!v.dy(0))
    return;
  if (!v.needs(0) && !v.needs(1) && !v.needs(2))
    return;
  auto gradient = v.create<BatchNormGradientOp>(
      TypeRange{op.getInput().getType(), op.getScale().getType(),
                op.getScale().getType()},
      op.getInput(), op.getScale(), v.cast(v.dy(), v.elementOf(op.getInput())),
      op.getEpsilonAttr());
  v.give(0, gradient.getInputGradient());
  v.give(1, gradient.getScaleGradient());
  v.give(2, gradient.getBiasGradient());
}

/// group_norm, and instance_norm as one channel per group.
template <typename OpTy>
static void vjpOfGroups(OpTy op, VjpBuilder &v, int64_t groups) {
  Value x = v.wide(op.getInput()), dy = v.wideDy();
  givePerChannel(v, 2, dy);
  if (!v.needs(0) && !v.needs(1))
    return;
  ArrayRef<int64_t> shape = shapeOf(x);
  int64_t all = productOf(shape.drop_front());
  SmallVector<int64_t> rows = {shape[0], groups,
                               all / std::max<int64_t>(groups, 1)};
  Normalized normal =
      normalize(v, v.reshape(x, rows), {2}, op.getEpsilon().convertToDouble());
  if (v.needs(1))
    givePerChannel(v, 1, v.mul(dy, v.reshape(normal.value, shape)));
  if (v.needs(0)) {
    Value scaled = v.mul(dy, v.perChannel(v.wide(op.getScale()), x));
    v.give(0, v.reshape(throughNorm(v, v.reshape(scaled, rows), normal, {2}),
                        shape));
  }
}

void mpc::attachNormalizationVjps(MLIRContext *context) {
  attachVjp<SoftmaxOp>(context, [](SoftmaxOp op, VjpBuilder &v) {
    Value y = v.wide(op.getResult()), dy = v.wideDy();
    Value mean = v.sum(v.mul(dy, y), {int64_t(op.getAxis())});
    v.give(0, v.mul(y, v.sub(dy, mean)));
  });
  attachVjp<LogSoftmaxOp>(context, [](LogSoftmaxOp op, VjpBuilder &v) {
    Value y = v.wide(op.getResult()), dy = v.wideDy();
    Value total = v.sum(dy, {int64_t(op.getAxis())});
    v.give(0, v.sub(dy, v.mul(v.unary<ExpOp>(y), total)));
  });
  attachTrailingNorm<LayerNormOp>(context);
  attachTrailingNorm<RmsNormOp>(context);
  attachVjp<BatchNormOp>(
      context, [](BatchNormOp op, VjpBuilder &v) { vjpOfBatchNorm(op, v); });
  attachVjp<BatchNormTrainingOp>(context,
                                 [](BatchNormTrainingOp op, VjpBuilder &v) {
                                   vjpOfBatchNormTraining(op, v);
                                 });
  attachVjp<GroupNormOp>(context, [](GroupNormOp op, VjpBuilder &v) {
    vjpOfGroups(op, v, op.getGroups());
  });
  attachVjp<InstanceNormOp>(context, [](InstanceNormOp op, VjpBuilder &v) {
    vjpOfGroups(op, v, shapeOf(op.getInput())[1]);
  });
}
