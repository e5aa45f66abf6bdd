//===- ElementEmitterContraction.cpp - contractions per result element ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fallback for contractions without a faster kernel: computes each element of a
// matmul or convolution on demand.
//
//===----------------------------------------------------------------------===//

#include "SlidingWindow.h"

#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mpc;

namespace {
/// Sums products of carried values in a contraction's accumulator type.
class DotProductEmitter {
public:
  DotProductEmitter(ElementEmitter &emitter, ContractionOpInterface op)
      : emitter(emitter), math(emitter.getBuilder(), emitter.getLoc()),
        accumulator(op.getAccumulateType()), type(carriedType(accumulator)) {
    for (auto [isUnsigned, operand] :
         llvm::zip(unsignedOperands, op->getOperands()))
      isUnsigned = getElementTypeOrSelf(operand.getType()).isUnsignedInteger();
  }

  Value zero() {
    return isa<FloatType>(type) ? math.constant(type, 0)
                                : math.integer(type, 0);
  }

  FailureOr<Carried> add(ValueRange sums, FailureOr<Value> x,
                         FailureOr<Value> y) {
    if (failed(x) || failed(y))
      return failure();
    Value sum;
    if (isa<FloatType>(type)) {
      sum = math.fma(toAccumulator(math, *x, accumulator),
                     toAccumulator(math, *y, accumulator), sums[0]);
    } else {
      OpBuilder &b = emitter.getBuilder();
      Value product = arith::MulIOp::create(b, emitter.getLoc(), widen(*x, 0),
                                            widen(*y, 1));
      sum = math.addInt(sums[0], product);
    }
    return Carried{emitter.round(sum, accumulator)};
  }

  Value finish(Value sum, Type elementType) {
    if (getElementTypeOrSelf(sum.getType()).isF64() && !elementType.isF64())
      sum = elementType.isF32() ? math.truncateFloat(sum, elementType)
                                : math.truncateToOdd(sum);
    return emitter.round(sum, elementType);
  }

private:
  Value widen(Value x, unsigned operand) {
    unsigned width = type.getIntOrFloatBitWidth();
    if (getElementTypeOrSelf(x.getType()).getIntOrFloatBitWidth() >= width)
      return x;
    return unsignedOperands[operand] ? math.extendUnsigned(x, type)
                                     : math.extendSigned(x, type);
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

FailureOr<Value> ElementEmitter::emitMatmul(Operation *op, const Request &at) {
  auto matmul = cast<MatmulOp>(op);
  PackedAttr packed = matmul.getPackedAttr();
  if (!readsElements(matmul.getRhs(), packed))
    return op->emitOpError(
               "has a packed operand, which only contraction kernels support"),
           failure();
  if (at.lanes > 1)
    return emitPerLane(matmul.getResult(), at);
  Value lhs = matmul.getLhs(), rhs = matmul.getRhs();
  bool lhsTransposed = matmul.getTransposeLhs(),
       rhsTransposed = matmul.getTransposeRhs();
  DotProductEmitter product(*this, matmul);
  // The operand's own batch indices, then its row and column.
  auto element = [&](Value operand, Value row, Value column) {
    ArrayRef<int64_t> shape = shapeOf(operand);
    SmallVector<Value> indices(
        at.indices.drop_back(2).take_back(shape.size() - 2));
    for (auto [extent, index] : llvm::zip(shape, indices))
      if (extent == 1)
        index = this->index(0);
    indices.append({row, column});
    return emit(operand, indices, 1);
  };
  Value row = at.indices[at.indices.size() - 2], column = at.indices.back();
  int64_t depth = shapeOf(lhs)[shapeOf(lhs).size() - (lhsTransposed ? 2 : 1)];
  FailureOr<Carried> sum = carryLoop(
      *this, index(0), index(depth), 1, product.zero(),
      [&](Value k, ValueRange sums) {
        FailureOr<Value> left =
            lhsTransposed ? element(lhs, k, row) : element(lhs, row, k);
        if (packed)
          return product.add(
              sums, left,
              emit(rhs, inPanels({builder, loc}, packed, index(0), k, column),
                   1));
        return product.add(sums, left,
                           rhsTransposed ? element(rhs, column, k)
                                         : element(rhs, k, column));
      });
  if (failed(sum))
    return failure();
  return product.finish(sum->front(),
                        getElementTypeOrSelf(op->getResult(0).getType()));
}

FailureOr<Value> ElementEmitter::emitConv(Operation *op, const Request &at) {
  auto conv = cast<ConvOp>(op);
  PackedAttr packed = conv.getPackedAttr();
  if (!readsElements(conv.getFilter(), packed))
    return op->emitOpError(
               "has a packed filter, which only contraction kernels support"),
           failure();
  if (conv.getPadValue())
    return op->emitOpError(
               "pads with a number, which only contraction kernels support"),
           failure();
  if (at.lanes > 1)
    return emitPerLane(conv.getResult(), at);
  WindowShape shape(conv, conv.getWindowShape());
  ArrayRef<int64_t> input = shapeOf(conv.getInput()),
                    result = shapeOf(conv.getResult());
  size_t count = shape.window.size(), firstSpatial = shape.channelsLast ? 1 : 2,
         channelDim = shape.channelsLast ? count + 1 : 1;
  int64_t groups = std::max<int64_t>(conv.getGroups(), 1),
          groupOutputs = conv.getOutputChannels() / groups,
          groupInputs = input[channelDim] / groups;
  IndexMath math{builder, loc};
  SmallVector<WindowDimension> window;
  for (size_t dim = 0; dim < count; ++dim)
    window.push_back(shape.at(math, dim, at.indices[firstSpatial + dim],
                              input[firstSpatial + dim],
                              result[firstSpatial + dim]));
  Value channel = at.indices[channelDim];
  Value firstInput =
      groups == 1 ? index(0)
                  : math.mul(math.div(channel, groupOutputs), groupInputs);
  DotProductEmitter product(*this, conv);
  SmallVector<Value> from(at.indices), weight(count + 2);
  weight[0] = channel;
  // Positions of a panel are window positions, channels last.
  auto filterAt = [&]() -> FailureOr<Value> {
    if (!packed)
      return emit(conv.getFilter(), weight, 1);
    Value k = index(0);
    for (size_t dim = 0; dim < count; ++dim)
      k = math.add(math.mul(k, shape.window[dim]), weight[2 + dim]);
    k = math.add(math.mul(k, groupInputs), weight[1]);
    Value group = math.div(channel, groupOutputs);
    int64_t panels = shapeOf(conv.getFilter()).front() / groups;
    return emit(conv.getFilter(),
                inPanels(math, packed, math.mul(group, panels), k,
                         math.rem(channel, groupOutputs)),
                1);
  };
  auto nest = [&](auto &&self, size_t dim,
                  ValueRange sums) -> FailureOr<Carried> {
    if (dim == count)
      return carryLoop(*this, index(0), index(groupInputs), 1, sums,
                       [&](Value c, ValueRange carried) {
                         from[channelDim] = math.add(firstInput, c);
                         weight[1] = c;
                         return product.add(carried,
                                            emit(conv.getInput(), from, 1),
                                            filterAt());
                       });
    const WindowDimension &range = window[dim];
    return carryLoop(*this, range.begin, range.end, 1, sums,
                     [&](Value k, ValueRange carried) {
                       from[firstSpatial + dim] =
                           math.add(range.start, math.mul(k, range.dilation));
                       weight[2 + dim] = k;
                       return self(self, dim + 1, carried);
                     });
  };
  FailureOr<Carried> sum = nest(nest, 0, product.zero());
  if (failed(sum))
    return failure();
  return product.finish(sum->front(),
                        getElementTypeOrSelf(op->getResult(0).getType()));
}
