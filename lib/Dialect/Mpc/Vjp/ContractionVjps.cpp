//===- ContractionVjps.cpp - derivatives of GEMMs and convolutions --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gradients of contractions are contractions of the same operands, with
// transposes expressed by layout flags. Cotangents are rounded to the operands'
// type; accumulators have the forward op's accumulate type.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"

#include "VjpBuilder.h"

#include "mlir/Dialect/Traits.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// matmul
//===----------------------------------------------------------------------===//

/// Batched matmul accumulated in `wide`.
static Value product(VjpBuilder &v, Value lhs, bool transposeLhs, Value rhs,
                     bool transposeRhs, Type wide, MatmulOp like) {
  ArrayRef<int64_t> left = shapeOf(lhs), right = shapeOf(rhs);
  SmallVector<int64_t> shape;
  [[maybe_unused]] bool broadcasts = OpTrait::util::getBroadcastedShape(
      left.drop_back(2), right.drop_back(2), shape);
  assert(broadcasts && "batch dimensions of a valid product");
  shape.push_back(left[left.size() - (transposeLhs ? 1 : 2)]);
  shape.push_back(right[right.size() - (transposeRhs ? 2 : 1)]);
  return v.create<MatmulOp>(
      RankedTensorType::get(shape, wide), lhs, rhs, transposeLhs, transposeRhs,
      like.getAccumulateAttr(), like.getCompute(), PackedAttr());
}

/// Flattens `[batch..., rows, columns]` to one matrix of all rows.
static Value flattenRows(VjpBuilder &v, Value value) {
  ArrayRef<int64_t> shape = shapeOf(value);
  return v.reshape(value, {productOf(shape.drop_back()), shape.back()});
}

static LogicalResult vjpOfMatmul(MatmulOp op, VjpBuilder &v) {
  if (op.getPackedAttr())
    return op.emitOpError(
        "has a packed operand; differentiate before the Layout stage");
  Value lhs = op.getLhs(), rhs = op.getRhs();
  bool lhsTurned = op.getTransposeLhs(), rhsTurned = op.getTransposeRhs();
  Type wide = v.elementOf(op.getResult());
  Value dy = v.cast(v.dy(), v.elementOf(lhs));
  if (v.needs(0))
    v.give(0, lhsTurned ? product(v, rhs, rhsTurned, dy, true, wide, op)
                        : product(v, dy, false, rhs, !rhsTurned, wide, op));
  if (!v.needs(1))
    return success();
  // A weight shared by the batch: one GEMM over all rows instead of one per
  // batch entry and a reduction.
  ArrayRef<int64_t> weight = shapeOf(rhs);
  if (!lhsTurned && productOf(weight.drop_back(2)) == 1 && v.rankOf(lhs) > 2 &&
      shapeOf(lhs).drop_back(2) == shapeOf(dy).drop_back(2)) {
    Value rows = flattenRows(v, lhs), dyRows = flattenRows(v, dy);
    Value gradient = rhsTurned
                         ? product(v, dyRows, true, rows, false, wide, op)
                         : product(v, rows, true, dyRows, false, wide, op);
    v.give(1, v.reshape(gradient, weight));
    return success();
  }
  v.give(1, rhsTurned ? product(v, dy, true, lhs, lhsTurned, wide, op)
                      : product(v, lhs, !lhsTurned, dy, false, wide, op));
  return success();
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

/// [N, spatial..., C] to [N, C, spatial...].
static SmallVector<int64_t> toChannelsFirst(int64_t rank) {
  SmallVector<int64_t> order = {0, rank - 1};
  llvm::append_range(order, axesFrom(1, rank - 1));
  return order;
}

static RankedTensorType withElement(Value value, Type element) {
  return RankedTensorType::get(shapeOf(value), element);
}

static LogicalResult vjpOfConv(ConvOp op, VjpBuilder &v) {
  if (op.getPackedAttr())
    return op.emitOpError(
        "has a packed filter; differentiate before the Layout stage");
  Type wide = v.elementOf(op.getResult()), narrow = v.elementOf(op.getInput());
  Value dy = v.cast(v.dy(), narrow);
  if (v.needs(1))
    v.give(1, v.create<ConvFilterGradientOp>(
                  withElement(op.getFilter(), wide), op.getInput(), dy,
                  op.getStridesAttr(), op.getPadLowAttr(), op.getPadHighAttr(),
                  op.getDilationsAttr(), op.getGroupsAttr(), op.getLayoutAttr(),
                  op.getAccumulateAttr(), op.getComputeAttr()));
  if (!v.needs(0))
    return success();
  bool last = op.getLayout() == ImageLayout::channels_last;
  int64_t rank = v.rankOf(dy);
  SmallVector<int64_t> toFirst = toChannelsFirst(rank);
  Value image = last ? v.transpose(dy, toFirst) : dy;
  SmallVector<int64_t> shape(shapeOf(op.getInput()));
  if (last)
    shape = llvm::map_to_vector(
        toFirst, [&](int64_t d) { return shapeOf(op.getInput())[d]; });
  // Remainder of the input after the last window.
  SmallVector<int64_t> over;
  for (int64_t i = 0; i < rank - 2; ++i)
    over.push_back(shape[2 + i] + op.getPadLow()[i] + op.getPadHigh()[i] -
                   (shapeOf(image)[2 + i] - 1) * op.getStrides()[i] -
                   op.getDilations()[i] * (shapeOf(op.getFilter())[2 + i] - 1) -
                   1);
  Value gradient = v.create<ConvTransposeOp>(
      RankedTensorType::get(shape, wide), image, op.getFilter(),
      op.getStridesAttr(), op.getPadLowAttr(), op.getPadHighAttr(),
      op.getDilationsAttr(), v.builder.getDenseI64ArrayAttr(over),
      op.getGroupsAttr(), op.getAccumulateAttr(), op.getComputeAttr());
  v.give(0,
         last ? v.transpose(gradient, inversePermutation(toFirst)) : gradient);
  return success();
}

static void vjpOfConvTranspose(ConvTransposeOp op, VjpBuilder &v) {
  Type wide = v.elementOf(op.getResult()), narrow = v.elementOf(op.getInput());
  Value dy = v.cast(v.dy(), narrow);
  // Output padding of a stride or more belongs to no window: equals less
  // padding, or a cropped cotangent.
  SmallVector<int64_t> sizes(shapeOf(dy)), padHigh(op.getPadHigh());
  for (size_t i = 0; i < padHigh.size(); ++i) {
    int64_t extra =
        op.getOutputPadding()[i] / op.getStrides()[i] * op.getStrides()[i];
    int64_t fromPadding = std::min(extra, padHigh[i]);
    padHigh[i] -= fromPadding;
    sizes[2 + i] -= extra - fromPadding;
  }
  dy = v.slice(dy, SmallVector<int64_t>(sizes.size(), 0), sizes);
  auto high = v.builder.getDenseI64ArrayAttr(padHigh);
  auto layout =
      ImageLayoutAttr::get(v.builder.getContext(), ImageLayout::channels_first);
  if (v.needs(0))
    v.give(0, v.create<ConvOp>(withElement(op.getInput(), wide), dy,
                               op.getFilter(), op.getStridesAttr(),
                               op.getPadLowAttr(), high, op.getDilationsAttr(),
                               op.getGroupsAttr(), layout, DenseI64ArrayAttr(),
                               op.getAccumulateAttr(), op.getComputeAttr(),
                               PackedAttr(), IntegerAttr()));
  if (v.needs(1))
    v.give(1, v.create<ConvFilterGradientOp>(
                  withElement(op.getFilter(), wide), dy, op.getInput(),
                  op.getStridesAttr(), op.getPadLowAttr(), high,
                  op.getDilationsAttr(), op.getGroupsAttr(), layout,
                  op.getAccumulateAttr(), op.getComputeAttr()));
}

void mpc::attachContractionVjps(MLIRContext *context) {
  attachVjp<MatmulOp>(
      context, [](MatmulOp op, VjpBuilder &v) { return vjpOfMatmul(op, v); });
  attachVjp<ConvOp>(context,
                    [](ConvOp op, VjpBuilder &v) { return vjpOfConv(op, v); });
  attachVjp<ConvTransposeOp>(context, [](ConvTransposeOp op, VjpBuilder &v) {
    vjpOfConvTranspose(op, v);
  });
}

void mpc::attachPoolVjps(MLIRContext *context) {
  attachVjp<MaxPoolOp>(context, [](MaxPoolOp op, VjpBuilder &v) {
    v.give(0, v.create<MaxPoolGradientOp>(
                  op.getInput().getType(), op.getInput(), v.dy(),
                  op.getWindowAttr(), op.getStridesAttr(), op.getPadLowAttr(),
                  op.getPadHighAttr(), op.getDilationsAttr(),
                  op.getCeilModeAttr(), op.getLayoutAttr()));
  });
  attachVjp<AvgPoolOp>(context, [](AvgPoolOp op, VjpBuilder &v) {
    v.give(0, v.create<AvgPoolGradientOp>(
                  op.getInput().getType(), v.dy(), op.getWindowAttr(),
                  op.getStridesAttr(), op.getPadLowAttr(), op.getPadHighAttr(),
                  op.getDilationsAttr(), op.getCeilModeAttr(),
                  op.getCountIncludePadAttr(), op.getLayoutAttr()));
  });
}
