//===- RecognizeSoftmax.cpp - steps of softmax into one op ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Roots are the quotient of softmax and the last difference of log_softmax.
// Legal because the value is the same function; the maximum is subtracted in
// any case.
//
//===----------------------------------------------------------------------===//

#include "MatchUtils.h"

#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_RECOGNIZESOFTMAXPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

namespace {

/// `value` without the subtraction of its own maximum along `axis`.
Value skipMaximum(Value value, int64_t axis) {
  auto sub = value.getDefiningOp<SubOp>();
  if (!sub || sub.getLhs().getType() != sub.getType())
    return value;
  auto max = matchKeptReduction<ReduceMaxOp>(sub.getRhs());
  if (!max || max.getInput() != sub.getLhs() ||
      max.getAxes() != ArrayRef<int64_t>(axis))
    return value;
  return sub.getLhs();
}

/// The sum of `exp` along one axis, kept as extent 1: that axis, or nullopt.
std::optional<int64_t> matchSumOfExp(Value value, ExpOp &exp) {
  auto sum = matchKeptReduction<ReduceSumOp>(value);
  if (!sum || sum.getAxes().size() != 1)
    return std::nullopt;
  exp = sum.getInput().getDefiningOp<ExpOp>();
  if (!exp)
    return std::nullopt;
  return sum.getAxes().front();
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
      auto numerator = op->getOperand(side).template getDefiningOp<ExpOp>();
      Value denominator = op->getOperand(1 - side);
      if constexpr (std::is_same_v<RootOp, MulOp>) {
        auto inverse =
            skipBroadcast(denominator).template getDefiningOp<ReciprocalOp>();
        if (!inverse)
          continue;
        denominator = inverse.getInput();
      }
      ExpOp exp;
      std::optional<int64_t> axis = matchSumOfExp(denominator, exp);
      if (!numerator || !axis || exp != numerator ||
          exp.getType() != op.getType())
        continue;
      replaceBy<SoftmaxOp>(rewriter, op, skipMaximum(exp.getInput(), *axis),
                           *axis);
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
    ExpOp exp;
    std::optional<int64_t> axis;
    if (log)
      axis = matchSumOfExp(log.getInput(), exp);
    if (!axis || exp.getInput() != op.getLhs() ||
        op.getLhs().getType() != op.getType())
      return rewriter.notifyMatchFailure(
          op, "no log of the sum of exp of the left side");
    replaceBy<LogSoftmaxOp>(rewriter, op, skipMaximum(op.getLhs(), *axis),
                            *axis);
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
    : mpc::impl::RecognizeSoftmaxPassBase<RecognizeSoftmaxPass> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    set.add<SoftmaxPattern<DivOp>, SoftmaxPattern<MulOp>, LogSoftmaxPattern,
            LogOfSoftmaxPattern>(context);
    patterns = std::move(set);
    return success();
  }

  void runOnOperation() override {
    Operation *root = getOperation();
    int64_t softmax = countOps<SoftmaxOp>(root),
            logSoftmax = countOps<LogSoftmaxOp>(root);
    if (failed(applyPatternsGreedily(
            root, patterns, GreedyRewriteConfig().enableFolding(false)))) {
      root->emitError("recognition of softmax does not converge");
      return signalPassFailure();
    }
    numSoftmax += std::max<int64_t>(0, countOps<SoftmaxOp>(root) - softmax);
    numLogSoftmax += countOps<LogSoftmaxOp>(root) - logSoftmax;
  }

  FrozenRewritePatternSet patterns;
};

} // namespace
