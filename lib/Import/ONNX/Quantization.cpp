//===- Quantization.cpp - linear quantization --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Integer products run in float64, where sums of products of 8-bit integers are
// exact.
//
//===----------------------------------------------------------------------===//

#include "Window.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// A scale or zero point of one element, or one per position of `axis`, shaped
/// to broadcast over `rank` dimensions.
static Value alongAxis(NodeImport &n, Value value, int64_t axis, int64_t rank) {
  if (n.failed() || n.rank(value) == 0)
    return value;
  if (elementCount(value) == 1)
    return n.reshape(value, {});
  if (n.rank(value) != 1) {
    n.error() << "blocked quantization (" << value.getType()
              << ") is not supported";
    return nullptr;
  }
  SmallVector<int64_t> shape(rank, 1);
  if (axis < rank)
    shape[axis] = n.dim(value, 0);
  return n.reshape(value, shape);
}

/// Rounds `x` (float), adds the zero point and saturates to the integer type.
static Value quantize(NodeImport &n, Value x, Value zeroPoint, Type target) {
  auto integer = dyn_cast_if_present<IntegerType>(target);
  if (n.failed())
    return nullptr;
  if (!integer || integer.getWidth() > 16) {
    n.error() << "the quantized type must be an 8- or 16-bit integer";
    return nullptr;
  }
  Type type = n.element(x);
  Value rounded = n.op<RoundOp>(x);
  if (zeroPoint)
    rounded = n.op<AddOp>({rounded, n.cast(zeroPoint, type)});
  double span = std::exp2(double(integer.getWidth()));
  double low = integer.isUnsigned() ? 0 : -span / 2;
  Value clamped = n.op<ClampOp>(
      {rounded, n.scalar(low, type), n.scalar(low + span - 1, type)});
  return n.cast(clamped, target);
}

static LogicalResult convertQuantizeLinear(NodeImport &n) {
  Value x = n.in(0), scale = n.in(1);
  if (n.intAttr("block_size", 0) != 0)
    return n.error() << "attribute 'block_size' is not supported";
  if (n.failed())
    return failure();
  int64_t rank = n.rank(x);
  int64_t axis = rank > 1 ? n.axisAttr("axis", 1, rank) : 0;
  Value zeroPoint = n.has(2) ? n.in(2) : Value();
  Type target = n.builder.getIntegerType(8, /*isSigned=*/false);
  if (zeroPoint)
    target = n.element(zeroPoint);
  else if (int64_t dtype = n.intAttr("output_dtype", 0))
    target = elementTypeOf(int32_t(dtype), n.builder.getContext());
  Type type = n.element(scale);
  Value scaled =
      n.op<DivOp>({n.cast(x, type), alongAxis(n, scale, axis, rank)});
  Value shift = zeroPoint ? alongAxis(n, zeroPoint, axis, rank) : Value();
  return n.result(quantize(n, scaled, shift, target));
}

/// x - zeroPoint, exactly, in `type`.
static Value centred(NodeImport &n, Value x, Value zeroPoint, Type type) {
  if (!zeroPoint)
    return n.cast(x, type);
  Type i64 = n.builder.getI64Type();
  return n.cast(n.op<SubOp>({n.cast(x, i64), n.cast(zeroPoint, i64)}), type);
}

static LogicalResult convertDequantizeLinear(NodeImport &n) {
  Value x = n.in(0), scale = n.in(1);
  if (n.intAttr("block_size", 0) != 0)
    return n.error() << "attribute 'block_size' is not supported";
  if (n.failed())
    return failure();
  int64_t rank = n.rank(x);
  int64_t axis = rank > 1 ? n.axisAttr("axis", 1, rank) : 0;
  Value zeroPoint = n.has(2) ? alongAxis(n, n.in(2), axis, rank) : Value();
  Value difference = centred(n, x, zeroPoint, n.element(scale));
  return n.result(n.op<MulOp>({difference, alongAxis(n, scale, axis, rank)}));
}

static LogicalResult convertDynamicQuantizeLinear(NodeImport &n) {
  Value x = n.in(0);
  if (n.failed())
    return failure();
  Type type = n.element(x),
       target = n.builder.getIntegerType(8, /*isSigned=*/false);
  SmallVector<int64_t> all;
  for (int64_t d = 0; d < n.rank(x); ++d)
    all.push_back(d);
  Value zero = n.scalar(0, type);
  Value high =
      n.op<MaxOp>({n.reduce<ReduceMaxOp>(x, all, /*keepDims=*/false), zero});
  Value low =
      n.op<MinOp>({n.reduce<ReduceMinOp>(x, all, /*keepDims=*/false), zero});
  Value scale = n.op<DivOp>({n.op<SubOp>({high, low}), n.scalar(255, type)});
  Value zeroPoint = quantize(n, n.op<DivOp>({n.op<SubOp>({zero, low}), scale}),
                             nullptr, target);
  n.set(0, quantize(n, n.op<DivOp>({x, scale}), zeroPoint, target));
  n.set(1, scale);
  n.set(2, zeroPoint);
  return n.status();
}

/// The zero point of a matrix operand: a scalar, one per row (`rows`) or
/// column.
static Value matrixZeroPoint(NodeImport &n, size_t i, bool rows) {
  if (!n.has(i))
    return nullptr;
  Value value = n.in(i);
  if (n.rank(value) == 1 && n.dim(value, 0) == 1)
    return n.reshape(value, {});
  if (rows && n.rank(value) == 1)
    return n.reshape(value, {n.dim(value, 0), 1});
  return value;
}

static LogicalResult convertMatMulInteger(NodeImport &n) {
  Type f64 = n.builder.getF64Type();
  Value lhs = centred(n, n.in(0), matrixZeroPoint(n, 2, /*rows=*/true), f64);
  Value rhs = centred(n, n.in(1), matrixZeroPoint(n, 3, /*rows=*/false), f64);
  return n.result(n.cast(n.matmulWide(lhs, rhs), n.builder.getI32Type()));
}

/// The factor input scale * weight scale / output scale, in f64.
static Value rescale(NodeImport &n, Value product, Value lhsScale,
                     Value rhsScale, Value scale) {
  Type f64 = n.builder.getF64Type();
  Value factor = n.op<MulOp>({n.cast(lhsScale, f64), n.cast(rhsScale, f64)});
  return n.op<MulOp>({product, n.op<DivOp>({factor, n.cast(scale, f64)})});
}

static LogicalResult convertQLinearMatMul(NodeImport &n) {
  Type f64 = n.builder.getF64Type();
  Value lhs = centred(n, n.in(0), matrixZeroPoint(n, 2, /*rows=*/true), f64);
  Value rhs = centred(n, n.in(3), matrixZeroPoint(n, 5, /*rows=*/false), f64);
  Value product =
      rescale(n, n.matmulWide(lhs, rhs), matrixZeroPoint(n, 1, /*rows=*/true),
              matrixZeroPoint(n, 4, /*rows=*/false),
              matrixZeroPoint(n, 6, /*rows=*/true));
  Value zeroPoint = matrixZeroPoint(n, 7, /*rows=*/true);
  return n.result(quantize(n, product, zeroPoint, n.element(zeroPoint)));
}

static LogicalResult convertConvInteger(NodeImport &n) {
  Value x = n.in(0), w = n.in(1);
  Type f64 = n.builder.getF64Type();
  Value xZero = n.has(2) ? alongAxis(n, n.in(2), 1, n.rank(x)) : Value();
  Value wZero = n.has(3) ? alongAxis(n, n.in(3), 0, n.rank(w)) : Value();
  Value y = buildConv(n, centred(n, x, xZero, f64), centred(n, w, wZero, f64));
  return n.result(n.cast(y, n.builder.getI32Type()));
}

static LogicalResult convertQLinearConv(NodeImport &n) {
  Value x = n.in(0), w = n.in(3);
  Type f64 = n.builder.getF64Type();
  int64_t rank = n.rank(x);
  Value xZero = alongAxis(n, n.in(2), 1, rank);
  Value wZero = alongAxis(n, n.in(5), 0, rank);
  Value y = buildConv(n, centred(n, x, xZero, f64), centred(n, w, wZero, f64));
  if (n.has(8))
    y = n.op<AddOp>({y, alongAxis(n, n.cast(n.in(8), f64), 1, rank)});
  y = rescale(n, y, alongAxis(n, n.in(1), 1, rank),
              alongAxis(n, n.in(4), 1, rank), alongAxis(n, n.in(6), 1, rank));
  Value zeroPoint = alongAxis(n, n.in(7), 1, rank);
  return n.result(quantize(n, y, zeroPoint, n.element(zeroPoint)));
}

OpFamily mpc::onnx::quantizationOps() {
  static const OpEntry entries[] = {
      {"ConvInteger 10 2-4 auto_pad dilations group kernel_shape pads strides",
       convertConvInteger},
      {"DequantizeLinear 10,13,19,21,23,24,25 2-3 axis block_size",
       convertDequantizeLinear},
      {"DynamicQuantizeLinear 11 1", convertDynamicQuantizeLinear},
      {"MatMulInteger 10 2-4", convertMatMulInteger},
      {"QLinearConv 10 8-9 auto_pad dilations group kernel_shape pads strides",
       convertQLinearConv},
      {"QLinearMatMul 10,21 8", convertQLinearMatMul},
      {"QuantizeLinear 10,13,19,21,23,24,25 2-3 axis block_size output_dtype "
       "saturate",
       convertQuantizeLinear},
  };
  return entries;
}
