//===- RecognizeLayerNorm.cpp - recognize layer norm and RMS norm ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The root is the division by the deviation; scale and bias come from the ops
// that follow. Legal because the composite is the same two-pass formula, or the
// same function as the one-pass formula and more accurate.
//
//===----------------------------------------------------------------------===//

#include "MatchUtils.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_RECOGNIZELAYERNORMPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

namespace {

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

/// Matches 1 / sqrt(v) or, for `asDivisor`, sqrt(v); returns v.
Value matchRoot(Value value, bool asDivisor) {
  value = skipBroadcast(value);
  if (auto pow = value.getDefiningOp<PowOp>()) {
    if (splatValue(pow.getRhs()) == (asDivisor ? 0.5 : -0.5) &&
        pow.getLhs().getType() == pow.getType())
      return pow.getLhs();
    return {};
  }
  if (asDivisor) {
    auto sqrt = value.getDefiningOp<SqrtOp>();
    return sqrt ? sqrt.getInput() : Value();
  }
  if (auto rsqrt = value.getDefiningOp<RsqrtOp>())
    return rsqrt.getInput();
  if (auto inverse = value.getDefiningOp<ReciprocalOp>())
    return matchRoot(inverse.getInput(), /*asDivisor=*/true);
  if (auto quotient = value.getDefiningOp<DivOp>();
      quotient && splatValue(quotient.getLhs()) == 1.0)
    return matchRoot(quotient.getRhs(), /*asDivisor=*/true);
  return {};
}

/// Returns true if both are the same value or the same difference.
bool isSame(Value a, Value b) {
  if (a == b)
    return true;
  auto left = a.getDefiningOp<SubOp>(), right = b.getDefiningOp<SubOp>();
  if (!left || !right || left.getLhs() != right.getLhs())
    return false;
  std::optional<Mean> leftMean = matchMean(left.getRhs()),
                      rightMean = matchMean(right.getRhs());
  return leftMean && rightMean && leftMean->input == rightMean->input &&
         leftMean->axes == rightMean->axes;
}

/// Matches v * v or v^2; returns v.
Value matchSquare(Value value) {
  if (auto mul = value.getDefiningOp<MulOp>())
    return isSame(mul.getLhs(), mul.getRhs()) ? mul.getLhs() : Value();
  if (auto pow = value.getDefiningOp<PowOp>())
    return splatValue(pow.getRhs()) == 2.0 &&
                   pow.getLhs().getType() == pow.getType()
               ? pow.getLhs()
               : Value();
  return {};
}

/// Matches a mean with or without kept dimensions.
std::optional<Mean> matchAnyMean(Value value) {
  if (auto mean = value.getDefiningOp<ReduceMeanOp>())
    return Mean{mean.getInput(), SmallVector<int64_t>(mean.getAxes())};
  return matchMean(value);
}

/// Matches E[x * x] - E[x] * E[x], optionally clamped at 0, with kept
/// dimensions (Flax's variance); returns x and the axes.
std::optional<Mean> matchOnePassVariance(Value value) {
  Value inner = skipBroadcast(value);
  ArrayRef<int64_t> kept = shapeOf(inner);
  if (auto reshape = inner.getDefiningOp<ReshapeOp>())
    inner = reshape.getInput();
  if (auto cut = inner.getDefiningOp<ReluOp>())
    inner = cut.getInput();
  auto difference = inner.getDefiningOp<SubOp>();
  if (!difference)
    return std::nullopt;
  std::optional<Mean> squares = matchAnyMean(difference.getLhs());
  Value base = squares ? matchSquare(squares->input) : Value();
  Value meanValue = matchSquare(difference.getRhs());
  std::optional<Mean> mean =
      base && meanValue ? matchAnyMean(meanValue) : std::nullopt;
  if (!mean || mean->input != base || mean->axes != squares->axes)
    return std::nullopt;
  SmallVector<int64_t> expected(shapeOf(base));
  for (int64_t axis : mean->axes)
    expected[axis] = 1;
  if (kept != ArrayRef<int64_t>(expected))
    return std::nullopt;
  return mean;
}

/// A normalized value before scale and bias.
struct Core {
  Value input;
  int64_t axis;
  double epsilon;
  bool centred;
  /// Scale that the model folded into the reciprocal root.
  Value scale;
};

/// Returns true if `value` broadcasts only along the axes from `axis` on.
bool fitsNormalisedExtents(Value value, ArrayRef<int64_t> shape, int64_t axis) {
  ArrayRef<int64_t> own = shapeOf(value);
  if (own.size() > shape.size())
    return false;
  int64_t offset = shape.size() - own.size();
  for (auto [i, extent] : llvm::enumerate(own)) {
    int64_t dimension = int64_t(i) + offset;
    if (extent != 1 && (dimension < axis || extent != shape[dimension]))
      return false;
  }
  return true;
}

/// Matches `numerator` * `inverse`, or numerator / inverse if `asDivisor`.
std::optional<Core> matchCore(Value numerator, Value inverse, bool asDivisor) {
  Core core;
  Value variance = matchRoot(inverse, asDivisor);
  if (!variance && !asDivisor) {
    // numerator * (rsqrt(..) * scale)
    auto mul = inverse.getDefiningOp<MulOp>();
    for (int side = 0; mul && side < 2 && !variance; ++side) {
      variance = matchRoot(mul->getOperand(side), /*asDivisor=*/false);
      core.scale = mul->getOperand(1 - side);
    }
  }
  if (!variance)
    return std::nullopt;
  std::optional<SplatOperand> sum = matchWithSplat<AddOp>(variance);
  if (!sum || sum->splat < 0)
    return std::nullopt;
  core.epsilon = sum->splat;
  std::optional<Mean> onePass = matchOnePassVariance(sum->other);
  std::optional<Mean> squares = onePass ? onePass : matchMean(sum->other);
  if (!squares)
    return std::nullopt;
  if (!onePass) {
    Value base = matchSquare(squares->input);
    if (!base || !isSame(base, numerator))
      return std::nullopt;
  }
  core.input = numerator;
  core.centred = false;
  if (auto sub = numerator.getDefiningOp<SubOp>()) {
    std::optional<Mean> mean = matchMean(sub.getRhs());
    if (mean && mean->input == sub.getLhs() && mean->axes == squares->axes) {
      core.input = sub.getLhs();
      core.centred = true;
    }
  }
  if (onePass && !(core.centred && core.input == onePass->input))
    return std::nullopt;
  // The axes must be the last ones.
  ArrayRef<int64_t> shape = shapeOf(core.input);
  core.axis = int64_t(shape.size()) - int64_t(squares->axes.size());
  for (auto [i, axis] : llvm::enumerate(squares->axes))
    if (axis != core.axis + int64_t(i))
      return std::nullopt;
  if (squares->axes.empty() || shapeOf(numerator) != shape)
    return std::nullopt;
  if (core.scale && !fitsNormalisedExtents(core.scale, shape, core.axis))
    return std::nullopt;
  return core;
}

//===----------------------------------------------------------------------===//
// Pattern
//===----------------------------------------------------------------------===//

/// Returns the only user of `value` if it is an `OpTy` of the same type; stores
/// its other operand in `other`.
template <typename OpTy> OpTy onlyReader(Value value, Value &other) {
  if (!value.hasOneUse())
    return {};
  OpOperand &use = *value.getUses().begin();
  auto op = dyn_cast<OpTy>(use.getOwner());
  if (!op || op.getType() != value.getType())
    return {};
  other = op->getOperand(1 - use.getOperandNumber());
  return op;
}

template <typename RootOp> struct NormPattern : OpRewritePattern<RootOp> {
  NormPattern(MLIRContext *context) : OpRewritePattern<RootOp>(context) {
    this->setDebugName("NormPattern");
  }

  LogicalResult matchAndRewrite(RootOp op,
                                PatternRewriter &rewriter) const override {
    std::optional<Core> core;
    constexpr bool isDivision = std::is_same_v<RootOp, DivOp>;
    for (int side = 0; side < (isDivision ? 1 : 2) && !core; ++side)
      core =
          matchCore(op->getOperand(side), op->getOperand(1 - side), isDivision);
    if (!core || core->input.getType() != op.getType())
      return rewriter.notifyMatchFailure(op,
                                         "no value over its root mean square");

    ArrayRef<int64_t> shape = shapeOf(core->input);
    Operation *last = op;
    SmallVector<Operation *> parts = {op};
    Value scale = core->scale, bias, other;
    if (!scale) {
      auto mul = onlyReader<MulOp>(last->getResult(0), other);
      if (mul && fitsNormalisedExtents(other, shape, core->axis)) {
        scale = other;
        last = mul;
        parts.push_back(mul);
      }
    }
    if (core->centred) {
      auto add = onlyReader<AddOp>(last->getResult(0), other);
      if (add && fitsNormalisedExtents(other, shape, core->axis)) {
        bias = other;
        last = add;
        parts.push_back(add);
      }
    }

    rewriter.setInsertionPoint(last);
    Type element = getElementTypeOrSelf(op.getType());
    // Leading extents of 1 are redundant.
    auto normalised = [&](Value value) -> Value {
      ArrayRef<int64_t> own = shapeOf(value);
      int64_t most = int64_t(shape.size()) - core->axis;
      if (int64_t(own.size()) <= most)
        return value;
      return ReshapeOp::create(
          rewriter, value.getLoc(),
          RankedTensorType::get(own.take_back(most), element), value);
    };
    if (!scale)
      scale = ConstantOp::create(
          rewriter, op.getLoc(),
          makeSplat(
              RankedTensorType::get(shape.drop_front(core->axis), element),
              1.0));
    scale = normalised(scale);
    if (bias)
      bias = normalised(bias);
    llvm::APFloat epsilon(core->epsilon);
    Location loc = fuseLocations(parts);
    Operation *norm;
    if (core->centred)
      norm = LayerNormOp::create(rewriter, loc, op.getType(), core->input,
                                 scale, bias, uint64_t(core->axis), epsilon);
    else
      norm = RmsNormOp::create(rewriter, loc, op.getType(), core->input, scale,
                               uint64_t(core->axis), epsilon);
    copyLayer(op, norm);
    rewriter.replaceOp(last, norm->getResults());
    return success();
  }
};

struct RecognizeLayerNormPass
    : PatternPass<mpc::impl::RecognizeLayerNormPassBase<RecognizeLayerNormPass>,
                  NormPattern<DivOp>, NormPattern<MulOp>> {
  void runOnOperation() override {
    Operation *root = getOperation();
    int64_t layer = countOps<LayerNormOp>(root),
            rms = countOps<RmsNormOp>(root);
    if (failed(rewrite("recognition of norms")))
      return;
    numLayerNorm += countOps<LayerNormOp>(root) - layer;
    numRmsNorm += countOps<RmsNormOp>(root) - rms;
  }
};

} // namespace
