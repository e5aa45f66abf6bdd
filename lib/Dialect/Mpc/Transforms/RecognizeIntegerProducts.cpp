//===- RecognizeIntegerProducts.cpp - quantised products as integers ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// With a = sa (x - za) and b = sb (y - zb) the sum of a b is sa sb times
//   sum(x y) - za sum(y) - zb sum(x) + K za zb,
// all of it integers, modulo 2^32, where sa does not vary and sb only with the
// column. Legal where the sum of (x - za)(y - zb) surely fits an i32; what it
// is made of may wrap. Runs before constants are folded.
//
//===----------------------------------------------------------------------===//

#include "Bytes.h"
#include "Dequantized.h"
#include "FilterSums.h"

#include "MatchUtils.h"
#include "ScalarEmitter.h"

#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/Reference/Tensor.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/xxhash.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using mpc::reference::Tensor;

namespace mpc {
#define GEN_PASS_DEF_RECOGNIZEINTEGERPRODUCTSPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

namespace {

bool isUnsigned(Value value) {
  return getElementTypeOrSelf(value.getType()).isUnsignedInteger();
}

//===----------------------------------------------------------------------===//
// One side of a product
//===----------------------------------------------------------------------===//

/// Integers of the sign that units want and their zero point, both known and
/// not: the number that is known, or a value to add to it.
struct Side {
  Value integers;
  /// Null: zero.
  Value zero;
  /// Where the zero point is a constant of one element.
  std::optional<int64_t> number;
};

Value moved(ScalarEmitter &emit, const Dequantized &from, Value value) {
  value = emit.reshape(value, withRank(shapeOf(value), rankOf(from.integers)));
  for (TransposeOp op : llvm::reverse(from.transposes))
    value = emit.transpose(value, op.getPermutation());
  return value;
}

/// `from` as `ui8` or, not `toUnsigned`, `i8`.
Side takeSide(ScalarEmitter &emit, const Dequantized &from, bool toUnsigned) {
  Side side;
  int64_t shift = isUnsigned(from.integers) == toUnsigned ? 0
                  : toUnsigned                            ? 128
                                                          : -128;
  Type i32 = emit.builder.getI32Type();
  auto type = cast<RankedTensorType>(from.integers.getType());
  side.integers = from.integers;
  Type target = toUnsigned ? emit.builder.getIntegerType(8, /*isSigned=*/false)
                           : Type(emit.builder.getI8Type());
  std::optional<Tensor> constant = from.constant;
  if (!constant && shift)
    constant = constantTensor(from.integers);
  if (constant) {
    for (int64_t &number : constant->ints())
      number += shift;
    side.integers =
        emit.constant(std::move(*constant)
                          .withType(type.clone(target))
                          .toAttr(opName(from.integers.getDefiningOp()).str()));
  } else if (shift) {
    Value wide = emit.cast(from.integers, i32);
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

/// Sums of i32 over `axes`, which stay with extent 1.
Value sumsOf(ScalarEmitter &emit, Value integers, ArrayRef<int64_t> axes) {
  Value wide = emit.cast(integers, emit.builder.getI32Type());
  return emit.reduce<ReduceSumOp>(wide, axes, /*keepDims=*/true);
}

/// Whether products of both sides' scales are normal numbers of f32: sums that
/// are scaled by them once are then as exact as those of scaled factors.
bool scalesMultiply(const Dequantized &lhs, const Dequantized &rhs) {
  static constexpr double kOne[] = {1.0};
  ArrayRef<double> left = lhs.scale ? lhs.scale->floats() : kOne,
                   right = rhs.scale ? rhs.scale->floats() : kOne;
  return llvm::all_of(left, [&](double x) {
    return llvm::all_of(right,
                        [&](double y) { return std::isnormal(float(x * y)); });
  });
}

/// The scales of both sides as a constant of `type`; null where they are one.
Value factorOf(ScalarEmitter &emit, const Dequantized &lhs,
               const Dequantized &rhs, ArrayRef<int64_t> shape, Type element) {
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

/// Most positions whose products of differences of 8-bit numbers have a sum
/// below 2^31.
constexpr int64_t kMostPositions = ((int64_t(1) << 31) - 1) / (255 * 255);

/// Both sides of `op`, with a left side that does not vary, or the reason why
/// it is left alone.
FailureOr<std::pair<Dequantized, Dequantized>>
matchSides(ContractionOpInterface op, int64_t columnAxis,
           PatternRewriter &rewriter) {
  for (Value operand : op->getOperands().take_front(2))
    if (!cast<RankedTensorType>(operand.getType()).hasStaticShape())
      return rewriter.notifyMatchFailure(op, "dynamic shapes");
  if (op.getContractionSize() > kMostPositions)
    return rewriter.notifyMatchFailure(op, "i32 may not hold the sums");
  std::optional<Dequantized> lhs = matchDequantized(op->getOperand(0)),
                             rhs = matchDequantized(op->getOperand(1));
  if (!lhs || !rhs)
    return rewriter.notifyMatchFailure(op, "no dequantised 8-bit integers");
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

/// Where new ops of `op`, which no longer is the framework's, are written.
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

struct IntegerMatmul : OpRewritePattern<MatmulOp> {
  IntegerMatmul(MLIRContext *context) : OpRewritePattern(context) {
    setDebugName("IntegerMatmul");
  }

  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    int64_t rank = rankOf(op.getRhs());
    int64_t columnAxis = rank - (op.getTransposeRhs() ? 2 : 1),
            depthAxis = rank - (op.getTransposeRhs() ? 1 : 2);
    auto sides = matchSides(op, columnAxis, rewriter);
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
    // The last two dimensions as those of the result.
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
      // Both zero points: less K of the left one in each sum of a row.
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

/// Above it, what a zero point adds at the edges is too large a constant.
constexpr int64_t kMostEdgeSums = int64_t(1) << 22;

struct IntegerConv : OpRewritePattern<ConvOp> {
  IntegerConv(MLIRContext *context) : OpRewritePattern(context) {
    setDebugName("IntegerConv");
  }

  LogicalResult matchAndRewrite(ConvOp op,
                                PatternRewriter &rewriter) const override {
    auto sides = matchSides(op, /*columnAxis=*/0, rewriter);
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
    if (edges && (!(other.constant || constantTensor(other.integers)) ||
                  elementCount(type) > kMostEdgeSums * type.getDimSize(0)))
      return rewriter.notifyMatchFailure(op, "padding of an unknown number");
    int64_t symmetric = isUnsigned(other.integers) ? 128 : 0;
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
  /// The sums of what each window of `op` reads, less the zero point, so that
  /// padding adds nothing: i32, with one channel. f32 holds them.
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

struct RecognizeIntegerProductsPass
    : PatternPass<mpc::impl::RecognizeIntegerProductsPassBase<
                      RecognizeIntegerProductsPass>,
                  IntegerMatmul, IntegerConv> {
  void runOnOperation() override {
    int64_t before = count();
    if (failed(rewrite("the recognition of integer products")))
      return;
    numRecognized += count() - before;
    shareConstants();
  }

private:
  /// Makes equal constants of bytes one: the steps of a recurrence multiply by
  /// the same weights, from which each product has made its own.
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
      number += isByte(op->getOperand(0));
    });
    return number;
  }
};

} // namespace
