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

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;
using arith::CmpIPredicate;
using Request = ElementEmitter::Request;

Value mpc::emitPool(ElementEmitter &e, Operation *op, const Request &at) {
  auto average = dyn_cast<AvgPoolOp>(op);
  WindowShape pool = average ? WindowShape(average, average.getWindow())
                             : WindowShape(cast<MaxPoolOp>(op),
                                           cast<MaxPoolOp>(op).getWindow());
  if (at.lanes > 1 && !pool.channelsLast)
    return e.valuePerLane(op->getResult(0), at);
  Value input = op->getOperand(0);
  size_t firstSpatial = pool.channelsLast ? 1 : 2;
  IndexMath indexMath = e.indexMath();
  MathExpansion math = e.math();
  SmallVector<WindowDimension> window =
      pool.at(indexMath, at.indices, shapeOf(input), shapeOf(op->getResult(0)));

  Type elementType = getElementTypeOrSelf(input.getType());
  Type type = carriedType(elementType);
  bool noSign = isUnsignedElement(elementType);
  Value start = average
                    ? math.constant(type, 0)
                    : math.extremumIdentity(type, /*isMaximum=*/true, noSign);
  SmallVector<Value> indices(at.indices);
  Value result = overWindow(
      e, window, e.splat(start, at.lanes),
      [&](size_t dim, Value, Value position) {
        indices[firstSpatial + dim] = position;
      },
      [&](ValueRange sums) {
        Value value = e.valueIn(input, indices, at.lanes, at.range, at.mask);
        return Carried{average ? math.add(sums[0], value)
                               : math.extremum(sums[0], value,
                                               /*isMaximum=*/true, noSign)};
      })[0];
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

Value mpc::emitPoolGradient(ElementEmitter &e, Operation *op,
                            const Request &at) {
  auto average = dyn_cast<AvgPoolGradientOp>(op);
  auto largest = dyn_cast<MaxPoolGradientOp>(op);
  WindowShape pool = average ? WindowShape(average, average.getWindow())
                             : WindowShape(largest, largest.getWindow());
  if (at.lanes > 1 && !pool.channelsLast)
    return e.valuePerLane(op->getResult(0), at);
  Value gradient = average ? average.getGradient() : largest.getGradient();
  ArrayRef<int64_t> in = shapeOf(op->getResult(0)), out = shapeOf(gradient);
  size_t firstSpatial = pool.channelsLast ? 1 : 2, count = pool.window.size();
  Type elementType = getElementTypeOrSelf(gradient.getType());
  Type type = lanesOf(carriedType(elementType), at.lanes);
  IndexMath indexMath = e.indexMath();
  MathExpansion math = e.math();

  Value own = largest ? e.value(largest.getInput(), at) : Value();
  // The output position, the element's position in its window, and whether it
  // is in that window (null: yes).
  SmallVector<Value> outputs(at.indices), place(count);
  Value inside;

  /// Returns whether the element is the one that its window chose.
  auto isChosen = [&](ArrayRef<WindowDimension> window) {
    // Flags as integers of the elements' width, all ones for true: LLVM handles
    // vectors of i1 in loops poorly.
    Type flag = ValueMath::withElement(
        type, e.getBuilder().getIntegerType(
                  getElementTypeOrSelf(type).getIntOrFloatBitWidth()));
    Value ownPlace = e.index(0);
    for (size_t dim = 0; dim < count; ++dim)
      ownPlace =
          indexMath.add(indexMath.mul(ownPlace, pool.window[dim]), place[dim]);
    SmallVector<Value> from(at.indices), positions(count + 1, e.index(0));
    Carried chosen = overWindow(
        e, window, math.integer(flag, -1),
        [&](size_t dim, Value k, Value position) {
          from[firstSpatial + dim] = position;
          positions[dim + 1] =
              indexMath.add(indexMath.mul(positions[dim], pool.window[dim]), k);
        },
        [&](ValueRange chosen) {
          Value other =
              e.valueIn(largest.getInput(), from, at.lanes, at.range, at.mask);
          // The element beats an earlier one that is smaller, or a number if it
          // is NaN, and a later one that is not larger.
          Value earlier =
              math.bitAnd(math.compare(CmpFPredicate::ULT, other, own),
                          math.compare(CmpFPredicate::ORD, other, other));
          Value later = math.bitOr(math.compare(CmpFPredicate::OLE, other, own),
                                   math.compare(CmpFPredicate::UNO, own, own));
          Value beats = math.select(indexMath.less(positions.back(), ownPlace),
                                    earlier, later);
          return Carried{math.select(beats, chosen[0], math.integer(flag, 0))};
        });
    return math.compare(CmpIPredicate::ne, chosen[0], 0);
  };

  /// Returns the contribution of one window.
  auto share = [&] {
    Value given = e.valueIn(gradient, outputs, at.lanes, at.range, at.mask);
    SmallVector<WindowDimension> window = pool.at(indexMath, outputs, in, out);
    if (average)
      return math.div(given,
                      e.splat(countedElements(indexMath, window,
                                              average.getCountIncludePad(),
                                              getElementTypeOrSelf(type)),
                              at.lanes));
    Value chosen = isChosen(window);
    return math.select(chosen, given, math.constant(type, 0));
  };

  auto nest = [&](auto &&self, size_t dim, ValueRange sums) -> Carried {
    if (dim == count) {
      auto add = [&] {
        Value value = share();
        return Carried{math.add(sums[0], value)};
      };
      if (!inside)
        return add();
      return indexMath.choose(inside, type, add, [&] { return Carried(sums); });
    }
    Value input = at.indices[firstSpatial + dim];
    int64_t stride = pool.strides[dim], dilation = pool.dilations[dim];
    HoldingWindows windows =
        windowsAround(indexMath, pool, dim, input, in[firstSpatial + dim],
                      out[firstSpatial + dim]);
    auto body = [&](Value output, ValueRange carried) {
      Value outer = inside;
      Value distance = indexMath.sub(indexMath.add(input, pool.low[dim]),
                                     indexMath.mul(output, stride));
      // A dilated window has holes.
      if (dilation > 1) {
        Value hit = math.compare(CmpIPredicate::eq,
                                 indexMath.rem(distance, dilation), e.index(0));
        inside = inside ? math.bitAnd(inside, hit) : hit;
      }
      outputs[firstSpatial + dim] = output;
      place[dim] = indexMath.div(distance, dilation);
      Carried next = self(self, dim + 1, carried);
      inside = outer;
      return next;
    };
    return windows.isSingle
               ? body(windows.begin, sums)
               : indexMath.carry(windows.begin, windows.end, 1, sums, body);
  };
  Value sum = nest(nest, 0, math.constant(type, 0))[0];
  return e.round(sum, elementType);
}
