//===- RecognizeQuantizedMatmuls.cpp - QDQ to quantized matmuls -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// With a = sa (x - za) and b = sb (y - zb) the sum of a b is sa sb times
//   sum(x y) - za sum(y) - zb sum(x) + K za zb,
// all of it integers, modulo 2^32, where sa does not vary and sb only with the
// column. Legal if the sum of (x - za)(y - zb) fits an i32; intermediate terms
// may wrap. Of floats of at most 8 bits, which have no zero points, the sum of
// a b is sa sb times sum(x y). Runs before constant folding.
//
//===----------------------------------------------------------------------===//

#include "Dequantized.h"
#include "Int8Values.h"
#include "ZeroPointSums.h"

#include "MatchUtils.h"
#include "ScalarEmitter.h"

#include "mpc/Analysis/Float32Subgraphs.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/Reference/Tensor.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/xxhash.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using mpc::reference::Tensor;

namespace mpc {
#define GEN_PASS_DEF_RECOGNIZEQUANTIZEDMATMULSPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

namespace {

bool isUnsigned(Value value) {
  return getElementTypeOrSelf(value.getType()).isUnsignedInteger();
}

//===----------------------------------------------------------------------===//
// One operand of a matmul
//===----------------------------------------------------------------------===//

/// Integers of the signedness that the target's units need, and their zero
/// point, as a known number or a value.
struct Side {
  Value integers;
  /// Zero point; null for zero.
  Value zero;
  /// Zero point if it is a scalar constant.
  std::optional<int64_t> number;
};

Value moved(ScalarEmitter &emit, const DequantizedTensor &from, Value value) {
  value = emit.reshape(value, withRank(shapeOf(value), rankOf(from.numbers)));
  for (TransposeOp op : llvm::reverse(from.transposes))
    value = emit.transpose(value, op.getPermutation());
  return value;
}

/// Converts `from` to `ui8` if `toUnsigned`, else to `i8`.
Side takeSide(ScalarEmitter &emit, const DequantizedTensor &from,
              bool toUnsigned) {
  Side side;
  int64_t shift = isUnsigned(from.numbers) == toUnsigned ? 0
                  : toUnsigned                           ? 128
                                                         : -128;
  Type i32 = emit.builder.getI32Type();
  auto type = cast<RankedTensorType>(from.numbers.getType());
  side.integers = from.numbers;
  Type target = toUnsigned ? emit.builder.getIntegerType(8, /*isSigned=*/false)
                           : Type(emit.builder.getI8Type());
  std::optional<Tensor> constant = from.constant;
  if (!constant && shift)
    constant = constantTensor(from.numbers);
  if (constant) {
    for (int64_t &number : constant->ints())
      number += shift;
    side.integers =
        emit.constant(std::move(*constant)
                          .withType(type.clone(target))
                          .toAttr(opName(from.numbers.getDefiningOp()).str()));
  } else if (shift) {
    Value wide = emit.cast(from.numbers, i32);
    wide = emit.add(wide, emit.integer(shift, wide));
    side.integers = emit.cast(wide, target);
  }
  if (from.zeroTensor || !from.zero) {
    Tensor zeros = from.zeroTensor ? *from.zeroTensor
                                   : Tensor(RankedTensorType::get({}, i32));
    for (int64_t &zero : zeros.ints())
      zero += shift;
    if (zeros.size() == 1)
      side.number = zeros.ints()[0];
    if (!llvm::all_of(zeros.ints(), [](int64_t zero) { return zero == 0; }))
      side.zero = emit.constant(
          zeros.withType(RankedTensorType::get(zeros.getShape(), i32))
              .toAttr());
  } else {
    side.zero = emit.cast(from.zero, i32);
    if (shift)
      side.zero = emit.add(side.zero, emit.integer(shift, side.zero));
  }
  side.integers = moved(emit, from, side.integers);
  if (side.zero)
    side.zero = moved(emit, from, side.zero);
  return side;
}

/// i32 sums over `axes`, kept as extents of 1.
Value sumsOf(ScalarEmitter &emit, Value integers, ArrayRef<int64_t> axes) {
  Value wide = emit.cast(integers, emit.builder.getI32Type());
  return emit.reduce<ReduceSumOp>(wide, axes, /*keepDims=*/true);
}

/// Returns true if all products of the two scales are normal f32 numbers:
/// scaling the accumulator once is then as accurate as scaling the factors.
bool scalesMultiply(const DequantizedTensor &lhs,
                    const DequantizedTensor &rhs) {
  static constexpr double kOne[] = {1.0};
  ArrayRef<double> left = lhs.scale ? lhs.scale->floats() : kOne,
                   right = rhs.scale ? rhs.scale->floats() : kOne;
  return llvm::all_of(left, [&](double x) {
    return llvm::all_of(right,
                        [&](double y) { return std::isnormal(float(x * y)); });
  });
}

/// Product of both scales as a constant; null if neither has one.
Value factorOf(ScalarEmitter &emit, const DequantizedTensor &lhs,
               const DequantizedTensor &rhs, ArrayRef<int64_t> shape,
               Type element) {
  if (!lhs.scale && !rhs.scale)
    return {};
  int64_t count = rhs.scale ? rhs.scale->size() : 1;
  Tensor factors(
      RankedTensorType::get(count == 1 ? ArrayRef<int64_t>() : shape, element));
  for (auto [i, factor] : llvm::enumerate(factors.floats()))
    factor = (lhs.scale ? lhs.scale->floats()[0] : 1) *
             (rhs.scale ? rhs.scale->floats()[i] : 1);
  factors.roundToType();
  return emit.constant(factors.toAttr());
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

/// Maximum K for which the i32 accumulator of differences of 8-bit numbers
/// stays below 2^31.
constexpr int64_t kMostPositions = ((int64_t(1) << 31) - 1) / (255 * 255);

/// Returns the operands of `op`, integers if `isInteger`, else floats, if the
/// left scale is per-tensor; else reports why the op is skipped.
FailureOr<std::pair<DequantizedTensor, DequantizedTensor>>
matchSides(ContractionOpInterface op, int64_t columnAxis, bool isInteger,
           PatternRewriter &rewriter) {
  for (Value operand : op->getOperands().take_front(2))
    if (!cast<RankedTensorType>(operand.getType()).hasStaticShape())
      return rewriter.notifyMatchFailure(op, "dynamic shapes");
  if (isInteger && op.getContractionSize() > kMostPositions)
    return rewriter.notifyMatchFailure(op, "i32 may not hold the sums");
  std::optional<DequantizedTensor> lhs = matchDequantized(op->getOperand(0)),
                                   rhs = matchDequantized(op->getOperand(1));
  if (!lhs || !rhs || lhs->isInteger() != isInteger ||
      rhs->isInteger() != isInteger)
    return rewriter.notifyMatchFailure(op, "no dequantised 8-bit numbers");
  if ((lhs->scale && lhs->scale->size() != 1) ||
      (lhs->zero && elementCount(lhs->zero) != 1))
    return rewriter.notifyMatchFailure(op, "the left side's numbers vary");
  if (lhs->zeroTensor && lhs->zeroTensor->size() != 1)
    return rewriter.notifyMatchFailure(op, "the left side's numbers vary");
  if (rhs->zero && !rhs->zeroTensor)
    return rewriter.notifyMatchFailure(op, "unknown zero point on the right");
  if (!scalesMultiply(*lhs, *rhs))
    return rewriter.notifyMatchFailure(op, "the scales' product is no normal "
                                           "number");
  for (const std::optional<Tensor> &numbers : {rhs->scale, rhs->zeroTensor})
    if (numbers && !rhs->variesAlong(numbers->getShape(), columnAxis))
      return rewriter.notifyMatchFailure(op,
                                         "scales vary along what is summed");
  return std::pair(std::move(*lhs), std::move(*rhs));
}

/// Returns an emitter at `op` and drops its source attribute: the op is no
/// longer the framework's.
ScalarEmitter emitterAt(Operation *op, PatternRewriter &rewriter) {
  rewriter.setInsertionPoint(op);
  rewriter.modifyOpInPlace(
      op, [&] { op->removeDiscardableAttr(MpcDialect::kSourceAttr); });
  return ScalarEmitter(rewriter, op);
}

void replaceBy(Operation *op, Value sums, Value factor, ScalarEmitter &emit,
               PatternRewriter &rewriter) {
  Value result =
      emit.cast(sums, getElementTypeOrSelf(op->getResult(0).getType()));
  if (factor)
    result = emit.mul(result, factor);
  rewriter.replaceOp(op, result);
}

/// Returns the dimension of the right operand that is the result's last one.
int64_t columnAxisOf(MatmulOp op) {
  return rankOf(op.getRhs()) - (op.getTransposeRhs() ? 2 : 1);
}

struct IntegerMatmul : OpRewritePattern<MatmulOp> {
  IntegerMatmul(MLIRContext *context) : OpRewritePattern(context) {
    setDebugName("IntegerMatmul");
  }

  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    int64_t rank = rankOf(op.getRhs());
    int64_t columnAxis = columnAxisOf(op),
            depthAxis = rank - (op.getTransposeRhs() ? 1 : 2);
    auto sides = matchSides(op, columnAxis, /*isInteger=*/true, rewriter);
    if (failed(sides))
      return failure();
    auto &[from, other] = *sides;
    ScalarEmitter emit = emitterAt(op, rewriter);
    Side lhs = takeSide(emit, from, /*toUnsigned=*/true),
         rhs = takeSide(emit, other, /*toUnsigned=*/false);
    auto type = cast<RankedTensorType>(op.getType());
    Value sums = emit.create<MatmulOp>(
        type.clone(rewriter.getI32Type()), lhs.integers, rhs.integers,
        op.getTransposeLhsAttr(), op.getTransposeRhsAttr(), TypeAttr(),
        op.getComputeAttr(), PackedAttr());
    // Permutes the last two dimensions like the result's.
    auto asColumns = [&](Value value) {
      SmallVector<int64_t> shape(shapeOf(value));
      std::swap(shape[columnAxis], shape[rank - 1]);
      return emit.reshape(value, shape);
    };
    if (lhs.zero) {
      lhs.zero = emit.reshape(lhs.zero, {});
      Value columns = asColumns(sumsOf(emit, rhs.integers, {depthAxis}));
      sums = emit.sub(sums, emit.mul(columns, lhs.zero));
    }
    if (rhs.zero) {
      rhs.zero = rhs.number ? emit.reshape(rhs.zero, {}) : asColumns(rhs.zero);
      int64_t lhsRank = rankOf(lhs.integers);
      Value rows = sumsOf(emit, lhs.integers,
                          {lhsRank - (op.getTransposeLhs() ? 2 : 1)});
      if (op.getTransposeLhs()) {
        SmallVector<int64_t> shape(shapeOf(rows));
        std::swap(shape[lhsRank - 2], shape[lhsRank - 1]);
        rows = emit.reshape(rows, shape);
      }
      // With both zero points: subtract K times the left one from each row sum.
      if (lhs.zero)
        rows = emit.sub(
            rows, emit.mul(lhs.zero,
                           emit.integer(op.getContractionSize(), lhs.zero)));
      sums = emit.sub(sums, emit.mul(rows, rhs.zero));
    }
    Value factor = factorOf(emit, from, other, {type.getShape().back()},
                            type.getElementType());
    replaceBy(op, sums, factor, emit, rewriter);
    return success();
  }
};

/// Multiplies the numbers of narrow floats instead of their products with the
/// scales, which then multiply the result: those of columns have the shape
/// `perColumn`. The result keeps f32: sums of unscaled numbers overflow f16.
LogicalResult multiplyNumbers(ContractionOpInterface op, int64_t columnAxis,
                              ArrayRef<int64_t> perColumn,
                              PatternRewriter &rewriter) {
  auto sides = matchSides(op, columnAxis, /*isInteger=*/false, rewriter);
  if (failed(sides))
    return failure();
  auto &[lhs, rhs] = *sides;
  if (!lhs.scale && !rhs.scale)
    return rewriter.notifyMatchFailure(op, "no scales");
  ScalarEmitter emit = emitterAt(op, rewriter);
  Value left = moved(emit, lhs, lhs.numbers),
        right = moved(emit, rhs, rhs.numbers);
  Operation *sums = rewriter.clone(*op);
  sums->setOperand(0, left);
  sums->setOperand(1, right);
  sums->setDiscardableAttr(kOperandsAttr, rewriter.getStringAttr("model"));
  Value result = sums->getResult(0);
  Value factor = factorOf(emit, lhs, rhs, perColumn,
                          getElementTypeOrSelf(result.getType()));
  replaceBy(op, result, factor, emit, rewriter);
  return success();
}

struct FloatMatmul : OpRewritePattern<MatmulOp> {
  FloatMatmul(MLIRContext *context) : OpRewritePattern(context) {
    setDebugName("FloatMatmul");
  }

  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    return multiplyNumbers(op, columnAxisOf(op),
                           {shapeOf(op.getResult()).back()}, rewriter);
  }
};

/// Maximum number of zero-point corrections at the borders, in constant
/// elements.
constexpr int64_t kMostEdgeSums = int64_t(1) << 22;

struct IntegerConv : OpRewritePattern<ConvOp> {
  IntegerConv(MLIRContext *context) : OpRewritePattern(context) {
    setDebugName("IntegerConv");
  }

  LogicalResult matchAndRewrite(ConvOp op,
                                PatternRewriter &rewriter) const override {
    auto sides = matchSides(op, /*columnAxis=*/0, /*isInteger=*/true, rewriter);
    if (failed(sides))
      return failure();
    auto &[from, other] = *sides;
    if (op.getPacked() || op.getLayout() != ImageLayout::channels_first)
      return rewriter.notifyMatchFailure(op, "not as it was imported");
    int64_t groups = op.getGroups(), rank = rankOf(op.getInput());
    if (groups > 1 && shapeOf(op.getFilter())[1] == 1)
      return rewriter.notifyMatchFailure(op, "depthwise");
    bool pads = !llvm::all_of(op.getPadLow(), [](int64_t n) { return n == 0; });
    pads |= !llvm::all_of(op.getPadHigh(), [](int64_t n) { return n == 0; });
    auto type = cast<RankedTensorType>(op.getType());
    bool edges = pads && from.zero && !from.zeroTensor;
    if (edges && (!(other.constant || constantTensor(other.numbers)) ||
                  elementCount(type) > kMostEdgeSums * type.getDimSize(0)))
      return rewriter.notifyMatchFailure(op, "padding of an unknown number");
    int64_t symmetric = isUnsigned(other.numbers) ? 128 : 0;
    bool centred =
        other.zeroTensor
            ? llvm::all_of(other.zeroTensor->ints(),
                           [&](int64_t zero) { return zero == symmetric; })
            : symmetric == 0;
    if (!centred && groups > 1)
      return rewriter.notifyMatchFailure(op, "groups of filters with a zero "
                                             "point");

    ScalarEmitter emit = emitterAt(op, rewriter);
    Side lhs = takeSide(emit, from, /*toUnsigned=*/true),
         rhs = takeSide(emit, other, /*toUnsigned=*/false);
    Value sums = emit.create<ConvOp>(
        type.clone(rewriter.getI32Type()), lhs.integers, rhs.integers,
        op.getStridesAttr(), op.getPadLowAttr(), op.getPadHighAttr(),
        op.getDilationsAttr(), op.getGroupsAttr(), op.getLayoutAttr(),
        DenseI64ArrayAttr(), TypeAttr(), op.getComputeAttr(), PackedAttr(),
        rewriter.getI64IntegerAttr(pads && !edges ? *lhs.number : 0));
    SmallVector<int64_t> perChannel(rank - 1, 1);
    perChannel[0] = type.getDimSize(1);
    if (lhs.zero) {
      SmallVector<int64_t> axes;
      for (int64_t axis = 1; axis < rank; ++axis)
        axes.push_back(axis);
      Value filters =
          edges ? emit.constant(
                      filterSumsInside(op, *constantTensor(rhs.integers))
                          .toAttr(opName(op).str()))
                : emit.reshape(sumsOf(emit, rhs.integers, axes), perChannel);
      sums = emit.sub(sums, emit.mul(filters, emit.reshape(lhs.zero, {})));
    }
    if (!centred) {
      Value zero = rhs.number ? emit.reshape(rhs.zero, {})
                              : emit.reshape(rhs.zero, perChannel);
      sums = emit.sub(sums, emit.mul(windowSums(emit, op, lhs), zero));
    }
    Value factor =
        factorOf(emit, from, other, perChannel, type.getElementType());
    replaceBy(op, sums, factor, emit, rewriter);
    return success();
  }

private:
  /// Sums of each window of `op` minus the zero point, so that padding
  /// contributes zero: one i32 channel, exact in f32.
  static Value windowSums(ScalarEmitter &emit, ConvOp op, const Side &input) {
    Type f32 = emit.builder.getF32Type();
    Value sums = emit.reduce<ReduceSumOp>(emit.cast(input.integers, f32), {1},
                                          /*keepDims=*/true);
    if (input.zero) {
      Value zero = emit.cast(emit.reshape(input.zero, {}), f32);
      sums =
          emit.sub(sums, emit.scale(zero, double(shapeOf(op.getInput())[1])));
    }
    SmallVector<int64_t> shape(shapeOf(op.getFilter())),
        result(shapeOf(op.getResult()));
    shape[0] = shape[1] = result[1] = 1;
    bool pointwise = result == shapeOf(sums) &&
                     llvm::all_of(ArrayRef<int64_t>(shape),
                                  [](int64_t n) { return n == 1; });
    if (!pointwise)
      sums = emit.create<ConvOp>(
          RankedTensorType::get(result, f32), sums, emit.splat(shape, f32, 1),
          op.getStridesAttr(), op.getPadLowAttr(), op.getPadHighAttr(),
          op.getDilationsAttr(), emit.builder.getI64IntegerAttr(1),
          op.getLayoutAttr(), DenseI64ArrayAttr(), TypeAttr(),
          op.getComputeAttr(), PackedAttr(), emit.builder.getI64IntegerAttr(0));
    return emit.cast(sums, emit.builder.getI32Type());
  }
};

struct FloatConv : OpRewritePattern<ConvOp> {
  FloatConv(MLIRContext *context) : OpRewritePattern(context) {
    setDebugName("FloatConv");
  }

  LogicalResult matchAndRewrite(ConvOp op,
                                PatternRewriter &rewriter) const override {
    if (op.getPacked() || op.getLayout() != ImageLayout::channels_first)
      return rewriter.notifyMatchFailure(op, "not as it was imported");
    SmallVector<int64_t> perChannel(rankOf(op.getResult()) - 1, 1);
    perChannel[0] = shapeOf(op.getResult())[1];
    return multiplyNumbers(op, /*columnAxis=*/0, perChannel, rewriter);
  }
};

struct RecognizeQuantizedMatmulsPass
    : PatternPass<mpc::impl::RecognizeQuantizedMatmulsPassBase<
                      RecognizeQuantizedMatmulsPass>,
                  FloatMatmul, FloatConv> {
  using PatternPass::PatternPass;

  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    set.add<FloatMatmul, FloatConv>(context);
    if (integers)
      set.add<IntegerMatmul, IntegerConv>(context);
    patterns = std::move(set);
    return success();
  }

  void runOnOperation() override {
    int64_t before = count();
    if (failed(rewrite("the recognition of quantized products")))
      return;
    numRecognized += count() - before;
    shareConstants();
  }

private:
  /// Merges equal 8-bit constants: the steps of a recurrence multiply by the
  /// same weights, of which each matmul created its own copy.
  void shareConstants() {
    llvm::DenseMap<std::pair<Type, uint64_t>, SmallVector<ConstantOp, 1>> seen;
    getOperation().walk([&](ConstantOp op) {
      if (!isByte(op))
        return;
      auto resource = dyn_cast<DenseResourceElementsAttr>(op.getValue());
      if (!resource)
        return;
      ArrayRef<char> bytes = resource.getData();
      SmallVector<ConstantOp, 1> &equals =
          seen[{op.getType(),
                llvm::xxh3_64bits(StringRef(bytes.data(), bytes.size()))}];
      for (ConstantOp other : equals)
        if (cast<DenseResourceElementsAttr>(other.getValue()).getData() ==
            bytes) {
          op.replaceAllUsesWith(other.getResult());
          op.erase();
          return;
        }
      equals.push_back(op);
    });
  }

  int64_t count() {
    int64_t number = 0;
    getOperation().walk([&](ContractionOpInterface op) {
      number += isByte(op->getOperand(0)) || op->hasAttr(kOperandsAttr);
    });
    return number;
  }
};

} // namespace
