//===- DecomposeNorms.cpp - decompose training-mode norms -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decomposes batch norm with batch statistics and the gradients of norms into
// elementwise ops and reductions.
//
//===----------------------------------------------------------------------===//

#include "Decompose.h"
#include "ScalarEmitter.h"

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCommunicationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;

namespace {

/// Helper for per-channel reductions (axis 1) of a tensor.
class Channels {
public:
  Channels(ScalarEmitter &emit, Value input, int64_t ranks)
      : emit(emit), ranks(ranks), element(getElementTypeOrSelf(input)),
        wide(sumType(element)), shape(shapeOf(input)), axes(allAxes(input)),
        spread(shape.size(), 1) {
    axes.erase(axes.begin() + 1);
    spread[1] = shape[1];
  }

  Value widen(Value value) { return emit.cast(value, wide); }
  Value mean(Value value) {
    return emit.reduce<ReduceMeanOp>(value, axes, /*keepDims=*/true);
  }
  Value sum(Value value) {
    return emit.reduce<ReduceSumOp>(value, axes, /*keepDims=*/true);
  }
  /// Broadcasts `[channels]` over all elements of a channel, and the inverse.
  Value perChannel(Value value) { return emit.reshape(widen(value), spread); }
  Value ofChannels(Value value, Type type) {
    return emit.cast(emit.reshape(value, {shape[1]}), type);
  }
  /// Elements of a channel over all ranks.
  double count() const {
    return static_cast<double>(ranks * shape[0] *
                               productOf(ArrayRef(shape).drop_front(2)));
  }

  /// Combines the mean and variance of all ranks: the mean of the means, and
  /// the mean of the variances plus the variance of the means (Chan, Golub and
  /// LeVeque, Updating formulae and a pairwise algorithm for computing sample
  /// variances, 1979).
  void joinRanks(Value &mean, Value &variance) {
    if (ranks == 1)
      return;
    SmallVector<int64_t> all(spread);
    all.insert(all.begin(), ranks);
    auto type = RankedTensorType::get(all, wide);
    auto gather = AllGatherOp::create(
        emit.builder, mean.getLoc(), TypeRange({Type(type), Type(type)}),
        ValueRange({mean, variance}), uint64_t(ranks));
    auto overRanks = [&](Value value) {
      return emit.reduce<ReduceMeanOp>(value, ArrayRef<int64_t>{0});
    };
    Value means = gather.getOutputs()[0], variances = gather.getOutputs()[1];
    mean = overRanks(means);
    SmallVector<int64_t> one(all);
    one[0] = 1;
    Value apart = emit.sub(means, emit.reshape(mean, one));
    variance = overRanks(emit.add(variances, emit.mul(apart, apart)));
  }

  /// All-reduces local sums.
  SmallVector<Value> sumsOfRanks(ArrayRef<Value> sums) {
    if (ranks == 1)
      return SmallVector<Value>(sums);
    auto all = AllReduceOp::create(
        emit.builder, sums.front().getLoc(), TypeRange(ValueRange(sums)),
        ValueRange(sums), RankReduction::sum, uint64_t(ranks), TypeAttr());
    return SmallVector<Value>(all.getOutputs());
  }

  ScalarEmitter &emit;
  int64_t ranks;
  Type element, wide;
  SmallVector<int64_t> shape, axes, spread;
};

/// Returns the input of an upcast, else `value`.
Value behindWidening(Value value) {
  auto cast = value.getDefiningOp<CastOp>();
  bool widens =
      cast && getElementTypeOrSelf(cast.getInput()).getIntOrFloatBitWidth() <
                  getElementTypeOrSelf(value).getIntOrFloatBitWidth();
  return widens ? cast.getInput() : value;
}

/// Computes mean, biased variance and sqrt(variance + epsilon) of each channel.
/// The gradient reuses the values of the forward norm.
ChannelStatistics statisticsOf(Channels &channels, Value input,
                               const APFloat &epsilon,
                               SharedStatistics &shared) {
  ChannelStatistics &found =
      shared[{behindWidening(input),
              llvm::bit_cast<uint64_t>(epsilon.convertToDouble())}];
  if (!found.mean) {
    ScalarEmitter &emit = channels.emit;
    Value wide = channels.widen(input);
    found.mean = channels.mean(wide);
    Value centred = emit.sub(wide, found.mean);
    found.variance = channels.mean(emit.mul(centred, centred));
    channels.joinRanks(found.mean, found.variance);
    found.root = emit.sqrt(
        emit.add(found.variance,
                 emit.number(epsilon.convertToDouble(), found.variance)));
  }
  return found;
}

SmallVector<Value> decompose(ScalarEmitter &emit, BatchNormTrainingOp op,
                             SharedStatistics &shared, int64_t ranks) {
  Channels channels(emit, op.getInput(), ranks);
  ChannelStatistics batch =
      statisticsOf(channels, op.getInput(), op.getEpsilon(), shared);
  Value centred = emit.sub(channels.widen(op.getInput()), batch.mean);
  Value factor = emit.div(channels.perChannel(op.getScale()), batch.root);
  Value result =
      emit.add(emit.mul(centred, factor), channels.perChannel(op.getBias()));

  Type statistics = getElementTypeOrSelf(op.getMean());
  double momentum = op.getMomentum().convertToDouble(),
         count = channels.count();
  auto blend = [&](Value old, Value batch) {
    return emit.add(emit.scale(old, 1 - momentum), emit.scale(batch, momentum));
  };
  return {emit.cast(result, channels.element),
          blend(op.getMean(), channels.ofChannels(batch.mean, statistics)),
          blend(op.getVariance(),
                emit.scale(channels.ofChannels(batch.variance, statistics),
                           count / std::max(count - 1, 1.0)))};
}

SmallVector<Value> decompose(ScalarEmitter &emit, BatchNormGradientOp op,
                             SharedStatistics &shared, int64_t ranks) {
  Channels channels(emit, op.getInput(), ranks);
  ChannelStatistics batch =
      statisticsOf(channels, op.getInput(), op.getEpsilon(), shared);
  Value gradient = channels.widen(op.getGradient());
  Value factor = emit.div(emit.number(1, batch.root), batch.root);
  Value normal =
      emit.mul(emit.sub(channels.widen(op.getInput()), batch.mean), factor);
  Value biasSum = channels.sum(gradient),
        scaleSum = channels.sum(emit.mul(gradient, normal));
  SmallVector<Value> sums = channels.sumsOfRanks({biasSum, scaleSum});
  double share = 1 / channels.count();
  Value rest = emit.sub(emit.sub(gradient, emit.scale(sums[0], share)),
                        emit.mul(normal, emit.scale(sums[1], share)));
  Value slope = emit.mul(channels.perChannel(op.getScale()), factor);
  Type parameter = getElementTypeOrSelf(op.getScale());
  return {emit.cast(emit.mul(rest, slope), channels.element),
          channels.ofChannels(scaleSum, parameter),
          channels.ofChannels(biasSum, parameter)};
}

/// Gradient of a norm over rows of normalized elements; the reductions over
/// rows come last.
SmallVector<Value> decompose(ScalarEmitter &emit, NormGradientOp op) {
  Type element = getElementTypeOrSelf(op.getInput()), wide = sumType(element);
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  int64_t axis = op.getAxis(), rank = shape.size();
  SmallVector<int64_t> rows(shape.take_front(axis));
  rows.push_back(productOf(shape.drop_front(axis)));
  auto asRows = [&](Value value) {
    return emit.reshape(emit.cast(value, wide), rows);
  };
  auto mean = [&](Value value) {
    return emit.reduce<ReduceMeanOp>(value, axis, /*keepDims=*/true);
  };
  Value input = asRows(op.getInput()), gradient = asRows(op.getGradient());
  Value scale = emit.cast(op.getScale(), wide);
  // A reshape suffices if the scale has one value per element of a row.
  if (productOf(shapeOf(scale)) == rows.back()) {
    scale = emit.reshape(scale, {rows.back()});
  } else {
    SmallVector<int64_t> extents(shape.drop_front(axis));
    scale = emit.reshape(
        emit.create<BroadcastOp>(RankedTensorType::get(extents, wide), scale),
        {rows.back()});
  }

  bool isCentred = !op.getRootMeanSquare();
  Value centred = isCentred ? emit.sub(input, mean(input)) : input;
  Value square = mean(emit.mul(centred, centred));
  Value factor = emit.unary<RsqrtOp>(
      emit.add(square, emit.number(op.getEpsilon().convertToDouble(), square)));
  Value normal = emit.mul(centred, factor);
  Value scaled = emit.mul(gradient, scale);
  Value along = emit.mul(normal, mean(emit.mul(scaled, normal)));
  if (isCentred)
    scaled = emit.sub(scaled, mean(scaled));
  Value inputGradient = emit.mul(emit.sub(scaled, along), factor);

  Value product = emit.mul(gradient, normal);
  SmallVector<int64_t> scaleShape(shapeOf(op.getScale())), axes;
  bool isWhole = productOf(scaleShape) == rows.back();
  if (!isWhole)
    product = emit.reshape(product, shape);
  int64_t missing = rank - static_cast<int64_t>(scaleShape.size());
  for (int64_t d = 0; d < static_cast<int64_t>(shapeOf(product).size()); ++d)
    if (isWhole ? d < axis : d < missing || scaleShape[d - missing] != shape[d])
      axes.push_back(d);
  Value scaleGradient =
      axes.empty() ? product : emit.reduce<ReduceSumOp>(product, axes);
  return {emit.cast(emit.reshape(inputGradient, shape), element),
          emit.cast(emit.reshape(scaleGradient, scaleShape),
                    getElementTypeOrSelf(op.getScale()))};
}

} // namespace

SmallVector<Value> mpc::decomposeNorm(OpBuilder &builder, Operation *op,
                                      SharedStatistics &shared, int64_t ranks) {
  ScalarEmitter emit(builder, op);
  return TypeSwitch<Operation *, SmallVector<Value>>(op)
      .Case<BatchNormTrainingOp, BatchNormGradientOp>(
          [&](auto norm) { return decompose(emit, norm, shared, ranks); })
      .Case([&](NormGradientOp norm) { return decompose(emit, norm); })
      .Default([](Operation *) { return SmallVector<Value>(); });
}
