//===- DequantizedElements.cpp - dequantization of weights per element ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ElementEmitter.h"

#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"

using namespace mlir;
using namespace mpc;

/// Unpacks two int4 from each of `bytes` (one i8, or a vector), as i32.
static Value nibblesOf(ValueMath &math, Value bytes) {
  OpBuilder &b = math.getBuilder();
  Value words = math.extendUnsigned(bytes, b.getI32Type());
  Value low = math.bitAnd(words, 15), high = math.shiftRight(words, 4);
  auto type = dyn_cast<VectorType>(words.getType());
  if (!type)
    return vector::FromElementsOp::create(b, math.getLoc(),
                                          VectorType::get({2}, b.getI32Type()),
                                          ValueRange{low, high});
  SmallVector<int64_t> order;
  for (int64_t lane = 0; lane < type.getDimSize(0); ++lane)
    order.append({lane, type.getDimSize(0) + lane});
  return math.shuffle(low, high, order);
}

/// Loads and dequantizes `lanes` elements of a quantized matrix along a row, as
/// f32. They start at a multiple of `lanes` and share one scale. For panels of
/// depth 1, one element.
static Value dequantized(ElementEmitter &emitter, DequantizeOp narrow,
                         ValueRange indices, int64_t lanes) {
  int64_t group = narrow.getGroup();
  IndexMath index = emitter.indexMath();
  MathExpansion math = emitter.math();
  Type i32 = emitter.getBuilder().getI32Type();
  Value line = indices[0], k = indices[1];
  auto read = [&](Value tensor, Value position, int64_t count) {
    SmallVector<Value, 3> place = {line, position};
    llvm::append_range(place, indices.drop_front(2)); // a panel's column
    return emitter.value(tensor, place, count);
  };
  auto spread = [&](Value value) { return math.splat(value, lanes); };
  Type stored = getElementTypeOrSelf(narrow.getValues().getType());
  bool pairs = narrow.getNibbles();
  Value values = read(narrow.getValues(), pairs ? index.div(k, 2) : k,
                      pairs ? std::max<int64_t>(lanes / 2, 1) : lanes);
  if (!isa<IntegerType>(stored))
    return values;
  Value numbers;
  if (narrow.getFloat8()) {
    numbers = decodeFloat(math, values, kFloat8E4M3FN, /*mayBeNaN=*/false);
  } else {
    if (!pairs) {
      numbers = math.extendInt(values, i32, stored.isUnsignedInteger());
    } else if (lanes > 1) {
      numbers = nibblesOf(math, values);
    } else {
      Value shift = math.castIndex(index.mul(index.rem(k, 2), 4), i32);
      numbers = math.bitAnd(
          math.shiftRight(math.extendUnsigned(values, i32), shift), 15);
    }
    if (Value zeros = narrow.getZero()) {
      Value zero = read(zeros, index.div(k, group), 1);
      numbers = math.sub(numbers, spread(math.extendUnsigned(zero, i32)));
    } else if (int64_t zero = narrow.getCommonZero()) {
      numbers = math.add(numbers, -zero);
    }
    numbers = math.toFloat(numbers, emitter.getBuilder().getF32Type());
  }
  Value scale = read(narrow.getScale(), index.div(k, group), 1);
  if (Value offsets = narrow.getOffset()) {
    Value offset = read(offsets, index.div(k, group), 1);
    return math.fma(numbers, spread(scale), spread(offset));
  }
  return math.mul(numbers, spread(scale));
}

Value mpc::emitDequantized(ElementEmitter &e, Operation *op,
                           const ElementEmitter::Request &at) {
  auto narrow = cast<DequantizeOp>(op);
  bool isWhole =
      !at.mask && e.startsAtMultiple(at) && narrow.getGroup() % at.lanes == 0;
  if (at.lanes > 1 && !isWhole)
    return e.valuePerLane(narrow.getResult(), at);
  if (!narrow.isMatrix() && (at.lanes > 1 || narrow.getDepth() > 1))
    return e.fail(narrow,
                  "has panels, from which single elements cannot be read",
                  at.lanes);
  Value value = dequantized(e, narrow, at.indices, at.lanes);
  // The stored numbers are exact in this type by construction.
  Type element = getElementTypeOrSelf(narrow.getResult().getType());
  if (!element.isF32())
    e.markRounded(value, element);
  return value;
}
