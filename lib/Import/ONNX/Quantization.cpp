//===- Quantization.cpp - quantization operators --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Integer matmuls run in float64, where sums of products of 8-bit integers are
// exact.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "Matmul.h"
#include "NarrowStorageType.h"
#include "Quantization.h"
#include "WindowAttributes.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Reshapes a per-tensor or per-axis scale or zero point for broadcasting over
/// `rank` dimensions.
static Value alongAxis(NodeImport &n, Value value, int64_t axis, int64_t rank) {
  if (n.failed() || n.rank(value) == 0)
    return value;
  if (elementCount(value) == 1)
    return n.reshape(value, {});
  if (n.rank(value) != 1) {
    n.error() << value.getType()
              << " is neither one number nor one per position of an axis";
    return nullptr;
  }
  SmallVector<int64_t> shape(rank, 1);
  if (axis < rank)
    shape[axis] = n.dim(value, 0);
  return n.reshape(value, shape);
}

/// Repeats a blocked scale or zero point, with one entry per `block` positions
/// of `axis`, to the shape of `x`.
static Value overBlocks(NodeImport &n, Value value, Value x, int64_t axis,
                        int64_t block) {
  if (n.failed())
    return nullptr;
  SmallVector<int64_t> blocks(n.shape(x));
  blocks[axis] = (blocks[axis] + block - 1) / block;
  if (n.shape(value) != ArrayRef<int64_t>(blocks)) {
    n.error() << value.getType() << " does not have an entry for each block of "
              << block << " positions along dimension " << axis << " of "
              << x.getType();
    return nullptr;
  }
  SmallVector<int64_t> split(blocks), repeated(blocks), joined(blocks);
  split.insert(split.begin() + axis + 1, 1);
  repeated.insert(repeated.begin() + axis + 1, block);
  joined[axis] *= block;
  Value whole =
      n.reshape(n.broadcast(n.reshape(value, split), repeated), joined);
  return n.sliceAxis(whole, axis, 0, n.dim(x, axis));
}

namespace {

/// Broadcasting of scales and zero points in QuantizeLinear and
/// DequantizeLinear.
struct Spread {
  Spread(NodeImport &n, Value x)
      : n(n), x(x), block(n.intAttr("block_size", 0)) {
    int64_t rank = n.rank(x);
    axis = rank > 1 || block != 0 ? n.axisAttr("axis", 1, rank) : 0;
    if (block < 0 && !n.failed())
      n.error() << "attribute 'block_size' is " << block;
  }

  Value operator()(Value value) const {
    return block != 0 ? overBlocks(n, value, x, axis, block)
                      : alongAxis(n, value, axis, n.rank(x));
  }

  NodeImport &n;
  Value x;
  int64_t block, axis = 0;
};

/// Type of quantized elements: an mpc type or a small type stored as bytes.
struct Quantized {
  /// Returns the type of `value`.
  Quantized(NodeImport &n, Value value)
      : element(n.element(value)), small(n.narrowStorageType(value)) {}
  Quantized(NodeImport &n, int64_t dataType)
      : element(storageTypeOf(int32_t(dataType), n.builder.getContext())),
        small(smallTypeOf(int32_t(dataType)) ? int32_t(dataType) : 0) {}

  Type element;
  int32_t small = 0;
};

} // namespace

/// Converts `value`, of an mpc type or a small type, to `type`.
static Value read(NodeImport &n, Value value, Type type) {
  return n.narrowStorageType(value) ? decodeNarrow(n, value, type)
                                    : n.cast(value, type);
}

/// Returns a scale as an mpc float.
static Value readScale(NodeImport &n, Value scale) {
  return n.narrowStorageType(scale)
             ? decodeNarrow(n, scale, n.builder.getF32Type())
             : scale;
}

/// Returns true if a zero point is absent or the constant code 0. Exporters
/// give one to floats for its type only.
static bool isZero(Value zeroPoint) {
  return !zeroPoint || splatValue(zeroPoint) == 0.0;
}

/// Rounds `x` (float), adds the zero point and saturates to the quantized type.
static Value quantize(NodeImport &n, Value x, Value zeroPoint,
                      Quantized target) {
  if (n.failed())
    return nullptr;
  Type type = n.element(x);
  const NarrowStorageType *small = smallTypeOf(target.small);
  if (small && small->format) {
    Value shifted =
        isZero(zeroPoint) ? x : n.op<AddOp>({x, read(n, zeroPoint, type)});
    NarrowRounding rounding;
    rounding.saturate = rounding.saturateInfinity = n.flag("saturate", true);
    return encodeNarrow(n, shifted, target.small, rounding);
  }
  auto integer = dyn_cast_if_present<IntegerType>(target.element);
  if (!integer || integer.getWidth() > 16) {
    n.error() << "the quantized type must be an integer of at most 16 bits or "
                 "a float of 4 or 8";
    return nullptr;
  }
  Value rounded = n.op<RoundOp>(x);
  if (zeroPoint)
    rounded = n.op<AddOp>({rounded, read(n, zeroPoint, type)});
  double span = std::exp2(double(small ? small->bits : integer.getWidth()));
  double low = integer.isUnsigned() ? 0 : -span / 2;
  Value clamped = n.op<ClampOp>(
      {rounded, n.scalar(low, type), n.scalar(low + span - 1, type)});
  if (small)
    return encodeNarrow(n, clamped, target.small);
  return n.cast(clamped, target.element);
}

/// Returns the float type in attribute `name`, or `fallback`.
static Type floatAttrType(NodeImport &n, StringRef name, Type fallback) {
  int64_t dataType = n.intAttr(name, 0);
  if (dataType == 0 || n.failed())
    return fallback;
  Type type = elementTypeOf(int32_t(dataType), n.builder.getContext());
  if (!isa_and_nonnull<FloatType>(type)) {
    n.error() << "attribute '" << name << "' is "
              << dataTypeName(int32_t(dataType)) << ", expected a float type";
    return fallback;
  }
  return type;
}

static LogicalResult convertQuantizeLinear(NodeImport &n) {
  Value x = n.in(0), scale = readScale(n, n.in(1));
  Value zeroPoint = n.has(2) ? n.in(2) : Value();
  if (n.failed())
    return failure();
  Spread spread(n, x);
  int64_t dataType = n.intAttr("output_dtype", 0);
  Quantized target = zeroPoint
                         ? Quantized(n, zeroPoint)
                         : Quantized(n, dataType ? dataType : int64_t(kUint8));
  Type type = floatAttrType(n, "precision", n.element(scale));
  Value scaled = n.op<DivOp>({n.cast(x, type), n.cast(spread(scale), type)});
  Value shift = zeroPoint ? spread(zeroPoint) : Value();
  return n.result(quantize(n, scaled, shift, target));
}

Value mpc::onnx::centred(NodeImport &n, Value x, Value zeroPoint, Type type) {
  if (!zeroPoint)
    return read(n, x, type);
  const NarrowStorageType *small = smallTypeOf(n.narrowStorageType(x));
  if (small && small->format)
    return isZero(zeroPoint)
               ? read(n, x, type)
               : n.op<SubOp>({read(n, x, type), read(n, zeroPoint, type)});
  Type i64 = n.builder.getI64Type();
  return n.cast(n.op<SubOp>({read(n, x, i64), read(n, zeroPoint, i64)}), type);
}

static LogicalResult convertDequantizeLinear(NodeImport &n) {
  Value x = n.in(0), scale = readScale(n, n.in(1));
  if (n.failed())
    return failure();
  Spread spread(n, x);
  Value zeroPoint = n.has(2) ? spread(n.in(2)) : Value();
  Type type = n.element(scale);
  Value difference = centred(n, x, zeroPoint, type);
  Value product = n.op<MulOp>({difference, spread(scale)});
  return n.result(n.cast(product, floatAttrType(n, "output_dtype", type)));
}

QuantizedTensor mpc::onnx::quantizeDynamically(NodeImport &n, Value x) {
  if (n.failed())
    return {};
  Type type = n.element(x);
  Quantized target(n, int64_t(kUint8));
  SmallVector<int64_t> all;
  for (int64_t d = 0; d < n.rank(x); ++d)
    all.push_back(d);
  Value zero = n.scalar(0, type);
  Value high =
      n.op<MaxOp>({n.reduce<ReduceMaxOp>(x, all, /*keepDims=*/false), zero});
  Value low =
      n.op<MinOp>({n.reduce<ReduceMinOp>(x, all, /*keepDims=*/false), zero});
  // All-zero input has scale 1, as in ONNX Runtime.
  Value range = n.op<DivOp>({n.op<SubOp>({high, low}), n.scalar(255, type)});
  Value scale = n.select(n.compare(ComparePredicate::eq, high, low),
                         n.scalar(1, type), range);
  Value zeroPoint = quantize(n, n.op<DivOp>({n.op<SubOp>({zero, low}), scale}),
                             nullptr, target);
  return {quantize(n, n.op<DivOp>({x, scale}), zeroPoint, target), scale,
          zeroPoint};
}

static LogicalResult convertDynamicQuantizeLinear(NodeImport &n) {
  QuantizedTensor y = quantizeDynamically(n, n.in(0));
  n.set(0, y.values);
  n.set(1, y.scale);
  n.set(2, y.zeroPoint);
  return n.status();
}

/// Returns the zero point of a matmul operand: a scalar, or one per row
/// (`rows`) or column.
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

Value mpc::onnx::centredFactor(NodeImport &n, const QuantizedTensor &x) {
  return centred(n, x.values, x.zeroPoint, n.builder.getF64Type());
}

/// Casts sums of `depth` products of 8-bit numbers from f64 to i32. Sums that
/// overflow i32 wrap around, as in ONNX Runtime.
static Value narrowSums(NodeImport &n, Value sums, int64_t depth) {
  constexpr int64_t kMostProducts = ((int64_t(1) << 31) - 1) / (255 * 255);
  if (depth > kMostProducts)
    sums = n.cast(sums, n.builder.getI64Type());
  return n.cast(sums, n.builder.getI32Type());
}

Value mpc::onnx::multiplyIntegers(NodeImport &n, Value lhs, Value rhs) {
  Value sums = matmulAnyRank(n, lhs, rhs);
  return n.failed() ? Value() : narrowSums(n, sums, n.shape(lhs).back());
}

static LogicalResult convertMatMulInteger(NodeImport &n) {
  QuantizedTensor lhs = {n.in(0), {}, matrixZeroPoint(n, 2, /*rows=*/true)};
  QuantizedTensor rhs = {n.in(1), {}, matrixZeroPoint(n, 3, /*rows=*/false)};
  return n.result(
      multiplyIntegers(n, centredFactor(n, lhs), centredFactor(n, rhs)));
}

/// Multiplies by input scale * weight scale / output scale, in f64.
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
  Value product = rescale(n, matmulAnyRank(n, lhs, rhs),
                          matrixZeroPoint(n, 1, /*rows=*/true),
                          matrixZeroPoint(n, 4, /*rows=*/false),
                          matrixZeroPoint(n, 6, /*rows=*/true));
  Value zeroPoint = matrixZeroPoint(n, 7, /*rows=*/true);
  return n.result(quantize(n, product, zeroPoint, Quantized(n, zeroPoint)));
}

static LogicalResult convertConvInteger(NodeImport &n) {
  Value x = n.in(0), w = n.in(1);
  Type f64 = n.builder.getF64Type();
  Value xZero = n.has(2) ? alongAxis(n, n.in(2), 1, n.rank(x)) : Value();
  Value wZero = n.has(3) ? alongAxis(n, n.in(3), 0, n.rank(w)) : Value();
  Value y = buildConv(n, centred(n, x, xZero, f64), centred(n, w, wZero, f64));
  if (n.failed())
    return failure();
  return n.result(narrowSums(n, y, productOf(n.shape(w).drop_front())));
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
  return n.result(quantize(n, y, zeroPoint, Quantized(n, zeroPoint)));
}

OpFamily mpc::onnx::quantizationOps() {
  static const OpEntry entries[] = {
      {"ConvInteger 10 2-4 auto_pad dilations group kernel_shape pads strides",
       convertConvInteger},
      {"DequantizeLinear 10,13,19,21,23,24,25 2-3 axis block_size output_dtype",
       convertDequantizeLinear},
      {"DynamicQuantizeLinear 11 1", convertDynamicQuantizeLinear},
      {"MatMulInteger 10 2-4", convertMatMulInteger},
      {"QLinearConv 10 8-9 auto_pad dilations group kernel_shape pads strides",
       convertQLinearConv},
      {"QLinearMatMul 10,21 8", convertQLinearMatMul},
      {"QuantizeLinear 10,13,19,21,23,24,25 2-3 axis block_size output_dtype "
       "precision saturate",
       convertQuantizeLinear},
  };
  return entries;
}
