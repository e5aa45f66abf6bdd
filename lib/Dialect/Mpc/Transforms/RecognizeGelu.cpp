//===- RecognizeGelu.cpp - recognize gelu ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Flattens the product and compares its factors with both formulas (erf and
// tanh). Legal because the function is the same up to the rounding of
// constants.
//
//===----------------------------------------------------------------------===//

#include "MatchUtils.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include "mlir/IR/PatternMatch.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_RECOGNIZEGELUPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

namespace {

/// Matches c * (1 + inner), expanded or not: returns inner and c.
std::optional<SplatOperand> matchOnePlus(Value value) {
  auto sum = matchWithSplat<AddOp>(value);
  if (!sum || sum->splat == 0)
    return std::nullopt;
  if (auto scaled = matchScaled(sum->other);
      scaled && isNear(scaled->splat, sum->splat, value))
    return SplatOperand{scaled->other, sum->splat};
  if (sum->splat == 1)
    return sum;
  return std::nullopt;
}

/// Returns n if `value` = x^n for n = 1, or n = 2 if the square is shared with
/// other products; else 0.
unsigned powerOf(Value value, Value x) {
  if (value == x)
    return 1;
  auto square = value.getDefiningOp<MulOp>();
  return square && square.getLhs() == x && square.getRhs() == x ? 2 : 0;
}

/// Returns true if `value` is sqrt(2/pi) * (x + 0.044715 * x^3).
bool isTanhArgument(Value value, Value x) {
  Product outer = flattenProduct(value);
  if (!isNear(outer.constant, std::sqrt(2 / M_PI), x))
    return false;
  // x * (1 + 0.044715 * x^2) ...
  unsigned power = outer.remove(x) ? 2 : 3;
  if (outer.factors.size() != 1)
    return false;
  auto add = outer.factors.front().getDefiningOp<AddOp>();
  if (!add)
    return false;
  // ... or x + 0.044715 * x^3.
  for (int side = 0; side < 2; ++side) {
    Value linear = add->getOperand(side);
    bool first = power == 3 ? linear == x : splatValue(linear) == 1.0;
    Product cube = flattenProduct(add->getOperand(1 - side));
    unsigned found = 0;
    for (Value factor : cube.factors)
      found += powerOf(factor, x);
    if (first && isNear(cube.constant, 0.044715, x) && found == power &&
        llvm::all_of(cube.factors,
                     [&](Value factor) { return powerOf(factor, x) > 0; }))
      return true;
  }
  return false;
}

/// Returns true if `value` is x / sqrt(2).
bool isErfArgument(Value value, Value x) {
  Product product = flattenProduct(value);
  return product.factors.size() == 1 && product.factors.front() == x &&
         isNear(product.constant, std::sqrt(0.5), x);
}

struct GeluPattern : OpRewritePattern<MulOp> {
  GeluPattern(MLIRContext *context) : OpRewritePattern(context) {
    setDebugName("GeluPattern");
  }

  LogicalResult matchAndRewrite(MulOp op,
                                PatternRewriter &rewriter) const override {
    if (!isa<FloatType>(getElementTypeOrSelf(op.getType())))
      return rewriter.notifyMatchFailure(op, "an integer product");
    Product product = flattenProduct(op.getResult());
    if (product.factors.size() != 2)
      return rewriter.notifyMatchFailure(op, "not two factors and a constant");
    for (int side = 0; side < 2; ++side) {
      Value x = product.factors[1 - side];
      std::optional<SplatOperand> bracket = matchOnePlus(product.factors[side]);
      if (!bracket || x.getType() != op.getType() ||
          !isNear(product.constant * bracket->splat, 0.5, x))
        continue;
      GeluForm form;
      if (auto erf = bracket->other.getDefiningOp<ErfOp>();
          erf && isErfArgument(erf.getInput(), x))
        form = GeluForm::erf;
      else if (auto tanh = bracket->other.getDefiningOp<TanhOp>();
               tanh && isTanhArgument(tanh.getInput(), x))
        form = GeluForm::tanh;
      else
        continue;
      auto gelu = GeluOp::create(rewriter, op.getLoc(), op.getType(), x, form);
      copyLayer(op, gelu);
      rewriter.replaceOp(op, gelu.getResult());
      return success();
    }
    return rewriter.notifyMatchFailure(
        op, "no 1 + erf or 1 + tanh of the other factor");
  }
};

struct RecognizeGeluPass
    : PatternPass<mpc::impl::RecognizeGeluPassBase<RecognizeGeluPass>,
                  GeluPattern> {
  void runOnOperation() override {
    int64_t before = countOps<GeluOp>(getOperation());
    if (failed(rewrite("recognition of gelu")))
      return;
    numRecognized += countOps<GeluOp>(getOperation()) - before;
  }
};

} // namespace
