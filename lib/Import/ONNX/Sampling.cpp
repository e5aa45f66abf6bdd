//===- Sampling.cpp - interpolated sampling of images ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Sampling.h"

#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

Value SampleAxis::clamp(Value x) {
  return n.op<ClampOp>({x, number(0), number(double(extent - 1))});
}

/// Reflects at both borders: a triangle wave of period 2 * (high - low).
Value SampleAxis::reflect(Value x) {
  double range = high - low;
  if (range <= 0)
    return n.op<MaxOp>({n.op<MinOp>({x, number(low)}), number(low)});
  Value distance = n.op<AbsOp>(n.op<SubOp>({x, number(low)}));
  Value turned = n.op<RemOp>({distance, number(2 * range)});
  Value back = n.op<SubOp>({number(2 * range), turned});
  return n.op<AddOp>({n.op<MinOp>({turned, back}), number(low)});
}

/// Returns 1 for positions inside, else 0; null unless padding is zeros.
Value SampleAxis::zeroPaddingWeight(Value x) {
  if (padding != Padding::Zeros)
    return nullptr;
  Value inside = n.op<AndOp>(
      {n.compare(ComparePredicate::ge, x, number(0)),
       n.compare(ComparePredicate::le, x, number(double(extent - 1)))});
  return n.cast(inside, type);
}

Value SampleAxis::mapIntoExtent(Value x) {
  if (padding == Padding::Zeros)
    return x;
  if (padding == Padding::Reflection)
    return reflect(x);
  Value outside =
      n.op<OrOp>({n.compare(ComparePredicate::lt, x, number(low)),
                  n.compare(ComparePredicate::gt, x, number(high))});
  return n.select(outside, clamp(x), x);
}

Tap SampleAxis::at(Value x, Value weight) {
  if (Value inside = zeroPaddingWeight(x))
    weight = weight ? n.op<MulOp>({weight, inside}) : inside;
  if (padding == Padding::Reflection)
    x = reflect(x);
  return {n.cast(clamp(x), n.builder.getI64Type()), weight};
}

SmallVector<Tap> SampleAxis::linear(Value x) {
  Value base = n.op<FloorOp>(x), ratio = n.op<SubOp>({x, base});
  return {at(base, n.op<SubOp>({number(1), ratio})),
          at(n.op<AddOp>({base, number(1)}), ratio)};
}

SmallVector<Tap> mpc::onnx::combineTaps(NodeImport &n, ArrayRef<Tap> before,
                                        ArrayRef<Tap> taps, int64_t stride) {
  SmallVector<Tap> combined;
  for (const Tap &outer : before) {
    for (const Tap &tap : taps) {
      Value index = tap.index;
      if (stride != 1)
        index = n.op<MulOp>(
            {index, n.scalar(double(stride), n.builder.getI64Type())});
      if (outer.index)
        index = n.op<AddOp>({outer.index, index});
      Value weight = !outer.weight ? tap.weight
                     : !tap.weight ? outer.weight
                                   : n.op<MulOp>({outer.weight, tap.weight});
      combined.push_back({index, weight});
    }
  }
  return combined;
}

Value mpc::onnx::sumOfTaps(NodeImport &n, Value image, ArrayRef<Tap> taps) {
  Value sum;
  int64_t last = n.rank(image) - 1;
  for (const Tap &tap : taps) {
    if (n.failed() || !tap.index)
      return nullptr;
    SmallVector<int64_t> wide(n.shape(image));
    wide.back() = n.dim(tap.index, last);
    Value part = n.op<GatherElementsOp>({image, n.broadcast(tap.index, wide)},
                                        n.attr("axis", last));
    if (tap.weight)
      part = n.op<MulOp>({part, tap.weight});
    sum = sum ? n.op<AddOp>({sum, part}) : part;
  }
  return sum;
}
