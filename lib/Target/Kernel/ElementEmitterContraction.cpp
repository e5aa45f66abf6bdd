//===- ElementEmitterContraction.cpp - reductions and contractions --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fallback for reductions and contractions without a faster kernel: computes
// each result element on demand by a loop nest at that element.
//
//===----------------------------------------------------------------------===//

#include "SlidingWindow.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;
using Request = ElementEmitter::Request;

namespace {
/// Sums products of carried values in a contraction's accumulator type.
class DotProductEmitter {
public:
  DotProductEmitter(ElementEmitter &emitter, ContractionOpInterface op)
      : emitter(emitter), math(emitter.math()),
        accumulator(op.getAccumulateType()), type(carriedType(accumulator)) {
    for (auto [isUnsigned, operand] :
         llvm::zip(unsignedOperands, op->getOperands()))
      isUnsigned = getElementTypeOrSelf(operand.getType()).isUnsignedInteger();
  }

  Value zero() { return math.constant(type, 0); }

  Carried add(ValueRange sums, Value x, Value y) {
    Value sum = isa<FloatType>(type)
                    ? math.fma(toAccumulator(math, x, accumulator),
                               toAccumulator(math, y, accumulator), sums[0])
                    : math.add(sums[0], math.mul(widen(x, 0), widen(y, 1)));
    return {emitter.round(sum, accumulator)};
  }

  Value finish(Value sum, Type elementType) {
    return emitter.round(math.narrowDouble(sum, elementType), elementType);
  }

private:
  Value widen(Value x, unsigned operand) {
    unsigned width = type.getIntOrFloatBitWidth();
    if (getElementTypeOrSelf(x.getType()).getIntOrFloatBitWidth() >= width)
      return x;
    return math.extendInt(x, type, unsignedOperands[operand]);
  }

  ElementEmitter &emitter;
  ValueMath math;
  Type accumulator, type;
  bool unsignedOperands[2];
};
} // namespace

/// Returns true if elements of `operand`, in the layout `packed` if not null,
/// are read one by one.
static bool readsElements(Value operand, PackedAttr packed) {
  auto narrow = operand.getDefiningOp<DequantizeOp>();
  return !packed || (narrow && narrow.getDepth() == 1);
}

/// Returns the indices of position `k` of column `n` of a group in panels of
/// `columns`, the first of which is panel `panel`.
static SmallVector<Value> inPanels(IndexMath math, PackedAttr packed,
                                   Value panel, Value k, Value n) {
  int64_t columns = packed.getColumns();
  return {math.add(panel, math.div(n, columns)), k, math.rem(n, columns)};
}

static Value emitMatmul(ElementEmitter &e, MatmulOp matmul, const Request &at) {
  PackedAttr packed = matmul.getPackedAttr();
  if (!readsElements(matmul.getRhs(), packed))
    return e.fail(
        matmul, "has a packed operand, which only contraction kernels support",
        at.lanes);
  if (isa<Float8E4M3FNType, Float8E5M2Type>(
          getElementTypeOrSelf(matmul.getLhs())))
    return e.fail(
        matmul,
        "multiplies 8-bit floats, which needs a target with matrix units "
        "of these types and an f32 result",
        at.lanes);
  if (at.lanes > 1)
    return e.valuePerLane(matmul.getResult(), at);
  Value lhs = matmul.getLhs(), rhs = matmul.getRhs();
  bool lhsTransposed = matmul.getTransposeLhs(),
       rhsTransposed = matmul.getTransposeRhs();
  DotProductEmitter product(e, matmul);
  // The operand's own batch indices, then its row and column.
  auto element = [&](Value operand, Value row, Value column) {
    ArrayRef<int64_t> shape = shapeOf(operand);
    SmallVector<Value> indices(
        at.indices.drop_back(2).take_back(shape.size() - 2));
    for (auto [extent, index] : llvm::zip(shape, indices))
      if (extent == 1)
        index = e.index(0);
    indices.append({row, column});
    return e.value(operand, indices, 1);
  };
  Value row = at.indices[at.indices.size() - 2], column = at.indices.back();
  int64_t depth = shapeOf(lhs)[shapeOf(lhs).size() - (lhsTransposed ? 2 : 1)];
  Carried sum = e.indexMath().carry(
      e.index(0), e.index(depth), 1, product.zero(),
      [&](Value k, ValueRange sums) {
        Value left =
            lhsTransposed ? element(lhs, k, row) : element(lhs, row, k);
        if (packed)
          return product.add(
              sums, left,
              e.value(rhs,
                      inPanels(e.indexMath(), packed, e.index(0), k, column),
                      1));
        return product.add(sums, left,
                           rhsTransposed ? element(rhs, column, k)
                                         : element(rhs, k, column));
      });
  return product.finish(sum[0], getElementTypeOrSelf(matmul.getType()));
}

static Value emitConv(ElementEmitter &e, ConvOp conv, const Request &at) {
  PackedAttr packed = conv.getPackedAttr();
  if (!readsElements(conv.getFilter(), packed))
    return e.fail(conv,
                  "has a packed filter, which only contraction kernels support",
                  at.lanes);
  if (conv.getPadValue())
    return e.fail(conv,
                  "pads with a number, which only contraction kernels support",
                  at.lanes);
  if (at.lanes > 1)
    return e.valuePerLane(conv.getResult(), at);
  WindowShape shape(conv, conv.getWindowShape());
  ArrayRef<int64_t> input = shapeOf(conv.getInput()),
                    result = shapeOf(conv.getResult());
  size_t count = shape.window.size(), firstSpatial = shape.channelsLast ? 1 : 2,
         channelDim = shape.channelsLast ? count + 1 : 1;
  int64_t groups = std::max<int64_t>(conv.getGroups(), 1),
          groupOutputs = conv.getOutputChannels() / groups,
          groupInputs = input[channelDim] / groups;
  IndexMath math = e.indexMath();
  SmallVector<WindowDimension> window =
      shape.at(math, at.indices, input, result);
  Value channel = at.indices[channelDim];
  Value firstInput =
      groups == 1 ? e.index(0)
                  : math.mul(math.div(channel, groupOutputs), groupInputs);
  DotProductEmitter product(e, conv);
  SmallVector<Value> from(at.indices), weight(count + 2);
  weight[0] = channel;
  // Positions of a panel are window positions, channels last.
  auto filterAt = [&] {
    if (!packed)
      return e.value(conv.getFilter(), weight, 1);
    Value k = e.index(0);
    for (size_t dim = 0; dim < count; ++dim)
      k = math.add(math.mul(k, shape.window[dim]), weight[2 + dim]);
    k = math.add(math.mul(k, groupInputs), weight[1]);
    Value group = math.div(channel, groupOutputs);
    int64_t panels = shapeOf(conv.getFilter()).front() / groups;
    return e.value(conv.getFilter(),
                   inPanels(math, packed, math.mul(group, panels), k,
                            math.rem(channel, groupOutputs)),
                   1);
  };
  Carried sum = overWindow(
      e, window, product.zero(),
      [&](size_t dim, Value k, Value position) {
        from[firstSpatial + dim] = position;
        weight[2 + dim] = k;
      },
      [&](ValueRange sums) {
        return math.carry(e.index(0), e.index(groupInputs), 1, sums,
                          [&](Value c, ValueRange carried) {
                            from[channelDim] = math.add(firstInput, c);
                            weight[1] = c;
                            return product.add(
                                carried, e.value(conv.getInput(), from, 1),
                                filterAt());
                          });
      });
  return product.finish(sum[0], getElementTypeOrSelf(conv.getType()));
}

/// Full-rank indices of a reduction's input from those of its result.
static SmallVector<Value> expandIndices(ElementEmitter &emitter,
                                        ValueRange result,
                                        ArrayRef<int64_t> shape,
                                        ArrayRef<int64_t> axes) {
  bool keepsDims = result.size() == shape.size();
  SmallVector<Value> indices;
  size_t next = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    bool reduced = llvm::is_contained(axes, static_cast<int64_t>(dim));
    if (reduced && !keepsDims)
      indices.push_back(emitter.index(0));
    else
      indices.push_back(result[next++]);
  }
  return indices;
}

static Value emitReduce(ElementEmitter &e, Operation *op, const Request &at) {
  Value input = op->getOperand(0);
  ArrayRef<int64_t> shape = shapeOf(input);
  SmallVector<int64_t> axes = cast<ReductionOpInterface>(op).getReductionAxes();
  bool horizontal =
      llvm::is_contained(axes, static_cast<int64_t>(shape.size()) - 1);
  if (horizontal && at.lanes > 1)
    return e.valuePerLane(op->getResult(0), at);
  Reducer reducer = reducerOf(e, op);
  SmallVector<LaneSegment> segments;
  if (horizontal)
    segments = planSummedLanes(e, input, shape.back());
  return reducer.finish(reducer.run(e, shape, axes,
                                    expandIndices(e, at.indices, shape, axes),
                                    at.lanes, at.range, segments));
}

//===----------------------------------------------------------------------===//
// batch_norm
//===----------------------------------------------------------------------===//

static Value emitBatchNorm(ElementEmitter &e, BatchNormOp norm,
                           const Request &at) {
  bool channelLanes = shapeOf(norm.getInput()).size() == 2;
  auto channel = [&](Value tensor) {
    Value position = at.indices[1];
    return channelLanes
               ? e.valueIn(tensor, position, at.lanes, at.range, at.mask)
               : e.scalarValue(tensor, position, at.lanes);
  };
  Value x = e.value(norm.getInput(), at), scale = channel(norm.getScale()),
        bias = channel(norm.getBias()), mean = channel(norm.getMean()),
        variance = channel(norm.getVariance());
  MathExpansion math = e.math();
  Value one = math.constant(x.getType(), 1.0);
  Value deviation =
      math.sqrt(math.add(variance, norm.getEpsilon().convertToDouble()));
  Value scaled = math.mul(math.sub(x, mean), math.div(one, deviation));
  return e.round(math.add(math.mul(scaled, scale), bias),
                 getElementTypeOrSelf(norm.getResult().getType()));
}

Value mpc::emitComputed(ElementEmitter &e, Operation *op, const Request &at) {
  if (isReducing(op))
    return emitReduce(e, op, at);
  return TypeSwitch<Operation *, Value>(op)
      .Case<MaxPoolOp, AvgPoolOp>([&](auto) { return emitPool(e, op, at); })
      .Case<MaxPoolGradientOp, AvgPoolGradientOp>(
          [&](auto) { return emitPoolGradient(e, op, at); })
      .Case([&](RandomBitsOp) { return emitRandomBits(e, op, at); })
      .Case([&](BatchNormOp norm) { return emitBatchNorm(e, norm, at); })
      .Case([&](MatmulOp matmul) { return emitMatmul(e, matmul, at); })
      .Case([&](ConvOp conv) { return emitConv(e, conv, at); })
      .Default([&](Operation *) {
        return e.fail(op->getResult(0), "has no element-by-element form",
                      at.lanes);
      });
}
