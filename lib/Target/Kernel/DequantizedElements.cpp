//===- DequantizedElements.cpp - dequantization of weights per element ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DequantizedElements.h"

#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"

#include "Float8Math.h"
#include "IndexMath.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

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
  return vector::ShuffleOp::create(b, math.getLoc(), low, high, order);
}

FailureOr<Value> mpc::emitDequantized(ElementEmitter &emitter,
                                      DequantizeOp narrow, ValueRange indices,
                                      int64_t lanes) {
  if (!narrow.isMatrix() && (lanes > 1 || narrow.getDepth() > 1))
    return narrow.emitOpError(
               "has panels, from which single elements cannot be read"),
           failure();
  OpBuilder &builder = emitter.getBuilder();
  Location loc = emitter.getLoc();
  int64_t group = narrow.getGroup();
  IndexMath index{builder, loc};
  ValueMath math(builder, loc);
  Type i32 = builder.getI32Type();
  Value line = indices[0], k = indices[1];
  auto read = [&](Value tensor, Value position, int64_t count) {
    SmallVector<Value, 3> place = {line, position};
    llvm::append_range(place, indices.drop_front(2)); // a panel's column
    return emitter.emit(tensor, place, count);
  };
  auto spread = [&](Value value) -> Value {
    if (lanes == 1)
      return value;
    return vector::BroadcastOp::create(builder, loc,
                                       lanesOf(value.getType(), lanes), value);
  };
  Type stored = getElementTypeOrSelf(narrow.getValues().getType());
  bool pairs = narrow.getNibbles();
  FailureOr<Value> values =
      read(narrow.getValues(), pairs ? index.div(k, 2) : k,
           pairs ? std::max<int64_t>(lanes / 2, 1) : lanes);
  if (failed(values) || !isa<IntegerType>(stored))
    return values;
  Value numbers;
  if (narrow.getFloat8()) {
    numbers = decodeFloat8(math, *values, /*mayBeNaN=*/false);
  } else {
    if (!pairs) {
      numbers = stored.isUnsignedInteger() ? math.extendUnsigned(*values, i32)
                                           : math.extendSigned(*values, i32);
    } else if (lanes > 1) {
      numbers = nibblesOf(math, *values);
    } else {
      Value shift = arith::IndexCastOp::create(builder, loc, i32,
                                               index.mul(index.rem(k, 2), 4));
      numbers = math.bitAnd(
          math.shiftRight(math.extendUnsigned(*values, i32), shift), 15);
    }
    if (Value zeros = narrow.getZero()) {
      FailureOr<Value> zero = read(zeros, index.div(k, group), 1);
      if (failed(zero))
        return failure();
      numbers = math.subInt(numbers, spread(math.extendUnsigned(*zero, i32)));
    } else if (int64_t zero = narrow.getCommonZero()) {
      numbers = math.addInt(numbers, -zero);
    }
    numbers = arith::SIToFPOp::create(
        builder, loc, lanesOf(builder.getF32Type(), lanes), numbers);
  }
  FailureOr<Value> scale = read(narrow.getScale(), index.div(k, group), 1);
  if (failed(scale))
    return failure();
  return math.mul(numbers, spread(*scale));
}
