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

#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;
using Request = ElementEmitter::Request;
using Result = FailureOr<Value>;

FailureOr<Value> mpc::emitPool(ElementEmitter &e, Operation *op,
                               const Request &at) {
  OpBuilder &builder = e.getBuilder();
  Location loc = e.getLoc();
  auto average = dyn_cast<AvgPoolOp>(op);
  WindowShape pool = average ? WindowShape(average, average.getWindow())
                             : WindowShape(cast<MaxPoolOp>(op),
                                           cast<MaxPoolOp>(op).getWindow());
  if (at.lanes > 1 && !pool.channelsLast)
    return e.emitPerLane(op->getResult(0), at);
  Value input = op->getOperand(0);
  ArrayRef<int64_t> shape = shapeOf(input),
                    resultShape = shapeOf(op->getResult(0));
  size_t firstSpatial = pool.channelsLast ? 1 : 2, count = pool.window.size();
  IndexMath indexMath{builder, loc};
  ValueMath math(builder, loc);
  SmallVector<WindowDimension> window =
      pool.at(indexMath, at.indices, shape, resultShape);

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
          e.emit(input, Request{indices, at.lanes, at.mask, at.range});
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
    return carryLoop(
        e, range.begin, range.end, 1, sums, [&](Value k, ValueRange carried) {
          indices[firstSpatial + dim] =
              indexMath.add(range.start, indexMath.mul(k, range.dilation));
          return self(self, dim + 1, carried);
        });
  };
  FailureOr<Carried> sums = nest(nest, 0, e.splat(start, at.lanes));
  if (failed(sums))
    return failure();
  Value result = sums->front();
  if (!average)
    return result;

  Value divisor =
      countedElements(indexMath, window, average.getCountIncludePad(), type);
  return e.round(math.div(result, e.splat(divisor, at.lanes)), elementType);
}

//===----------------------------------------------------------------------===//
// Gradients
//
// An input element sums the contributions of all windows that contain it
// (gather instead of scatter), so elements are independent and need no atomics.
//===----------------------------------------------------------------------===//

FailureOr<Value> mpc::emitPoolGradient(ElementEmitter &e, Operation *op,
                                       const Request &at) {
  OpBuilder &builder = e.getBuilder();
  Location loc = e.getLoc();
  auto average = dyn_cast<AvgPoolGradientOp>(op);
  auto largest = dyn_cast<MaxPoolGradientOp>(op);
  WindowShape pool = average ? WindowShape(average, average.getWindow())
                             : WindowShape(largest, largest.getWindow());
  if (at.lanes > 1 && !pool.channelsLast)
    return e.emitPerLane(op->getResult(0), at);
  Value gradient = average ? average.getGradient() : largest.getGradient();
  ArrayRef<int64_t> in = shapeOf(op->getResult(0)), out = shapeOf(gradient);
  size_t firstSpatial = pool.channelsLast ? 1 : 2, count = pool.window.size();
  Type elementType = getElementTypeOrSelf(gradient.getType());
  Type type = lanesOf(carriedType(elementType), at.lanes);
  IndexMath indexMath{builder, loc};
  ValueMath math(builder, loc);

  Value own;
  if (largest) {
    Result value = e.emit(largest.getInput(), at);
    if (failed(value))
      return failure();
    own = *value;
  }
  // The output position, the element's position in its window, and whether it
  // is in that window (null: yes).
  SmallVector<Value> outputs(at.indices), place(count);
  Value inside;

  /// Returns whether the element is the one that its window chose.
  auto isChosen = [&](ArrayRef<WindowDimension> window) -> Result {
    // Flags as integers of the elements' width, all ones for true: LLVM handles
    // vectors of i1 in loops poorly.
    Type flag = ValueMath::withElement(
        type, builder.getIntegerType(
                  getElementTypeOrSelf(type).getIntOrFloatBitWidth()));
    Value ownPlace = e.index(0);
    for (size_t dim = 0; dim < count; ++dim)
      ownPlace =
          indexMath.add(indexMath.mul(ownPlace, pool.window[dim]), place[dim]);
    SmallVector<Value> from(at.indices);
    auto nest = [&](auto &&self, size_t dim, Value position,
                    ValueRange chosen) -> FailureOr<Carried> {
      if (dim == count) {
        Result other = e.emit(largest->getOperand(0),
                              Request{from, at.lanes, at.mask, at.range});
        if (failed(other))
          return failure();
        // The element beats an earlier one that is smaller, or a number if it
        // is NaN, and a later one that is not larger.
        Value earlier =
            math.bitAnd(math.compare(CmpFPredicate::ULT, *other, own),
                        math.compare(CmpFPredicate::ORD, *other, *other));
        Value later = math.bitOr(math.compare(CmpFPredicate::OLE, *other, own),
                                 math.compare(CmpFPredicate::UNO, own, own));
        Value beats =
            math.select(indexMath.less(position, ownPlace), earlier, later);
        return Carried{math.select(beats, chosen[0], math.integer(flag, 0))};
      }
      const WindowDimension &range = window[dim];
      return carryLoop(e, range.begin, range.end, 1, chosen,
                       [&](Value k, ValueRange carried) {
                         from[firstSpatial + dim] = indexMath.add(
                             range.start, indexMath.mul(k, range.dilation));
                         Value next = indexMath.add(
                             indexMath.mul(position, pool.window[dim]), k);
                         return self(self, dim + 1, next, carried);
                       });
    };
    FailureOr<Carried> chosen =
        nest(nest, 0, e.index(0), math.integer(flag, -1));
    if (failed(chosen))
      return failure();
    return math.compare(arith::CmpIPredicate::ne, chosen->front(),
                        math.integer(flag, 0));
  };

  /// Returns the contribution of one window.
  auto share = [&]() -> Result {
    Result given =
        e.emit(gradient, Request{outputs, at.lanes, at.mask, at.range});
    if (failed(given))
      return failure();
    SmallVector<WindowDimension> window = pool.at(indexMath, outputs, in, out);
    if (average)
      return math.div(*given,
                      e.splat(countedElements(indexMath, window,
                                              average.getCountIncludePad(),
                                              getElementTypeOrSelf(type)),
                              at.lanes));
    Result chosen = isChosen(window);
    if (failed(chosen))
      return failure();
    return math.select(*chosen, *given, math.constant(type, 0));
  };

  auto nest = [&](auto &&self, size_t dim,
                  ValueRange sums) -> FailureOr<Carried> {
    if (dim == count) {
      auto add = [&]() -> Result {
        Result value = share();
        if (failed(value))
          return failure();
        return math.add(sums[0], *value);
      };
      if (!inside) {
        Result sum = add();
        if (failed(sum))
          return failure();
        return Carried{*sum};
      }
      auto branch = scf::IfOp::create(builder, loc, TypeRange{type}, inside,
                                      /*addThenBlock=*/true,
                                      /*addElseBlock=*/true);
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToEnd(branch.thenBlock());
      Result sum = add();
      if (failed(sum))
        return failure();
      scf::YieldOp::create(builder, loc, *sum);
      builder.setInsertionPointToEnd(branch.elseBlock());
      scf::YieldOp::create(builder, loc, sums[0]);
      return Carried{branch.getResult(0)};
    }
    Value input = at.indices[firstSpatial + dim];
    int64_t stride = pool.strides[dim], dilation = pool.dilations[dim];
    HoldingWindows windows =
        windowsAround(indexMath, pool, dim, input, in[firstSpatial + dim],
                      out[firstSpatial + dim]);
    auto body = [&](Value output, ValueRange carried) -> FailureOr<Carried> {
      Value outer = inside;
      Value distance = indexMath.sub(indexMath.add(input, pool.low[dim]),
                                     indexMath.mul(output, stride));
      // A dilated window has holes.
      if (dilation > 1) {
        Value hit = math.compare(arith::CmpIPredicate::eq,
                                 indexMath.rem(distance, dilation), e.index(0));
        inside = inside ? math.bitAnd(inside, hit) : hit;
      }
      outputs[firstSpatial + dim] = output;
      place[dim] = indexMath.div(distance, dilation);
      FailureOr<Carried> next = self(self, dim + 1, carried);
      inside = outer;
      return next;
    };
    return windows.isSingle
               ? body(windows.begin, sums)
               : carryLoop(e, windows.begin, windows.end, 1, sums, body);
  };
  FailureOr<Carried> sums = nest(nest, 0, math.constant(type, 0));
  if (failed(sums))
    return failure();
  return e.round(sums->front(), elementType);
}
