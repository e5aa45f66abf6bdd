//===- RecognizeSoftmax.cpp - recognize softmax and log_softmax -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Roots are the division of softmax and the last subtraction of log_softmax.
// Legal because the function is the same; the kernel subtracts the maximum in
// any case.
//
//===----------------------------------------------------------------------===//

#include "MatchUtils.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_RECOGNIZESOFTMAXPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

namespace {

/// Strips the subtraction of the maximum from `value`: the maximum along
/// `axis`, or along `axis` and others.
Value skipMaximum(Value value, int64_t axis) {
  auto sub = value.getDefiningOp<SubOp>();
  if (!sub || sub.getLhs().getType() != sub.getType())
    return value;
  auto max = matchKeptReduction<ReduceMaxOp>(sub.getRhs());
  if (!max || max.getInput() != sub.getLhs() ||
      !llvm::is_contained(max.getAxes(), axis))
    return value;
  return sub.getLhs();
}

/// factor * exp(z).
struct ScaledExp {
  ExpOp exp;
  double factor = 1;
};

/// Matches exp(z), multiplied or divided by constants.
std::optional<ScaledExp> matchScaledExp(Value value) {
  ScaledExp scaled;
  // Each iteration strips one op.
  while (auto factor = matchScaled(value)) {
    scaled.factor *= factor->splat;
    value = factor->other;
  }
  scaled.exp = value.getDefiningOp<ExpOp>();
  bool isKnown = scaled.factor != 0 && std::isfinite(scaled.factor);
  return scaled.exp && isKnown ? std::optional(scaled) : std::nullopt;
}

/// factor * sum of exponentials along one axis, kept as extent 1.
struct ScaledExpSum : ScaledExp {
  int64_t axis = 0;
};
std::optional<ScaledExpSum> matchSumOfExp(Value value) {
  double outside = 1;
  while (auto factor = matchScaled(value)) {
    outside *= factor->splat;
    value = factor->other;
  }
  auto sum = matchKeptReduction<ReduceSumOp>(value);
  if (!sum || sum.getAxes().size() != 1)
    return std::nullopt;
  std::optional<ScaledExp> inside = matchScaledExp(sum.getInput());
  double factor = inside ? inside->factor * outside : 0;
  if (factor == 0 || !std::isfinite(factor))
    return std::nullopt;
  return ScaledExpSum{{inside->exp, factor}, sum.getAxes().front()};
}

template <typename OpTy>
void replaceBy(PatternRewriter &rewriter, Operation *root, Value input,
               int64_t axis) {
  auto made = OpTy::create(rewriter, root->getLoc(),
                           root->getResult(0).getType(), input, axis);
  copyLayer(root, made);
  rewriter.replaceOp(root, made.getResult());
}

/// exp(z) / sum(exp(z)), as quotient or as product with the reciprocal.
template <typename RootOp> struct SoftmaxPattern : OpRewritePattern<RootOp> {
  SoftmaxPattern(MLIRContext *context) : OpRewritePattern<RootOp>(context) {
    this->setDebugName("SoftmaxPattern");
  }

  LogicalResult matchAndRewrite(RootOp op,
                                PatternRewriter &rewriter) const override {
    for (int side = 0; side < (std::is_same_v<RootOp, MulOp> ? 2 : 1); ++side) {
      std::optional<ScaledExp> numerator = matchScaledExp(op->getOperand(side));
      Value denominator = op->getOperand(1 - side);
      if constexpr (std::is_same_v<RootOp, MulOp>) {
        auto inverse =
            skipBroadcast(denominator).template getDefiningOp<ReciprocalOp>();
        if (!inverse)
          continue;
        denominator = inverse.getInput();
      }
      std::optional<ScaledExpSum> sum = matchSumOfExp(denominator);
      if (!numerator || !sum || sum->exp != numerator->exp ||
          sum->exp.getType() != op.getType())
        continue;
      Value input = skipMaximum(sum->exp.getInput(), sum->axis);
      // Common factors cancel; the remainder scales the softmax.
      double factor = numerator->factor / sum->factor;
      if (factor == 1) {
        replaceBy<SoftmaxOp>(rewriter, op, input, sum->axis);
        return success();
      }
      auto softmax = SoftmaxOp::create(rewriter, op->getLoc(), op.getType(),
                                       input, sum->axis);
      copyLayer(op, softmax);
      Type element = getElementTypeOrSelf(op.getType());
      auto scale = ConstantOp::create(
          rewriter, op->getLoc(),
          makeSplat(RankedTensorType::get({}, element), factor));
      auto scaled = MulOp::create(rewriter, op->getLoc(), op.getType(),
                                  softmax.getResult(), scale);
      copyLayer(op, scaled);
      rewriter.replaceOp(op, scaled.getResult());
      return success();
    }
    return rewriter.notifyMatchFailure(op, "no exp over the sum of itself");
  }
};

/// z - log(sum(exp(z))).
struct LogSoftmaxPattern : OpRewritePattern<SubOp> {
  LogSoftmaxPattern(MLIRContext *context) : OpRewritePattern(context) {
    setDebugName("LogSoftmaxPattern");
  }

  LogicalResult matchAndRewrite(SubOp op,
                                PatternRewriter &rewriter) const override {
    Value logarithm = skipBroadcast(op.getRhs());
    auto log = logarithm.getDefiningOp<LogOp>();
    std::optional<ScaledExpSum> sum;
    if (log)
      sum = matchSumOfExp(log.getInput());
    if (!sum || sum->factor != 1 || sum->exp.getInput() != op.getLhs() ||
        op.getLhs().getType() != op.getType())
      return rewriter.notifyMatchFailure(
          op, "no log of the sum of exp of the left side");
    replaceBy<LogSoftmaxOp>(rewriter, op, skipMaximum(op.getLhs(), sum->axis),
                            sum->axis);
    return success();
  }
};

/// log(softmax(x)).
struct LogOfSoftmaxPattern : OpRewritePattern<LogOp> {
  LogOfSoftmaxPattern(MLIRContext *context) : OpRewritePattern(context) {
    setDebugName("LogOfSoftmaxPattern");
  }

  LogicalResult matchAndRewrite(LogOp op,
                                PatternRewriter &rewriter) const override {
    auto softmax = op.getInput().getDefiningOp<SoftmaxOp>();
    if (!softmax)
      return rewriter.notifyMatchFailure(op, "no softmax below the log");
    replaceBy<LogSoftmaxOp>(rewriter, op, softmax.getInput(),
                            softmax.getAxis());
    return success();
  }
};

struct RecognizeSoftmaxPass
    : PatternPass<mpc::impl::RecognizeSoftmaxPassBase<RecognizeSoftmaxPass>,
                  SoftmaxPattern<DivOp>, SoftmaxPattern<MulOp>,
                  LogSoftmaxPattern, LogOfSoftmaxPattern> {
  void runOnOperation() override {
    Operation *root = getOperation();
    int64_t softmax = countOps<SoftmaxOp>(root),
            logSoftmax = countOps<LogSoftmaxOp>(root);
    if (failed(rewrite("recognition of softmax")))
      return;
    numSoftmax += std::max<int64_t>(0, countOps<SoftmaxOp>(root) - softmax);
    numLogSoftmax += countOps<LogSoftmaxOp>(root) - logSoftmax;
  }
};

} // namespace
