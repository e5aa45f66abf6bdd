//===- PoolEmitter.cpp - max_pool and avg_pool per result element ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loop bounds exclude the padding, so that the inner loops have no branch.
// Channels last: whole vectors of channels.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"

#include "SlidingWindow.h"

#include <limits>

using namespace mlir;
using namespace mpc;

FailureOr<Value> ElementEmitter::emitPool(Operation *op, const Request &at) {
  auto average = dyn_cast<AvgPoolOp>(op);
  WindowShape pool = average ? WindowShape(average, average.getWindow())
                             : WindowShape(cast<MaxPoolOp>(op),
                                           cast<MaxPoolOp>(op).getWindow());
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
    window.push_back(pool.at(indexMath, dim, at.indices[firstSpatial + dim],
                             shape[firstSpatial + dim],
                             resultShape[firstSpatial + dim]));

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

  Value divisor =
      countedElements(indexMath, window, average.getCountIncludePad(), type);
  return round(math.div(result, splat(divisor, at.lanes)), elementType);
}
