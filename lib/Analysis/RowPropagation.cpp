//===- RowPropagation.cpp - propagation of rows through ops ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/RowPropagation.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcRecurrentOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;

std::optional<RowLocation> RowPropagation::placeIn(unsigned result) {
  std::optional<RowLocation> all;
  for (OpOperand &operand : op->getOpOperands()) {
    auto found = places.find(operand.get());
    if (found == places.end())
      continue;
    std::optional<RowLocation> place =
        fromOperand(operand.getOperandNumber(), found->second, result);
    if (!place)
      return std::nullopt;
    if (all && (all->dim != place->dim || all->width != place->width))
      return fails("combines each row with other rows");
    all = place;
  }
  return all;
}

std::optional<RowLocation> RowPropagation::fromOperand(unsigned operand,
                                                       RowLocation place,
                                                       unsigned result) {
  if (isa<ReshapeOp>(op))
    return throughReshape(place);
  std::optional<unsigned> dim = dimFrom(operand, place.dim, result);
  if (!dim)
    return std::nullopt;
  return RowLocation{*dim, place.width};
}

/// Returns the dimension of a result that broadcasting aligns with one of an
/// operand, counted from the last.
static unsigned alignedDim(Value operand, unsigned dim, Value result) {
  return dim + unsigned(shapeOf(result).size() - shapeOf(operand).size());
}

std::optional<unsigned> RowPropagation::throughProduct(MatmulOp product,
                                                       unsigned operand,
                                                       unsigned dim) {
  Value value = op->getOperand(operand);
  unsigned rank = shapeOf(value).size();
  unsigned out = shapeOf(op->getResult(0)).size();
  if (dim + 2 < rank)
    return alignedDim(value, dim, op->getResult(0));
  bool isLeft = operand == 0;
  bool isTurned =
      isLeft ? product.getTransposeLhs() : product.getTransposeRhs();
  // The left operand is [m, k], the right one [k, n].
  bool isFirst = dim + 2 == rank;
  bool isSummed = isFirst == (isLeft == isTurned);
  if (isSummed || product.getPacked())
    return fails("sums over the rows");
  return isLeft ? out - 2 : out - 1;
}

std::optional<unsigned> RowPropagation::throughReduction(unsigned operand,
                                                         unsigned dim) {
  if (operand != 0)
    return fails("has a scale or bias that depends on the row");
  SmallVector<int64_t> axes = cast<ReductionOpInterface>(op).getReductionAxes();
  if (llvm::is_contained(axes, int64_t(dim)))
    return fails("reduces over the rows");
  if (shapeOf(op->getOperand(0)).size() == shapeOf(op->getResult(0)).size())
    return dim;
  return dim - unsigned(llvm::count_if(
                   axes, [&](int64_t axis) { return axis < int64_t(dim); }));
}

/// Returns the dimension along which each element of `value` is its position,
/// where it numbers `rows` rows; nullopt if there is none. Follows iotas
/// through broadcasts and dimensions of one element.
static std::optional<unsigned> numberedDim(Value value, int64_t rows) {
  Operation *op = value.getDefiningOp();
  ArrayRef<int64_t> shape = shapeOf(value);
  if (auto iota = dyn_cast_or_null<IotaOp>(op)) {
    auto axis = unsigned(iota.getAxis());
    return shape[axis] == rows ? std::optional(axis) : std::nullopt;
  }
  if (!isa_and_nonnull<BroadcastOp, ReshapeOp>(op))
    return std::nullopt;
  Value source = op->getOperand(0);
  std::optional<unsigned> dim = numberedDim(source, rows);
  if (!dim)
    return std::nullopt;
  if (isa<BroadcastOp>(op))
    return alignedDim(source, *dim, value);
  // The same dimension of more than one element.
  auto isLong = [](int64_t extent) { return extent != 1; };
  ArrayRef<int64_t> before = shapeOf(source);
  if (!llvm::equal(llvm::make_filter_range(before, isLong),
                   llvm::make_filter_range(shape, isLong)))
    return std::nullopt;
  auto rank = llvm::count_if(before.take_front(*dim), isLong);
  for (unsigned i = 0; i < shape.size(); ++i)
    if (isLong(shape[i]) && rank-- == 0)
      return i;
  return std::nullopt;
}

/// The same of part `part` of index tuples in the last dimension.
static std::optional<unsigned> numberedDim(Value tuples, int64_t part,
                                           int64_t rows) {
  auto concat = tuples.getDefiningOp<ConcatOp>();
  unsigned last = shapeOf(tuples).size() - 1;
  if (!concat || concat.getAxis() != last)
    return std::nullopt;
  for (Value piece : concat->getOperands()) {
    int64_t length = shapeOf(piece)[last];
    if (part < length)
      return length == 1 ? numberedDim(piece, rows) : std::nullopt;
    part -= length;
  }
  return std::nullopt;
}

std::optional<unsigned> RowPropagation::throughGather(GatherNdOp gather,
                                                      unsigned operand,
                                                      unsigned dim) {
  ArrayRef<int64_t> indices = shapeOf(gather.getIndices());
  auto last = unsigned(indices.size() - 1),
       batchDims = unsigned(gather.getBatchDims());
  if (operand == 1)
    return dim != last ? std::optional(dim)
                       : fails("has indices that depend on the row");
  auto read = batchDims + unsigned(indices[last]);
  if (dim < batchDims)
    return dim;
  if (dim >= read)
    return dim - read + last;
  if (shapeOf(gather.getInput())[dim] != rows)
    return fails("gathers from the row dimension");
  // Each row's indices have its own number.
  std::optional<unsigned> numbered =
      numberedDim(gather.getIndices(), dim - batchDims, rows);
  if (!numbered || *numbered == last)
    return fails("gathers from the row dimension");
  return numbered;
}

std::optional<RowLocation> RowPropagation::throughReshape(RowLocation place) {
  ArrayRef<int64_t> from = shapeOf(op->getOperand(0)),
                    to = shapeOf(op->getResult(0));
  // In memory, a row consists of this many elements, repeated after all rows.
  int64_t elements = place.width * productOf(from.drop_front(place.dim + 1));
  int64_t behind = 1;
  for (unsigned dim = to.size(); dim-- > 0; behind *= to[dim]) {
    if (behind == 0 || elements % behind != 0)
      break;
    int64_t width = elements / behind;
    if (width != 0 && to[dim] % (width * rows) == 0)
      return RowLocation{dim, width};
  }
  return fails("splits rows in a reshape");
}

std::optional<unsigned> RowPropagation::dimFrom(unsigned operand, unsigned dim,
                                                unsigned result) {
  Value value = op->getOperand(operand);
  auto off = [&](int64_t axis) -> std::optional<unsigned> {
    if (axis == int64_t(dim))
      return fails("operates along the row dimension");
    return dim;
  };
  if (isa<ElementwiseOpInterface>(op))
    return alignedDim(value, dim, op->getResult(result));
  if (isa<ReductionOpInterface>(op) && op->getNumResults() == 1)
    return throughReduction(operand, dim);
  return llvm::TypeSwitch<Operation *, std::optional<unsigned>>(op)
      .Case([&](MatmulOp product) {
        return throughProduct(product, operand, dim);
      })
      .Case<ConvOp, ConvTransposeOp, MaxPoolOp, AvgPoolOp>(
          [&](auto) -> std::optional<unsigned> {
            if (operand == 0 && dim == 0)
              return 0u;
            return fails("slides its window over the rows");
          })
      .Case<MaxPoolGradientOp, AvgPoolGradientOp>(
          [&](auto) -> std::optional<unsigned> {
            if (dim == 0)
              return 0u;
            return fails("slides its window over the rows");
          })
      .Case([&](BatchNormOp) -> std::optional<unsigned> {
        if (operand == 0 && dim != 1)
          return dim;
        return fails("uses the row dimension as channels");
      })
      .Case([&](AttentionOp attention) -> std::optional<unsigned> {
        unsigned rank = shapeOf(attention.getQuery()).size();
        if (operand < 3 && dim + 2 < rank)
          return dim;
        if (operand == 3 && alignedDim(value, dim, op->getResult(0)) + 2 < rank)
          return alignedDim(value, dim, op->getResult(0));
        return fails("attends to all rows");
      })
      .Case<LstmOp, GruOp, RnnOp>(
          [&](auto recurrent) -> std::optional<unsigned> {
            // Inputs are [T, B, I], states [D, B, H], results [T, D, B, H].
            bool isState = value == recurrent.getInitialH();
            if constexpr (std::is_same_v<decltype(recurrent), LstmOp>)
              isState |= value == recurrent.getInitialC();
            if (dim == 1 && (operand == 0 || isState))
              return result == 0 ? 2u : 1u;
            return fails("iterates over the rows as time steps");
          })
      .Case([&](TransposeOp transpose) -> std::optional<unsigned> {
        return unsigned(llvm::find(transpose.getPermutation(), int64_t(dim)) -
                        transpose.getPermutation().begin());
      })
      .Case([&](BroadcastOp) -> std::optional<unsigned> {
        return alignedDim(value, dim, op->getResult(0));
      })
      .Case([&](ConcatOp concat) { return off(concat.getAxis()); })
      .Case([&](CumsumOp cumsum) { return off(cumsum.getAxis()); })
      .Case([&](TopKOp top) { return off(top.getAxis()); })
      .Case([&](ReverseOp reverse) {
        return llvm::is_contained(reverse.getAxes(), int64_t(dim))
                   ? off(dim)
                   : std::optional(dim);
      })
      .Case([&](SliceOp slice) -> std::optional<unsigned> {
        if (slice.getOffsets()[dim] == 0 &&
            slice.getSizes()[dim] == shapeOf(value)[dim] &&
            slice.getStrideValues()[dim] == 1)
          return dim;
        return fails("slices the rows");
      })
      .Case([&](PadOp pad) -> std::optional<unsigned> {
        bool hasInterior = pad.getInterior() && (*pad.getInterior())[dim] != 0;
        if (operand == 0 && pad.getLow()[dim] == 0 && pad.getHigh()[dim] == 0 &&
            !hasInterior)
          return dim;
        return fails("pads the rows");
      })
      .Case([&](GatherOp gather) -> std::optional<unsigned> {
        auto axis = unsigned(gather.getAxis());
        if (operand == 1)
          return axis + dim;
        if (dim == axis)
          return fails("gathers from the row dimension");
        return dim < axis
                   ? dim
                   : dim + unsigned(shapeOf(gather.getIndices()).size()) - 1;
      })
      .Case([&](GatherNdOp gather) {
        return throughGather(gather, operand, dim);
      })
      .Case([&](GatherElementsOp gather) { return off(gather.getAxis()); })
      .Case([&](ScatterElementsOp scatter) { return off(scatter.getAxis()); })
      .Case([&](OneHotOp oneHot) -> std::optional<unsigned> {
        if (operand != 0)
          return fails("has on or off values that depend on the row");
        return dim < oneHot.getAxis() ? dim : dim + 1;
      })
      .Default([&](Operation *) -> std::optional<unsigned> {
        return fails("is not known to keep rows independent");
      });
}
