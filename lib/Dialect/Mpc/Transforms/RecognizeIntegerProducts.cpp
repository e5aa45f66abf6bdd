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

#include "MatchUtils.h"
#include "ScalarEmitter.h"

#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/Reference/Tensor.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using mpc::reference::Tensor;

namespace mpc {
#define GEN_PASS_DEF_RECOGNIZEINTEGERPRODUCTSPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

namespace {

/// The constant behind reshapes and widening casts of integers.
std::optional<Tensor> constantTensor(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  if (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  else if (auto cast = value.getDefiningOp<CastOp>();
           cast && isa<IntegerType>(getElementTypeOrSelf(cast.getInput())) &&
           getElementTypeOrSelf(cast.getInput()).getIntOrFloatBitWidth() <
               type.getElementTypeBitWidth())
    value = cast.getInput();
  else {
    ElementsAttr attr = constantOf(value);
    if (!attr)
      return std::nullopt;
    FailureOr<Tensor> tensor = Tensor::fromAttr(attr);
    if (failed(tensor))
      return std::nullopt;
    return tensor;
  }
  std::optional<Tensor> inner = constantTensor(value);
  if (inner && inner->isFloat() == isa<FloatType>(type.getElementType()))
    return std::move(*inner).withType(type);
  return std::nullopt;
}

bool isUnsigned(Value value) {
  return getElementTypeOrSelf(value.getType()).isUnsignedInteger();
}

/// `shape` with extents of 1 before it.
SmallVector<int64_t> withRank(ArrayRef<int64_t> shape, int64_t rank) {
  SmallVector<int64_t> result(rank - shape.size(), 1);
  llvm::append_range(result, shape);
  return result;
}

/// A float tensor that is scale * (integers - zero), behind transposes.
struct Dequantized {
  Value integers;
  /// The integers where they are a constant of any type: as i8.
  std::optional<Tensor> constant;
  /// An integer of any type, whose numbers are 8-bit ones, and what it is; null
  /// where there is none, unknown where it is no constant.
  Value zero;
  std::optional<Tensor> zeroTensor, scale;
  /// Outermost first.
  SmallVector<TransposeOp> transposes;

  /// `shape` with the rank of the integers, as the transposes leave it.
  SmallVector<int64_t> moved(ArrayRef<int64_t> shape) const {
    SmallVector<int64_t> now = withRank(shape, rankOf(integers));
    for (TransposeOp op : llvm::reverse(transposes)) {
      SmallVector<int64_t> next;
      for (int64_t dimension : op.getPermutation())
        next.push_back(now[dimension]);
      now = std::move(next);
    }
    return now;
  }
  /// Whether `tensor`, absent or with as many elements as one, or with extent
  /// `axis` of the moved tensor alone, is that.
  bool variesAlong(ArrayRef<int64_t> shape, int64_t axis) const {
    for (auto [i, extent] : llvm::enumerate(moved(shape)))
      if (extent != 1 && int64_t(i) != axis)
        return false;
    return true;
  }
};

/// Weights that import has centred: i8 less a zero point.
bool takeConstant(Dequantized &found) {
  if (found.zero || !isa<IntegerType>(getElementTypeOrSelf(found.integers)) ||
      getElementTypeOrSelf(found.integers).isUnsignedInteger(64))
    return false;
  std::optional<Tensor> tensor = constantTensor(found.integers);
  if (!tensor || tensor->size() == 0)
    return false;
  auto [low, high] =
      std::minmax_element(tensor->ints().begin(), tensor->ints().end());
  if (*low < -255 || *high > 255 || *high - *low > 255)
    return false;
  bool fits = *low >= -128 && *high <= 127;
  int64_t zero = fits ? 0 : -128 - *low;
  for (int64_t &number : tensor->ints())
    number += zero;
  auto i8 = IntegerType::get(found.integers.getContext(), 8);
  found.constant = std::move(*tensor).withType(
      cast<RankedTensorType>(found.integers.getType()).clone(i8));
  if (zero) {
    Tensor zeros(
        RankedTensorType::get({}, IntegerType::get(i8.getContext(), 32)));
    zeros.ints()[0] = zero;
    found.zeroTensor = std::move(zeros);
  }
  return true;
}

std::optional<Dequantized> matchDequantized(Value value) {
  Dequantized found;
  while (auto transpose = value.getDefiningOp<TransposeOp>()) {
    found.transposes.push_back(transpose);
    value = transpose.getInput();
  }
  Type element = getElementTypeOrSelf(value.getType());
  if (!element.isF32() && !element.isF64())
    return std::nullopt;
  ArrayRef<int64_t> shape = shapeOf(value);
  if (auto product = value.getDefiningOp<MulOp>()) {
    for (int side = 0; side < 2 && !found.scale; ++side) {
      // Weights themselves may be constants, too.
      if (shapeOf(product->getOperand(1 - side)) == shape &&
          product->getOperand(1 - side).getDefiningOp<CastOp>())
        found.scale = constantTensor(product->getOperand(side));
      if (found.scale)
        value = product->getOperand(1 - side);
    }
    if (!found.scale)
      return std::nullopt;
  }
  auto cast = value.getDefiningOp<CastOp>();
  if (!cast)
    return std::nullopt;
  value = cast.getInput();
  if (auto difference = value.getDefiningOp<SubOp>()) {
    value = difference.getLhs();
    found.zero = difference.getRhs();
    if (!holdsDifferences(value))
      return std::nullopt;
    found.zeroTensor = constantTensor(found.zero);
    if (auto cast = found.zero.getDefiningOp<CastOp>();
        cast && isByte(cast.getInput()))
      found.zero = cast.getInput();
    // Numbers of 8 bits keep the sum below the bound.
    if (!isByte(found.zero) &&
        (!found.zeroTensor ||
         !llvm::all_of(found.zeroTensor->ints(), [](int64_t zero) {
           return zero >= -128 && zero <= 255;
         })))
      return std::nullopt;
  }
  if (auto wide = value.getDefiningOp<CastOp>();
      wide && isByte(wide.getInput()) && holdsDifferences(value))
    value = wide.getInput();
  if (shapeOf(value) != shape)
    return std::nullopt;
  found.integers = value;
  if (isByte(value) || takeConstant(found))
    return found;
  return std::nullopt;
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
    if (pads && from.zero && !from.zeroTensor)
      return rewriter.notifyMatchFailure(op, "padding of an unknown number");
    int64_t symmetric = isUnsigned(other.integers) ? 128 : 0;
    if (!(other.zeroTensor
              ? llvm::all_of(other.zeroTensor->ints(),
                             [&](int64_t zero) { return zero == symmetric; })
              : symmetric == 0))
      return rewriter.notifyMatchFailure(op, "the filter has a zero point");

    ScalarEmitter emit = emitterAt(op, rewriter);
    Side lhs = takeSide(emit, from, /*toUnsigned=*/true),
         rhs = takeSide(emit, other, /*toUnsigned=*/false);
    auto type = cast<RankedTensorType>(op.getType());
    Value sums = emit.create<ConvOp>(
        type.clone(rewriter.getI32Type()), lhs.integers, rhs.integers,
        op.getStridesAttr(), op.getPadLowAttr(), op.getPadHighAttr(),
        op.getDilationsAttr(), op.getGroupsAttr(), op.getLayoutAttr(),
        DenseI64ArrayAttr(), TypeAttr(), op.getComputeAttr(), PackedAttr(),
        rewriter.getI64IntegerAttr(pads ? *lhs.number : 0));
    SmallVector<int64_t> perChannel(rank - 1, 1);
    perChannel[0] = type.getDimSize(1);
    if (lhs.zero) {
      SmallVector<int64_t> axes;
      for (int64_t axis = 1; axis < rank; ++axis)
        axes.push_back(axis);
      Value filters =
          emit.reshape(sumsOf(emit, rhs.integers, axes), perChannel);
      sums = emit.sub(sums, emit.mul(filters, emit.reshape(lhs.zero, {})));
    }
    Value factor =
        factorOf(emit, from, other, perChannel, type.getElementType());
    replaceBy(op, sums, factor, emit, rewriter);
    return success();
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
  }

private:
  int64_t count() {
    int64_t number = 0;
    getOperation().walk([&](ContractionOpInterface op) {
      number += isByte(op->getOperand(0));
    });
    return number;
  }
};

} // namespace
