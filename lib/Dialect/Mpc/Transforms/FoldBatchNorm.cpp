//===- FoldBatchNorm.cpp - fold batch norm into contractions --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// batch_norm(contraction(x, w) + b) -> contraction(x, w * s) + (shift + (b -
// mean) * s) with s = scale / sqrt(variance + epsilon) per output channel.
// Legal because both are linear in the channel; constants are computed in f64
// and rounded once.
//
//===----------------------------------------------------------------------===//

#include "MatchUtils.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/Reference/Tensor.h"

#include "mlir/IR/PatternMatch.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using reference::Tensor;

namespace mpc {
#define GEN_PASS_DEF_FOLDBATCHNORMPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

namespace {

std::optional<Tensor> constantTensor(Value value) {
  // A splat may represent more elements than memory holds.
  constexpr int64_t kLargestSplat = int64_t(64) << 20;
  auto op = value.getDefiningOp<ConstantOp>();
  if (!op ||
      (splatValue(op.getValue()) && byteCount(value.getType()) > kLargestSplat))
    return std::nullopt;
  FailureOr<Tensor> tensor = Tensor::fromAttr(op.getValue());
  if (failed(tensor))
    return std::nullopt;
  return tensor;
}

/// Position of the output channels in the weights of a contraction.
struct ChannelWeights {
  unsigned operand = 1;
  int64_t axis = 0;
  /// Number of groups on axis 0; channel indices along `axis` restart in each.
  int64_t groups = 1;
};

/// Returns the channel indexing of the weights of `op`; nullopt if `op` is not
/// a contraction with output channels on axis 1.
std::optional<ChannelWeights> channelWeights(Operation *op) {
  if (auto conv = dyn_cast_if_present<ConvOp>(op)) {
    if (conv.getPacked() || conv.getLayout() != ImageLayout::channels_first)
      return std::nullopt;
    return ChannelWeights{1, 0, 1};
  }
  if (auto conv = dyn_cast_if_present<ConvTransposeOp>(op))
    return ChannelWeights{1, 1, int64_t(conv.getGroups())};
  if (auto matmul = dyn_cast_if_present<MatmulOp>(op)) {
    if (matmul.getPacked() || rankOf(matmul.getRhs()) != 2 ||
        rankOf(matmul.getResult()) != 2)
      return std::nullopt;
    return ChannelWeights{1, matmul.getTransposeRhs() ? 0 : 1, 1};
  }
  return std::nullopt;
}

/// Scales the weights of each output channel.
void scaleWeights(Tensor &weights, const ChannelWeights &place,
                  ArrayRef<double> factors) {
  ArrayRef<int64_t> shape = weights.getShape();
  int64_t inner = 1, extent = shape[place.axis], outer = 1;
  for (int64_t i = place.axis + 1; i < int64_t(shape.size()); ++i)
    inner *= shape[i];
  for (int64_t i = 0; i < place.axis; ++i)
    outer *= shape[i];
  MutableArrayRef<double> data = weights.floats();
  for (int64_t o = 0; o < outer; ++o) {
    int64_t group = place.groups == 1 ? 0 : o * place.groups / outer;
    for (int64_t c = 0; c < extent; ++c)
      for (int64_t i = 0; i < inner; ++i)
        data[(o * extent + c) * inner + i] *= factors[group * extent + c];
  }
}

/// Returns the values of a constant bias with one value per channel (axis 1) of
/// a `rank`-D result, or nullopt.
std::optional<SmallVector<double>> channelBias(Value value, int64_t rank,
                                               int64_t channels) {
  ArrayRef<int64_t> shape = shapeOf(value);
  int64_t offset = rank - int64_t(shape.size());
  if (offset < 0)
    return std::nullopt;
  for (auto [i, extent] : llvm::enumerate(shape))
    if (extent != 1 && !(int64_t(i) + offset == 1 && extent == channels))
      return std::nullopt;
  std::optional<Tensor> tensor = constantTensor(value);
  if (!tensor)
    return std::nullopt;
  SmallVector<double> bias(channels);
  for (int64_t c = 0; c < channels; ++c)
    bias[c] = tensor->floats()[tensor->size() == 1 ? 0 : c];
  return bias;
}

struct FoldIntoContraction : OpRewritePattern<BatchNormOp> {
  FoldIntoContraction(MLIRContext *context) : OpRewritePattern(context) {
    setDebugName("FoldIntoContraction");
  }

  LogicalResult matchAndRewrite(BatchNormOp op,
                                PatternRewriter &rewriter) const override {
    auto element = cast<FloatType>(getElementTypeOrSelf(op.getType()));
    if (element.getWidth() < 32)
      return rewriter.notifyMatchFailure(
          op, "a narrow filter would be rounded twice");
    int64_t rank = rankOf(op.getResult()), channels = shapeOf(op.getScale())[0];

    // The contraction, directly or before a bias add.
    Value input = op.getInput();
    if (!input.hasOneUse())
      return rewriter.notifyMatchFailure(op, "the input has other readers");
    SmallVector<double> bias(channels, 0.0);
    auto add = input.getDefiningOp<AddOp>();
    Operation *contraction = input.getDefiningOp();
    if (add) {
      for (int side = 0; side < 2; ++side) {
        Value candidate = add->getOperand(side);
        if (auto found = channelBias(add->getOperand(1 - side), rank, channels);
            found && candidate.getType() == input.getType()) {
          bias = std::move(*found);
          contraction =
              candidate.hasOneUse() ? candidate.getDefiningOp() : nullptr;
          break;
        }
      }
    }
    std::optional<ChannelWeights> place = channelWeights(contraction);
    if (!place)
      return rewriter.notifyMatchFailure(op,
                                         "no contraction of its own before it");
    if (contraction->getResult(0).getType() != op.getType())
      return rewriter.notifyMatchFailure(op,
                                         "the contraction has another type");

    Value weightValue = contraction->getOperand(place->operand);
    std::optional<Tensor> weights = constantTensor(weightValue);
    std::optional<Tensor> scale = constantTensor(op.getScale());
    std::optional<Tensor> shift = constantTensor(op.getBias());
    std::optional<Tensor> mean = constantTensor(op.getMean());
    std::optional<Tensor> variance = constantTensor(op.getVariance());
    if (!weights || !scale || !shift || !mean || !variance)
      return rewriter.notifyMatchFailure(
          op, "weights or statistics are no constants");
    if (getElementTypeOrSelf(weightValue.getType()) != element)
      return rewriter.notifyMatchFailure(op, "the weights have another type");

    SmallVector<double> factors(channels);
    double epsilon = op.getEpsilon().convertToDouble();
    SmallVector<int64_t> biasShape(rank, 1);
    biasShape[1] = channels;
    Tensor moved(RankedTensorType::get(biasShape, element));
    for (int64_t c = 0; c < channels; ++c) {
      factors[c] =
          scale->floats()[c] / std::sqrt(variance->floats()[c] + epsilon);
      moved.floats()[c] =
          shift->floats()[c] + (bias[c] - mean->floats()[c]) * factors[c];
    }
    scaleWeights(*weights, *place, factors);

    rewriter.setInsertionPoint(contraction);
    std::string name = opName(contraction).str();
    auto newWeights =
        ConstantOp::create(rewriter, weightValue.getLoc(),
                           weights->toAttr(name + ".folded_weight"));
    copyLayer(weightValue.getDefiningOp(), newWeights);
    rewriter.modifyOpInPlace(contraction, [&] {
      contraction->setOperand(place->operand, newWeights.getResult());
    });
    rewriter.setInsertionPoint(op);
    auto newBias = ConstantOp::create(rewriter, op.getLoc(),
                                      moved.toAttr(name + ".folded_bias"));
    Location loc = add ? fuseLocations({add, op}) : op.getLoc();
    auto sum = rewriter.replaceOpWithNewOp<AddOp>(
        op, op.getType(), contraction->getResult(0), newBias.getResult());
    sum->setLoc(loc);
    copyLayer(contraction, sum);
    return success();
  }
};

struct FoldBatchNormPass
    : PatternPass<mpc::impl::FoldBatchNormPassBase<FoldBatchNormPass>,
                  FoldIntoContraction> {
  void runOnOperation() override {
    int64_t before = countOps<BatchNormOp>(getOperation());
    if (failed(rewrite("folding of batch norms")))
      return;
    int64_t after = countOps<BatchNormOp>(getOperation());
    numFolded += before - after;
    numKept += after;
  }
};

} // namespace
