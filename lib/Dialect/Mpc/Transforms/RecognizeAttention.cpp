//===- RecognizeAttention.cpp - matmul, softmax, matmul into attention ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The root is the matmul of probabilities and values. Matches its whole input
// expression before rewriting. Legal if no row changes its meaning: the result
// of a fully masked row determines which masks are accepted. Repeated key and
// value heads (grouped-query attention) are replaced by the originals. Runs
// after mpc-fold-constants (masks) and mpc-recognize-softmax.
//
//===----------------------------------------------------------------------===//

#include "MatchUtils.h"
#include "OpEmitter.h"
#include "RepeatedHeads.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include "mlir/IR/PatternMatch.h"

#include <cmath>
#include <limits>
#include <numeric>

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_RECOGNIZEATTENTIONPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

namespace {

/// Maximum mask fill that gives a position zero weight if the row has an
/// unmasked one; up to kAbsorbing, adding the fill equals selecting it.
constexpr double kFill = -1.0e4;
constexpr double kAbsorbing = -1.0e30;

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

/// Mask applied to the scores.
struct Mask {
  /// Additive mask if float, keep-mask if i1; null for none.
  Value value;
  /// True if the boolean condition selects positions to drop.
  bool inverted = false;
  /// Emit `select(condition, 0, fill)` and add it.
  std::optional<double> fill;
  /// Further additive terms besides `value`.
  SmallVector<Value> biases;
};

/// Returns true if every row (last axis) of a boolean constant contains `kept`.
bool everyRowKeeps(Value condition, bool kept) {
  auto constant = condition.getDefiningOp<ConstantOp>();
  if (!constant || rankOf(condition) == 0)
    return false;
  if (std::optional<double> splat = splatValue(constant.getValue()))
    return (*splat != 0) == kept;
  FailureOr<ConstantBytes> bytes = ConstantBytes::get(constant.getValue());
  int64_t row = shapeOf(condition).back();
  if (failed(bytes) || row == 0)
    return false;
  ArrayRef<char> rest = bytes->bytes();
  while (!rest.empty()) {
    if (llvm::none_of(rest.take_front(row),
                      [&](char byte) { return (byte != 0) == kept; }))
      return false;
    rest = rest.drop_front(row);
  }
  return true;
}

/// Returns true if the condition varies along the last axis of the scores, so
/// that its rows are rows of the scores.
bool rowsMatch(Value condition, ArrayRef<int64_t> scores) {
  return rankOf(condition) >= 1 && shapeOf(condition).back() == scores.back();
}

/// Chooses the mask for `select(condition, scores, fill)`; nullopt if a fully
/// masked row would change its meaning. `guarded`: the model replaces the NaN
/// of such a row by zeros.
std::optional<Mask> maskOfSelect(Value condition, bool keepsTrue, double fill,
                                 bool guarded, ArrayRef<int64_t> scores) {
  if (!(fill <= kFill))
    return std::nullopt;
  bool neverEmpty =
      rowsMatch(condition, scores) && everyRowKeeps(condition, keepsTrue);
  if (neverEmpty || (std::isinf(fill) && guarded))
    return Mask{condition, !keepsTrue, std::nullopt, {}};
  // A fully masked row yields the mean of the values; adding the fill does so
  // too.
  if (!std::isinf(fill) && fill <= kAbsorbing)
    return Mask{condition, !keepsTrue, fill, {}};
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

bool isIdentity(ArrayRef<int64_t> permutation) {
  return llvm::all_of(llvm::enumerate(permutation), [](auto entry) {
    return int64_t(entry.index()) == entry.value();
  });
}

/// Swaps the last two dimensions of `value`. Cancels an existing transpose,
/// through reshapes that preserve those dimensions.
Value transposeLast(PatternRewriter &rewriter, Location loc, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> swapped = swapLast(type.getRank());
  if (auto transpose = value.getDefiningOp<TransposeOp>()) {
    SmallVector<int64_t> permutation;
    for (int64_t i : swapped)
      permutation.push_back(transpose.getPermutation()[i]);
    if (isIdentity(permutation))
      return transpose.getInput();
    return TransposeOp::create(rewriter, transpose.getLoc(),
                               transpose.getInput(), permutation);
  }
  auto reshape = value.getDefiningOp<ReshapeOp>();
  if (reshape && rankOf(reshape.getInput()) >= 2 &&
      reshape.getInput().getDefiningOp<TransposeOp>() &&
      shapeOf(reshape.getInput()).take_back(2) ==
          type.getShape().take_back(2)) {
    Value inner = transposeLast(rewriter, loc, reshape.getInput());
    SmallVector<int64_t> shape(type.getShape());
    std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
    return ReshapeOp::create(rewriter, reshape.getLoc(), type.clone(shape),
                             inner);
  }
  return TransposeOp::create(rewriter, loc, value, swapped);
}

/// Strips constant factors from `value` and multiplies them into `scale`.
Value takeScale(Value value, double &scale) {
  while (std::optional<SplatOperand> scaled = matchScaled(value)) {
    scale *= scaled->splat;
    value = scaled->other;
  }
  return value;
}

//===----------------------------------------------------------------------===//
// Pattern
//===----------------------------------------------------------------------===//

/// Match result: the ops before the matmul of probabilities and values.
struct Scores {
  MatmulOp matmul;
  SoftmaxOp softmax;
  double scale = 1;
  Mask mask;
};

struct AttentionPattern : OpRewritePattern<MatmulOp> {
  AttentionPattern(MLIRContext *context) : OpRewritePattern(context) {
    setDebugName("AttentionPattern");
  }

  /// Matches upwards from the probabilities.
  FailureOr<Scores> match(MatmulOp root, PatternRewriter &rewriter) const {
    auto fail = [&](const char *reason) {
      return rewriter.notifyMatchFailure(root, reason);
    };
    Scores scores;
    Value value = root.getLhs();
    if (root.getTransposeLhs() || root.getPacked() || !value.hasOneUse())
      return fail("the probabilities have other readers");
    // select(is_nan(p), 0, p): fully masked rows give zeros.
    bool guarded = false;
    if (auto select = value.getDefiningOp<SelectOp>()) {
      auto isNan = select.getCondition().getDefiningOp<IsNanOp>();
      Value kept = select.getOnFalse();
      if (!isNan || isNan.getInput() != kept ||
          splatValue(select.getOnTrue()) != 0.0 ||
          !select.getCondition().hasOneUse() ||
          llvm::range_size(kept.getUses()) != 2)
        return fail("a select that is no guard against NaN");
      guarded = true;
      value = kept;
    } else if (!value.hasOneUse()) {
      return fail("the probabilities have other readers");
    }
    scores.softmax = value.getDefiningOp<SoftmaxOp>();
    if (!scores.softmax ||
        int64_t(scores.softmax.getAxis()) != rankOf(value) - 1)
      return fail("no softmax over the last axis");

    value = scores.softmax.getInput();
    Type scoresType = value.getType();
    ArrayRef<int64_t> shape = shapeOf(value);
    if (!value.hasOneUse())
      return fail("the scores have other readers");
    SmallVector<Value> biases;
    auto takeBiases = [&] {
      while (auto add = value.getDefiningOp<AddOp>()) {
        int side = reaches(add.getLhs(), scoresType) ? 0 : 1;
        if (!value.hasOneUse() || !reaches(add->getOperand(side), scoresType))
          return;
        biases.push_back(add->getOperand(1 - side));
        value = add->getOperand(side);
      }
    };
    takeBiases();
    if (biases.size() == 1) {
      scores.mask.value = biases.pop_back_val();
      // 0 where kept and -inf elsewhere is a boolean mask.
      if (auto select = scores.mask.value.getDefiningOp<SelectOp>()) {
        std::optional<double> onTrue = splatValue(select.getOnTrue()),
                              onFalse = splatValue(select.getOnFalse());
        bool keepsTrue = onTrue == 0.0 && onFalse && *onFalse < 0;
        bool keepsFalse = onFalse == 0.0 && onTrue && *onTrue < 0;
        double fill = keepsTrue ? *onFalse : keepsFalse ? *onTrue : 0;
        if (std::isinf(fill) && guarded)
          scores.mask =
              Mask{select.getCondition(), keepsFalse, std::nullopt, {}};
      }
    } else if (!biases.empty()) {
      scores.mask.value = biases.pop_back_val();
    } else if (auto select = value.getDefiningOp<SelectOp>()) {
      bool keepsTrue = reaches(select.getOnTrue(), scoresType);
      Value kept = keepsTrue ? select.getOnTrue() : select.getOnFalse();
      std::optional<double> fill =
          splatValue(keepsTrue ? select.getOnFalse() : select.getOnTrue());
      if (!reaches(kept, scoresType) || !fill)
        return fail("no scores and fill below the select");
      std::optional<Mask> mask =
          maskOfSelect(select.getCondition(), keepsTrue, *fill, guarded, shape);
      if (!mask)
        return fail("a row without a kept position would change its meaning");
      scores.mask = *mask;
      value = kept;
      if (!value.hasOneUse())
        return fail("the scores have other readers");
      takeBiases();
    }
    scores.mask.biases = biases;
    if (!value.hasOneUse())
      return fail("the scores have other readers");
    value = takeOwnScale(value, scores.scale);
    scores.matmul = value ? value.getDefiningOp<MatmulOp>() : MatmulOp();
    if (!scores.matmul || !value.hasOneUse() || scores.matmul.getPacked())
      return fail("no product of query and key of its own");
    return scores;
  }

  /// Like takeScale, but requires that the stripped values have no other
  /// reader.
  static Value takeOwnScale(Value value, double &scale) {
    while (std::optional<SplatOperand> scaled = matchScaled(value)) {
      if (!scaled->other.hasOneUse())
        return {};
      scale *= scaled->splat;
      value = scaled->other;
    }
    return value;
  }

  /// Returns true if `value` is a (scaled) matmul of the scores' type, plus at
  /// most a few biases.
  static bool reaches(Value value, Type type, int biases = 4) {
    if (value.getType() != type)
      return false;
    if (auto add = value.getDefiningOp<AddOp>())
      return biases > 0 && (reaches(add.getLhs(), type, biases - 1) ||
                            reaches(add.getRhs(), type, biases - 1));
    double scale = 1;
    return bool(takeScale(value, scale).getDefiningOp<MatmulOp>());
  }

  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    FailureOr<Scores> found = match(op, rewriter);
    if (failed(found))
      return failure();
    Scores &scores = *found;
    MatmulOp product = scores.matmul;

    // Shapes: query [..., H, S, D], key [..., H, D, T] (transposed), value
    // [..., T, E].
    double scale = scores.scale;
    Value query = takeScale(product.getLhs(), scale),
          key = takeScale(product.getRhs(), scale);
    Value value = op.getRhs();
    int64_t rank = rankOf(op.getResult());
    Type element = getElementTypeOrSelf(op.getType());
    if (rank < 3)
      return rewriter.notifyMatchFailure(op, "rank below 3");
    for (Value operand : {query, key, value})
      if (rankOf(operand) != rank ||
          getElementTypeOrSelf(operand.getType()) != element)
        return rewriter.notifyMatchFailure(op, "ranks or types differ");
    // One key/value head may serve all query heads (multi-query attention).
    ArrayRef<int64_t> batches = shapeOf(op.getResult()).drop_back(2),
                      keyBatches = shapeOf(key).drop_back(2);
    if (shapeOf(query).drop_back(2) != batches ||
        shapeOf(value).drop_back(2) != keyBatches ||
        keyBatches.drop_back() != batches.drop_back() ||
        (keyBatches.back() != batches.back() && keyBatches.back() != 1))
      return rewriter.notifyMatchFailure(op, "batch dimensions differ");
    SmallVector<Value> masks = scores.mask.biases;
    if (scores.mask.value)
      masks.push_back(scores.mask.value);
    if (llvm::any_of(masks, [&](Value mask) { return rankOf(mask) > rank; }))
      return rewriter.notifyMatchFailure(
          op, "the mask has a higher rank than the scores");

    SmallVector<Operation *> parts = {scores.softmax, product, op};
    Location loc = fuseLocations(parts);
    rewriter.setInsertionPoint(op);
    if (product.getTransposeLhs())
      query = transposeLast(rewriter, product.getLoc(), query);
    if (!product.getTransposeRhs())
      key = transposeLast(rewriter, product.getLoc(), key);
    if (op.getTransposeRhs())
      value = transposeLast(rewriter, op.getLoc(), value);
    Value mask =
        buildMask(rewriter, scores.softmax.getLoc(), scores.mask, element);
    auto attention =
        AttentionOp::create(rewriter, loc, op.getType(), query, key, value,
                            mask, llvm::APFloat(scale), /*causal=*/false);
    copyLayer(op, attention);
    rewriter.replaceOp(op, attention.getResult());
    return success();
  }

  static Value buildMask(PatternRewriter &rewriter, Location loc,
                         const Mask &mask, Type element) {
    if (!mask.value)
      return {};
    Value bias;
    for (Value next : mask.biases)
      bias = bias ? Value(AddOp::create(rewriter, loc, bias, next)) : next;
    bool isCondition = getElementTypeOrSelf(mask.value.getType()).isInteger(1);
    if (bias && !isCondition)
      return AddOp::create(rewriter, loc, bias, mask.value);
    if (mask.fill || bias) {
      auto scalar = [&](double value) -> Value {
        return ConstantOp::create(
            rewriter, loc,
            makeSplat(RankedTensorType::get({}, element), value));
      };
      Value kept = bias ? bias : scalar(0);
      Value fill =
          scalar(mask.fill.value_or(-std::numeric_limits<double>::infinity()));
      return SelectOp::create(rewriter, loc, mask.value,
                              mask.inverted ? fill : kept,
                              mask.inverted ? kept : fill);
    }
    if (!mask.inverted)
      return mask.value;
    auto constant = mask.value.getDefiningOp<ConstantOp>();
    if (std::optional<double> splat = splatValue(mask.value))
      return ConstantOp::create(
          rewriter, loc,
          makeSplat(cast<RankedTensorType>(mask.value.getType()), *splat == 0));
    FailureOr<ConstantBytes> bytes =
        constant ? ConstantBytes::get(constant.getValue())
                 : FailureOr<ConstantBytes>(failure());
    if (failed(bytes))
      return NotOp::create(rewriter, loc, mask.value.getType(), mask.value);
    std::vector<char> flipped(bytes->bytes().begin(), bytes->bytes().end());
    for (char &byte : flipped)
      byte = byte == 0;
    return ConstantOp::create(
        rewriter, loc,
        makeConstant(cast<RankedTensorType>(mask.value.getType()), flipped,
                     "mask"));
  }
};

/// Keys and values with repeated adjacent heads.
struct SharedHeadsPattern : OpRewritePattern<AttentionOp> {
  SharedHeadsPattern(MLIRContext *context) : OpRewritePattern(context) {
    setDebugName("SharedHeadsPattern");
  }

  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override {
    int64_t axis = rankOf(op.getKey()) - 3;
    int64_t times = std::gcd(repeatCountAlong(op.getKey(), axis),
                             repeatCountAlong(op.getValue(), axis));
    if (times == 1)
      return rewriter.notifyMatchFailure(op, "no heads are repeated");
    Value key = dropRepeats(rewriter, op.getKey(), axis, times);
    Value value = dropRepeats(rewriter, op.getValue(), axis, times);
    rewriter.modifyOpInPlace(op, [&] {
      op.getKeyMutable().assign(key);
      op.getValueMutable().assign(value);
    });
    return success();
  }
};

struct RecognizeAttentionPass
    : PatternPass<mpc::impl::RecognizeAttentionPassBase<RecognizeAttentionPass>,
                  AttentionPattern, SharedHeadsPattern> {
  void runOnOperation() override {
    int64_t before = countOps<AttentionOp>(getOperation());
    if (failed(rewrite("recognition of attention")))
      return;
    numRecognized += countOps<AttentionOp>(getOperation()) - before;
  }
};

} // namespace
