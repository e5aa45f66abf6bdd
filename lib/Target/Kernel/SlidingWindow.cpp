//===- SlidingWindow.cpp - sliding windows per output position ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SlidingWindow.h"

using namespace mlir;
using namespace mpc;

/// ceil(max(x, 0) / divisor).
static Value ceilDivision(IndexMath &math, Value x, int64_t divisor) {
  Value positive =
      math.b.createOrFold<arith::MaxSIOp>(math.loc, x, math.constant(0));
  return math.div(math.add(positive, divisor - 1), divisor);
}

/// Returns dimension `dim` of the window at output position `output`.
static WindowDimension dimensionAt(IndexMath &math, const WindowShape &shape,
                                   size_t dim, Value output,
                                   int64_t inputExtent, int64_t outputExtent) {
  int64_t positions = shape.window[dim], stride = shape.strides[dim],
          before = shape.low[dim], dilation = shape.dilations[dim];
  WindowDimension result;
  result.dilation = dilation;
  Value scaled = math.mul(output, stride);
  result.start = math.sub(scaled, math.constant(before));
  // Bounds that every output position satisfies are constants.
  int64_t lastStart = (outputExtent - 1) * stride,
          reach = (positions - 1) * dilation;
  Value limit = math.constant(positions);
  auto upTo = [&](int64_t extent) {
    if (lastStart + reach < extent)
      return limit;
    Value count =
        ceilDivision(math, math.sub(math.constant(extent), scaled), dilation);
    return math.b.createOrFold<arith::MinSIOp>(math.loc, count, limit);
  };
  result.begin =
      before == 0 ? math.constant(0)
                  : ceilDivision(math, math.sub(math.constant(before), scaled),
                                 dilation);
  result.end = upTo(inputExtent + before);
  result.padded = upTo(inputExtent + before + shape.high[dim]);
  return result;
}

SmallVector<WindowDimension>
WindowShape::at(IndexMath &math, ValueRange output,
                ArrayRef<int64_t> inputShape,
                ArrayRef<int64_t> outputShape) const {
  size_t first = channelsLast ? 1 : 2;
  SmallVector<WindowDimension> dimensions;
  for (size_t dim = 0; dim < window.size(); ++dim)
    dimensions.push_back(dimensionAt(math, *this, dim, output[first + dim],
                                     inputShape[first + dim],
                                     outputShape[first + dim]));
  return dimensions;
}

Carried mpc::overWindow(ElementEmitter &emitter,
                        ArrayRef<WindowDimension> window, ValueRange initial,
                        llvm::function_ref<void(size_t, Value, Value)> place,
                        llvm::function_ref<Carried(ValueRange)> body) {
  IndexMath math = emitter.indexMath();
  auto nest = [&](auto &&self, size_t dim, ValueRange carried) -> Carried {
    if (dim == window.size())
      return body(carried);
    const WindowDimension &range = window[dim];
    return math.carry(
        range.begin, range.end, 1, carried, [&](Value k, ValueRange next) {
          place(dim, k, math.add(range.start, math.mul(k, range.dilation)));
          return self(self, dim + 1, next);
        });
  };
  return nest(nest, 0, initial);
}

HoldingWindows mpc::windowsAround(IndexMath &math, const WindowShape &pool,
                                  size_t dim, Value input, int64_t inputExtent,
                                  int64_t outputExtent) {
  int64_t stride = pool.strides[dim], low = pool.low[dim],
          reach = (pool.window[dim] - 1) * pool.dilations[dim];
  Value shifted = math.add(input, low);
  HoldingWindows result;
  result.isSingle =
      reach + 1 == stride && (inputExtent - 1 + low) / stride < outputExtent;
  Value last = math.div(shifted, stride);
  if (result.isSingle) {
    result.begin = last;
    result.end = math.add(last, 1);
    return result;
  }
  // max(ceil((shifted - reach) / stride), 0).
  result.begin =
      math.div(math.add(math.subOrZero(shifted, reach), stride - 1), stride);
  result.end = math.min(math.add(last, 1), outputExtent);
  return result;
}

Value mpc::countedElements(IndexMath &math, ArrayRef<WindowDimension> window,
                           bool includesPadding, Type type) {
  OpBuilder &b = math.b;
  Value elements = math.constant(1);
  for (const WindowDimension &range : window) {
    Value extent = range.padded;
    if (!includesPadding) {
      extent = math.sub(range.end, range.begin);
      extent =
          b.createOrFold<arith::MaxSIOp>(math.loc, extent, math.constant(0));
    }
    elements = b.createOrFold<arith::MulIOp>(math.loc, elements, extent);
  }
  elements =
      b.createOrFold<arith::MaxSIOp>(math.loc, elements, math.constant(1));
  ValueMath values(b, math.loc);
  if (std::optional<int64_t> known = getConstantIntValue(elements))
    return values.constant(type, static_cast<double>(*known));
  return values.toFloat(values.castIndex(elements, b.getI64Type()), type);
}
