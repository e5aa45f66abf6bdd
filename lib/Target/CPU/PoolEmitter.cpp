//===- PoolEmitter.cpp - max_pool and avg_pool at one result element ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loop bounds leave the padding out, so that the inner loops have no branch.
// Channels last: whole vectors of channels.
//
//===----------------------------------------------------------------------===//

#include "LoopKernels.h"

#include <limits>

using namespace mlir;
using namespace mpc;

namespace {
/// One spatial dimension of a window at one output position.
struct WindowDimension {
  /// Window positions [begin, end) whose elements exist.
  Value begin, end;
  /// Window positions inside the padded extent.
  Value padded;
  /// Input position of window position 0 (may be negative).
  Value start;
  int64_t dilation;
};

/// Attributes that both pools have.
struct PoolShape {
  template <typename Op>
  explicit PoolShape(Op op)
      : window(op.getWindow()), strides(op.getStrides()), low(op.getPadLow()),
        high(op.getPadHigh()), dilations(op.getDilations()),
        channelsLast(op.getLayout() == ImageLayout::channels_last) {}
  ArrayRef<int64_t> window, strides, low, high, dilations;
  bool channelsLast;
};
} // namespace

/// ceil(max(x, 0) / divisor).
static Value ceilDivision(IndexMath &math, Value x, int64_t divisor) {
  Value positive =
      math.b.createOrFold<arith::MaxSIOp>(math.loc, x, math.constant(0));
  return math.div(math.add(positive, divisor - 1), divisor);
}

static WindowDimension windowAt(IndexMath &math, const PoolShape &pool,
                                size_t dim, Value output, int64_t inputExtent,
                                int64_t outputExtent) {
  int64_t window = pool.window[dim], stride = pool.strides[dim],
          low = pool.low[dim], dilation = pool.dilations[dim];
  WindowDimension result;
  result.dilation = dilation;
  Value scaled = math.mul(output, stride);
  result.start = math.sub(scaled, math.constant(low));
  // The bounds that every position of the output satisfies are constants.
  int64_t lastStart = (outputExtent - 1) * stride,
          reach = (window - 1) * dilation;
  Value limit = math.constant(window);
  auto upTo = [&](int64_t extent) {
    if (lastStart + reach < extent)
      return limit;
    Value count =
        ceilDivision(math, math.sub(math.constant(extent), scaled), dilation);
    return math.b.createOrFold<arith::MinSIOp>(math.loc, count, limit);
  };
  result.begin =
      low == 0
          ? math.constant(0)
          : ceilDivision(math, math.sub(math.constant(low), scaled), dilation);
  result.end = upTo(inputExtent + low);
  result.padded = upTo(inputExtent + low + pool.high[dim]);
  return result;
}

FailureOr<Value> ElementEmitter::emitPool(Operation *op, const Request &at) {
  auto average = dyn_cast<AvgPoolOp>(op);
  PoolShape pool =
      average ? PoolShape(average) : PoolShape(cast<MaxPoolOp>(op));
  if (at.lanes > 1 && !pool.channelsLast)
    return emitPerLane(op->getResult(0), at);
  Value input = op->getOperand(0);
  ArrayRef<int64_t> shape = shapeOf(input),
                    resultShape = shapeOf(op->getResult(0));
  size_t firstSpatial = pool.channelsLast ? 1 : 2, count = pool.window.size();
  IndexMath indexMath{builder, loc};
  ValueMath math(builder, loc);
  SmallVector<WindowDimension> window;
  for (size_t dim = 0; dim < count; ++dim)
    window.push_back(
        windowAt(indexMath, pool, dim, at.indices[firstSpatial + dim],
                 shape[firstSpatial + dim], resultShape[firstSpatial + dim]));

  Type elementType = getElementTypeOrSelf(input.getType());
  Type type = carriedType(elementType);
  bool isFloat = isa<FloatType>(type);
  bool noSign = elementType.isUnsignedInteger() || elementType.isInteger(1);
  Value start;
  if (average) {
    start = math.constant(type, 0);
  } else if (isFloat) {
    start = math.constant(type, -std::numeric_limits<double>::infinity());
  } else {
    unsigned width = type.getIntOrFloatBitWidth();
    start = math.integer(
        type, noSign ? 0 : APInt::getSignedMinValue(width).getSExtValue());
  }

  SmallVector<Value> indices(at.indices);
  auto nest = [&](auto &&self, size_t dim,
                  ValueRange sums) -> FailureOr<Carried> {
    if (dim == count) {
      Result value =
          emitRequest(input, Request{indices, at.lanes, at.mask, at.range});
      if (failed(value))
        return failure();
      if (average)
        return Carried{math.add(sums[0], *value)};
      if (isFloat)
        return Carried{
            arith::MaximumFOp::create(builder, loc, sums[0], *value)};
      return Carried{
          noSign
              ? Value(arith::MaxUIOp::create(builder, loc, sums[0], *value))
              : Value(arith::MaxSIOp::create(builder, loc, sums[0], *value))};
    }
    const WindowDimension &range = window[dim];
    return carryLoop(*this, range.begin, range.end, 1, sums,
                     [&](Value k, ValueRange carried) {
                       indices[firstSpatial + dim] = indexMath.add(
                           range.start, indexMath.mul(k, range.dilation));
                       return self(self, dim + 1, carried);
                     });
  };
  FailureOr<Carried> sums = nest(nest, 0, splat(start, at.lanes));
  if (failed(sums))
    return failure();
  Value result = sums->front();
  if (!average)
    return result;

  Value elements = indexMath.constant(1);
  for (const WindowDimension &range : window) {
    Value extent = range.padded;
    if (!average.getCountIncludePad()) {
      extent = indexMath.sub(range.end, range.begin);
      extent = builder.createOrFold<arith::MaxSIOp>(loc, extent,
                                                    indexMath.constant(0));
    }
    elements = builder.createOrFold<arith::MulIOp>(loc, elements, extent);
  }
  // A window wholly in the padding has nothing to average.
  elements = builder.createOrFold<arith::MaxSIOp>(loc, elements,
                                                  indexMath.constant(1));
  Value divisor;
  if (std::optional<int64_t> known = getConstantIntValue(elements)) {
    divisor = math.constant(type, static_cast<double>(*known));
  } else {
    Value wide = arith::IndexCastOp::create(builder, loc, builder.getI64Type(),
                                            elements);
    divisor = arith::SIToFPOp::create(builder, loc, type, wide);
  }
  return round(math.div(result, splat(divisor, at.lanes)), elementType);
}
