//===- PoolGradientEmitter.cpp - pool gradients per input element ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An input element sums the contributions of all windows that contain it
// (gather instead of scatter), so elements are independent and need no atomics.
//
//===----------------------------------------------------------------------===//

#include "SlidingWindow.h"

#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;

FailureOr<Value> ElementEmitter::emitPoolGradient(Operation *op,
                                                  const Request &at) {
  auto average = dyn_cast<AvgPoolGradientOp>(op);
  auto largest = dyn_cast<MaxPoolGradientOp>(op);
  WindowShape pool = average ? WindowShape(average, average.getWindow())
                             : WindowShape(largest, largest.getWindow());
  if (at.lanes > 1 && !pool.channelsLast)
    return emitPerLane(op->getResult(0), at);
  Value gradient = average ? average.getGradient() : largest.getGradient();
  ArrayRef<int64_t> in = shapeOf(op->getResult(0)), out = shapeOf(gradient);
  size_t firstSpatial = pool.channelsLast ? 1 : 2, count = pool.window.size();
  Type elementType = getElementTypeOrSelf(gradient.getType());
  Type type = lanesOf(carriedType(elementType), at.lanes);
  IndexMath indexMath{builder, loc};
  ValueMath math(builder, loc);

  Value own;
  if (largest) {
    Result value = emitRequest(largest.getInput(), at);
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
    Value ownPlace = index(0);
    for (size_t dim = 0; dim < count; ++dim)
      ownPlace =
          indexMath.add(indexMath.mul(ownPlace, pool.window[dim]), place[dim]);
    SmallVector<Value> from(at.indices);
    auto nest = [&](auto &&self, size_t dim, Value position,
                    ValueRange chosen) -> FailureOr<Carried> {
      if (dim == count) {
        Result other = emitRequest(largest->getOperand(0),
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
      return carryLoop(*this, range.begin, range.end, 1, chosen,
                       [&](Value k, ValueRange carried) {
                         from[firstSpatial + dim] = indexMath.add(
                             range.start, indexMath.mul(k, range.dilation));
                         Value next = indexMath.add(
                             indexMath.mul(position, pool.window[dim]), k);
                         return self(self, dim + 1, next, carried);
                       });
    };
    FailureOr<Carried> chosen = nest(nest, 0, index(0), math.integer(flag, -1));
    if (failed(chosen))
      return failure();
    return math.compare(arith::CmpIPredicate::ne, chosen->front(),
                        math.integer(flag, 0));
  };

  /// Returns the contribution of one window.
  auto share = [&]() -> Result {
    Result given =
        emitRequest(gradient, Request{outputs, at.lanes, at.mask, at.range});
    if (failed(given))
      return failure();
    SmallVector<WindowDimension> window;
    for (size_t dim = 0; dim < count; ++dim)
      window.push_back(pool.at(indexMath, dim, outputs[firstSpatial + dim],
                               in[firstSpatial + dim],
                               out[firstSpatial + dim]));
    if (average)
      return math.div(
          *given,
          splat(countedElements(indexMath, window, average.getCountIncludePad(),
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
                                 indexMath.rem(distance, dilation), index(0));
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
               : carryLoop(*this, windows.begin, windows.end, 1, sums, body);
  };
  FailureOr<Carried> sums = nest(nest, 0, math.constant(type, 0));
  if (failed(sums))
    return failure();
  return round(sums->front(), elementType);
}
