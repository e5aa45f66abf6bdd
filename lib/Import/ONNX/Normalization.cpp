//===- Normalization.cpp - normalization and dropout operators ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Statistics of 16-bit tensors are computed in f32 (`stash_type`).
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "NodeImport.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

static const double kNormalizationEpsilon = double(1e-5f);

/// Returns the axes [first, last).
static SmallVector<int64_t> axisRange(int64_t first, int64_t last) {
  SmallVector<int64_t> axes;
  for (int64_t d = first; d < last; ++d)
    axes.push_back(d);
  return axes;
}

/// Returns the type of the statistics of a tensor of `element`, checking
/// `stash_type`.
static Type stashType(NodeImport &n, Type element) {
  int64_t stash = n.intAttr("stash_type", kFloat);
  if (stash != kFloat && !n.failed())
    n.error() << "attribute 'stash_type' is " << dataTypeName(int32_t(stash))
              << ", but only FLOAT is supported";
  return n.wideType(element);
}

/// Returns the biased variance over `axes`, which are kept, given the mean.
static Value variance(NodeImport &n, Value x, Value mean,
                      ArrayRef<int64_t> axes) {
  Value centred = n.op<SubOp>({x, mean});
  return n.reduce<ReduceMeanOp>(n.op<MulOp>({centred, centred}), axes);
}

static LogicalResult convertBatchNormalization(NodeImport &n) {
  Value x = n.in(0), mean = n.in(3), var = n.in(4);
  if (n.intAttr("spatial", 1) != 1)
    return n.error() << "attribute 'spatial' is 0, which is not supported";
  double epsilon = n.floatAttr("epsilon", kNormalizationEpsilon);
  double momentum = n.floatAttr("momentum", double(0.9f));
  bool training = n.flag("training_mode");
  // Before opset 14 a node with more than one output is in training mode.
  bool isOldForm = n.version < 14;
  if (isOldForm)
    training = n.wants(1) || n.wants(2) || n.wants(3) || n.wants(4);
  if (n.failed())
    return failure();
  if (n.rank(x) < 2)
    return n.error() << "input " << x.getType()
                     << " has fewer than 2 dimensions";
  Type type = n.element(x), wide = n.wideType(type);
  // Statistics may have a wider type than the data.
  for (size_t i = 1; i < 5; ++i)
    if (n.element(n.in(i)).isF64())
      wide = n.element(n.in(i));
  Value wideX = n.cast(x, wide), wideMean = n.cast(mean, wide),
        wideVar = n.cast(var, wide), scale = n.cast(n.in(1), wide),
        bias = n.cast(n.in(2), wide);
  if (training) {
    // ONNX's running variance is biased, that of the op is unbiased.
    SmallVector<int64_t> axes = axisRange(0, n.rank(x));
    axes.erase(axes.begin() + 1);
    Value batchMean = n.reduce<ReduceMeanOp>(wideX, axes);
    Value batchVar =
        n.reshape(variance(n, wideX, batchMean, axes), {n.dim(x, 1)});
    batchMean = n.reshape(batchMean, {n.dim(x, 1)});
    auto running = [&](Value old, Value fresh) {
      Value kept = n.op<MulOp>({old, n.scalar(momentum, wide)});
      return n.op<AddOp>(
          {kept, n.op<MulOp>({fresh, n.scalar(1 - momentum, wide)})});
    };
    n.set(1, n.cast(running(wideMean, batchMean), n.element(mean)));
    n.set(2, n.cast(running(wideVar, batchVar), n.element(var)));
    if (isOldForm) {
      n.set(3, n.cast(batchMean, n.element(mean)));
      n.set(4, n.cast(batchVar, n.element(var)));
    }
    Operation *norm = n.typed(
        BatchNormTrainingOp::getOperationName(),
        {wideX.getType(), wideMean.getType(), wideVar.getType()},
        {wideX, scale, bias, wideMean, wideVar},
        {n.attrF("epsilon", epsilon), n.attrF("momentum", 1 - momentum)});
    return norm ? n.result(n.narrow(norm->getResult(0), type)) : failure();
  }
  Value y = n.op<BatchNormOp>({wideX, scale, bias, wideMean, wideVar},
                              n.attrF("epsilon", epsilon));
  return n.result(n.narrow(y, type));
}

static LogicalResult convertInstanceNormalization(NodeImport &n) {
  Value x = n.in(0);
  Type wide = n.wideType(n.element(x));
  Value y = n.op<InstanceNormOp>(
      {n.cast(x, wide), n.cast(n.in(1), wide), n.cast(n.in(2), wide)},
      n.attrF("epsilon", n.floatAttr("epsilon", kNormalizationEpsilon)));
  return n.result(n.narrow(y, n.element(x)));
}

/// Drops leading extents of 1, so that `value` has at most `rank` dimensions.
static Value dropLeadingOnes(NodeImport &n, Value value, int64_t rank) {
  ArrayRef<int64_t> shape = n.shape(value);
  while (int64_t(shape.size()) > rank && shape.front() == 1)
    shape = shape.drop_front();
  return n.reshape(value, shape);
}

static LogicalResult convertLayerNormalization(NodeImport &n) {
  Value x = n.in(0);
  if (n.failed())
    return failure();
  int64_t axis = n.axisAttr("axis", -1, n.rank(x));
  double epsilon = n.floatAttr("epsilon", kNormalizationEpsilon);
  Type type = n.element(x), wide = stashType(n, type);
  Value wideX = n.cast(x, wide);
  int64_t normalised = n.rank(x) - axis;
  Value scale = dropLeadingOnes(n, n.cast(n.in(1), wide), normalised);
  Value bias = n.has(2) ? dropLeadingOnes(n, n.cast(n.in(2), wide), normalised)
                        : Value();
  SmallVector<NamedAttribute> attributes = {n.attr("axis", axis),
                                            n.attrF("epsilon", epsilon)};
  if (n.failed())
    return failure();
  // A scale that varies outside of the normalized axes is applied afterwards.
  bool inside =
      n.rank(scale) <= normalised && (!bias || n.rank(bias) <= normalised);
  Value y;
  if (inside) {
    y = bias ? n.op<LayerNormOp>({wideX, scale, bias}, attributes)
             : n.op<LayerNormOp>({wideX, scale}, attributes);
  } else {
    Value ones = n.splat(n.shape(x).drop_front(axis), 1, wide);
    y = n.op<MulOp>({n.op<LayerNormOp>({wideX, ones}, attributes), scale});
    if (bias)
      y = n.op<AddOp>({y, bias});
  }
  n.set(0, n.narrow(y, type));
  if (n.wants(1) || n.wants(2)) {
    SmallVector<int64_t> axes = axisRange(axis, n.rank(x));
    Value mean = n.reduce<ReduceMeanOp>(wideX, axes);
    n.set(1, mean);
    if (n.wants(2)) {
      Value var = n.op<AddOp>(
          {variance(n, wideX, mean, axes), n.scalar(epsilon, wide)});
      n.set(2, n.op<ReciprocalOp>(n.op<SqrtOp>(var)));
    }
  }
  return n.status();
}

static LogicalResult convertRmsNormalization(NodeImport &n) {
  Value x = n.in(0);
  if (n.failed())
    return failure();
  int64_t axis = n.axisAttr("axis", -1, n.rank(x));
  Type type = n.element(x), wide = stashType(n, type);
  SmallVector<NamedAttribute> attributes = {
      n.attr("axis", axis),
      n.attrF("epsilon", n.floatAttr("epsilon", kNormalizationEpsilon))};
  Value scale = dropLeadingOnes(n, n.cast(n.in(1), wide), n.rank(x) - axis);
  if (n.failed())
    return failure();
  Value y;
  if (n.rank(scale) <= n.rank(x) - axis) {
    y = n.op<RmsNormOp>({n.cast(x, wide), scale}, attributes);
  } else {
    Value ones = n.splat(n.shape(x).drop_front(axis), 1, wide);
    y = n.op<MulOp>(
        {n.op<RmsNormOp>({n.cast(x, wide), ones}, attributes), scale});
  }
  return n.result(n.narrow(y, type));
}

static LogicalResult convertGroupNormalization(NodeImport &n) {
  Value x = n.in(0);
  int64_t groups = n.intAttr("num_groups", 0);
  double epsilon = n.floatAttr("epsilon", kNormalizationEpsilon);
  if (n.failed())
    return failure();
  int64_t channels = n.dim(x, 1);
  if (groups < 1 || channels % groups != 0)
    return n.error() << "attribute 'num_groups' is " << groups
                     << ", which does not divide the " << channels
                     << " channels";
  Type type = n.element(x), wide = stashType(n, type);
  // Version 18 has one scale per group, later versions one per channel.
  auto perChannel = [&](Value value) {
    value = n.cast(value, wide);
    if (n.version >= 21 || n.failed())
      return value;
    value = n.reshape(value, {groups, 1});
    return n.reshape(n.broadcast(value, {groups, channels / groups}),
                     {channels});
  };
  Value y = n.op<GroupNormOp>(
      {n.cast(x, wide), perChannel(n.in(1)), perChannel(n.in(2))},
      {n.attr("groups", groups), n.attrF("epsilon", epsilon)});
  return n.result(n.narrow(y, type));
}

/// The sum of squares over neighboring channels as an average pool, with the
/// channels as rows.
static LogicalResult convertLrn(NodeImport &n) {
  Value x = n.in(0);
  int64_t size = n.intAttr("size", 0);
  double alpha = n.floatAttr("alpha", double(1e-4f)),
         beta = n.floatAttr("beta", 0.75);
  double bias = n.floatAttr("bias", 1.0);
  if (n.failed())
    return failure();
  if (size < 1 || n.rank(x) < 3)
    return n.error() << "input " << x.getType() << " with attribute 'size' "
                     << size << " is not supported";
  Type type = n.element(x);
  int64_t rest = 1;
  for (int64_t extent : n.shape(x).drop_front(2))
    rest *= extent;
  Value squares =
      n.reshape(n.op<MulOp>({x, x}), {n.dim(x, 0), 1, n.dim(x, 1), rest});
  int64_t low = (size - 1) / 2;
  Value mean = n.op<AvgPoolOp>(
      squares,
      {n.attr("window", {size, 1}), n.attr("strides", {1, 1}),
       n.attr("pad_low", {low, 0}), n.attr("pad_high", {size - 1 - low, 0}),
       n.attr("dilations", {1, 1}), n.unit("count_include_pad")});
  Value base =
      n.op<MulOp>({n.reshape(mean, n.shape(x)), n.scalar(alpha, type)});
  base = n.op<AddOp>({base, n.scalar(bias, type)});
  return n.result(n.op<DivOp>({x, n.op<PowOp>({base, n.scalar(beta, type)})}));
}

static LogicalResult convertMeanVarianceNormalization(NodeImport &n) {
  Value x = n.in(0);
  SmallVector<int64_t> axes = n.axes(n.intsAttr("axes", {0, 2, 3}), n.rank(x));
  if (n.failed())
    return failure();
  Value mean = n.reduce<ReduceMeanOp>(x, axes);
  Value deviation = n.op<SqrtOp>(variance(n, x, mean, axes));
  deviation = n.op<AddOp>({deviation, n.scalar(1e-9, n.element(x))});
  return n.result(n.op<DivOp>({n.op<SubOp>({x, mean}), deviation}));
}

static LogicalResult convertLpNormalization(NodeImport &n) {
  Value x = n.in(0);
  int64_t p = n.intAttr("p", 2);
  if (n.failed())
    return failure();
  int64_t axis = n.axisAttr("axis", -1, n.rank(x));
  if (p != 1 && p != 2)
    return n.error() << "attribute 'p' is " << p << ", expected 1 or 2";
  Value norm = n.reduce<ReduceSumOp>(
      p == 1 ? n.op<AbsOp>(x) : n.op<MulOp>({x, x}), axis);
  if (p == 2)
    norm = n.op<SqrtOp>(norm);
  // Zero vectors stay zero.
  Type type = n.element(x);
  Value empty = n.compare(ComparePredicate::eq, norm, n.scalar(0, type));
  norm = n.select(empty, n.scalar(1, type), norm);
  return n.result(n.op<DivOp>({x, norm}));
}

/// Inference only: the identity, with an all-true mask.
static LogicalResult convertDropout(NodeImport &n) {
  Value x = n.in(0);
  if (n.has(2) && n.knownInt(2, "training_mode") != 0) {
    bool noDrop = false;
    if (n.has(1)) {
      SmallVector<double> ratio = n.constantFloatValues(1, "ratio");
      noDrop = ratio.size() == 1 && ratio.front() == 0;
    }
    if (!noDrop && !n.failed())
      return n.error()
             << "input 'training_mode' is true: a random mask is not supported";
  }
  n.set(0, x);
  if (n.wants(1))
    n.set(1, n.splat(n.shape(x), 1,
                     n.version >= 10 ? Type(n.builder.getI1Type())
                                     : n.element(x)));
  return n.status();
}

OpFamily mpc::onnx::normalizationOps() {
  static const OpEntry entries[] = {
      {"BatchNormalization 7,9,14,15 5 epsilon momentum spatial training_mode",
       convertBatchNormalization},
      {"Dropout 7,10,12,13,22 1-3 ratio seed", convertDropout},
      {"GroupNormalization 18,21 3 epsilon num_groups stash_type",
       convertGroupNormalization},
      {"InstanceNormalization 6,22 3 epsilon", convertInstanceNormalization},
      {"LRN 1,13 1 alpha beta bias size", convertLrn},
      {"LayerNormalization 17 2-3 axis epsilon stash_type",
       convertLayerNormalization},
      {"LpNormalization 1,22 1 axis p", convertLpNormalization},
      {"MeanVarianceNormalization 9,13 1 axes",
       convertMeanVarianceNormalization},
      {"RMSNormalization 23 2 axis epsilon stash_type",
       convertRmsNormalization},
  };
  return entries;
}
