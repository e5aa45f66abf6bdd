//===- MicrosoftOps.cpp - com.microsoft operators -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contrib operators of ONNX Runtime that exporters and optimizers produce:
// fused activations, matmuls, skip normalization, packed quantized weights.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "CheckedIndices.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

//===----------------------------------------------------------------------===//
// Activations and products
//===----------------------------------------------------------------------===//

/// Gelu of the sum of the inputs.
template <GeluForm form> static LogicalResult convertGeluOfSum(NodeImport &n) {
  Value x = n.in(0);
  if (n.has(1))
    x = n.op<AddOp>({x, n.in(1)});
  return n.result(n.op<GeluOp>(
      x, n.attr("form", GeluFormAttr::get(n.builder.getContext(), form))));
}

static LogicalResult convertQuickGelu(NodeImport &n) {
  Value x = n.in(0);
  Value alpha = n.scalar(n.floatAttr("alpha", double(1.702f)), n.element(x));
  return n.result(n.op<MulOp>({x, n.op<SigmoidOp>(n.op<MulOp>({x, alpha}))}));
}

static LogicalResult convertFusedMatMul(NodeImport &n) {
  Value lhs = n.in(0), rhs = n.in(1);
  double alpha = n.floatAttr("alpha", 1);
  bool transLhs = n.flag("transA"), transRhs = n.flag("transB");
  if (n.flag("transBatchA") || n.flag("transBatchB"))
    return n.error() << "transposed batch dimensions are not supported";
  if (n.failed())
    return failure();
  if (n.rank(lhs) < 2 || n.rank(rhs) < 2 || !n.isFloat(lhs))
    return n.error() << "operands are " << lhs.getType() << " and "
                     << rhs.getType() << ", expected matrices of floats";
  Value y = n.matmulWide(lhs, rhs, transLhs, transRhs);
  if (alpha != 1)
    y = n.op<MulOp>({y, n.scalar(alpha, n.element(y))});
  return n.result(n.narrow(y, n.element(lhs)));
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// Normalizes the last dimension of `x`: layer normalization if `centres`, else
/// RMS normalization.
static Value normalised(NodeImport &n, Value x, Value scale, Value bias,
                        bool centres, double epsilon) {
  if (n.failed())
    return nullptr;
  Type type = n.element(x), wide = n.wideType(type);
  SmallVector<NamedAttribute> attributes = {n.attr("axis", n.rank(x) - 1),
                                            n.attrF("epsilon", epsilon)};
  SmallVector<Value> operands = {n.cast(x, wide), n.cast(scale, wide)};
  if (bias)
    operands.push_back(n.cast(bias, wide));
  Value y = centres ? n.op<LayerNormOp>(operands, attributes)
                    : n.op<RmsNormOp>(operands, attributes);
  return n.narrow(y, type);
}

/// Inputs: x, skip, scale, the norm's bias if it has one, and the sum's bias.
template <bool centres>
static LogicalResult convertSkipNormalization(NodeImport &n) {
  double epsilon = n.floatAttr("epsilon", double(1e-12f));
  size_t sumBias = centres ? 4 : 3;
  Value sum = n.op<AddOp>({n.in(0), n.in(1)});
  if (n.has(sumBias))
    sum = n.op<AddOp>({sum, n.in(sumBias)});
  Value bias = centres && n.has(3) ? n.in(3) : Value();
  n.set(0, normalised(n, sum, n.in(2), bias, centres, epsilon));
  n.set(3, sum);
  return n.status();
}

static LogicalResult convertSimplifiedLayerNormalization(NodeImport &n) {
  Value x = n.in(0);
  double epsilon = n.floatAttr("epsilon", double(1e-5f));
  int64_t stash = n.intAttr("stash_type", kFloat);
  if (n.failed())
    return failure();
  if (n.axisAttr("axis", -1, n.rank(x)) != n.rank(x) - 1 || stash != kFloat)
    return n.error() << "only the last axis and statistics in FLOAT are "
                        "supported";
  return n.result(
      normalised(n, x, n.in(1), Value(), /*centres=*/false, epsilon));
}

static LogicalResult convertEmbedLayerNormalization(NodeImport &n) {
  Value ids = n.in(0);
  double epsilon = n.floatAttr("epsilon", double(1e-12f));
  int64_t kind = n.intAttr("mask_index_type", 0);
  if (n.failed())
    return failure();
  if (n.rank(ids) != 2 || kind < 0 || kind > 1)
    return n.error() << "ids " << ids.getType() << " are not [batch, length], "
                     << "or attribute 'mask_index_type' is neither 0 nor 1";
  int64_t batch = n.dim(ids, 0), length = n.dim(ids, 1);
  Value positions = n.in(3);
  Value sum =
      n.op<AddOp>({checkIndicesOf(n, n.gather(n.in(2), ids, 0)),
                   n.has(8) ? checkIndicesOf(n, n.gather(positions, n.in(8), 0))
                            : n.sliceAxis(positions, 0, 0, length)});
  if (n.has(1) && n.has(4))
    sum = n.op<AddOp>({sum, checkIndicesOf(n, n.gather(n.in(4), n.in(1), 0))});
  n.set(0, normalised(n, sum, n.in(5), n.in(6), /*centres=*/true, epsilon));
  if (n.wants(1)) {
    Type i32 = n.builder.getI32Type();
    n.set(1, n.has(7) ? n.reduce<ReduceSumOp>(n.cast(n.in(7), i32), {1},
                                              /*keepDims=*/false)
                      : n.splat({batch}, 0, i32));
  }
  n.set(2, sum);
  return n.status();
}

//===----------------------------------------------------------------------===//
// Weights in few bits
//===----------------------------------------------------------------------===//

/// Unpacks `count` numbers of `bits` bits from the bytes of the last dimension,
/// low bits first.
static Value unpackLast(NodeImport &n, Value bytes, int64_t bits,
                        int64_t count) {
  if (n.failed() || bits == 8)
    return bytes;
  int64_t each = 8 / bits, last = n.rank(bytes) - 1;
  SmallVector<int64_t> apart(n.shape(bytes)), whole(n.shape(bytes));
  apart.push_back(1);
  whole.back() *= each;
  Type type = n.element(bytes);
  SmallVector<Value> parts;
  for (int64_t i = 0; i < each; ++i) {
    Value low = n.op<ShiftRightOp>({bytes, n.scalar(double(i * bits), type)});
    Value part = n.op<AndOp>({low, n.scalar(double((1 << bits) - 1), type)});
    parts.push_back(n.reshape(part, apart));
  }
  Value all = n.reshape(n.concat(parts, last + 1), whole);
  return n.sliceAxis(all, last, 0, count);
}

static LogicalResult convertMatMulNBits(NodeImport &n) {
  int64_t depth = n.intAttr("K", 0), columns = n.intAttr("N", 0),
          bits = n.intAttr("bits", 4), block = n.intAttr("block_size", 0);
  // Accuracy hint for kernels that quantize activations, ignored.
  (void)n.intAttr("accuracy_level", 0);
  Value x = n.in(0), packed = n.in(1), scales = n.in(2);
  if (n.failed())
    return failure();
  if (n.has(4))
    return n.error() << "an order of groups ('g_idx') is not supported";
  if ((bits != 2 && bits != 4 && bits != 8) || block < 1 || depth < 1 ||
      columns < 1 || block * bits % 8 != 0)
    return n.error() << "weights [" << columns << ", " << depth << "] of "
                     << bits << " bits in blocks of " << block
                     << " are not supported";
  int64_t blocks = (depth + block - 1) / block;
  if (elementCount(packed) != columns * blocks * block * bits / 8 ||
      elementCount(scales) != columns * blocks)
    return n.error() << "weights " << packed.getType() << " and scales "
                     << scales.getType() << " do not hold " << columns
                     << " columns of " << blocks << " blocks of " << block;
  Type type = n.element(scales);
  Value bytes = n.reshape(packed, {columns, blocks, block * bits / 8});
  Value weights = n.cast(unpackLast(n, bytes, bits, block), type);
  Value zero = n.scalar(double(1 << (bits - 1)), type);
  if (n.has(3)) {
    zero = n.in(3);
    if (!n.isFloat(zero)) {
      int64_t row = (blocks * bits + 7) / 8;
      if (elementCount(zero) != columns * row)
        return n.error() << "zero points " << zero.getType() << " are not "
                         << columns << " rows of " << row << " bytes";
      zero = unpackLast(n, n.reshape(zero, {columns, row}), bits, blocks);
    }
    zero = n.reshape(n.cast(zero, type), {columns, blocks, 1});
  }
  Value scaled = n.op<MulOp>(
      {n.op<SubOp>({weights, zero}), n.reshape(scales, {columns, blocks, 1})});
  Value matrix =
      n.sliceAxis(n.reshape(scaled, {columns, blocks * block}), 1, 0, depth);
  Value y = n.matmulWide(x, n.cast(matrix, n.element(x)), false,
                         /*transposeRhs=*/true);
  if (n.has(5))
    y = n.op<AddOp>({y, n.cast(n.in(5), n.element(y))});
  return n.result(n.narrow(y, n.element(x)));
}

OpFamily mpc::onnx::microsoftOps() {
  static const OpEntry entries[] = {
      {"SimplifiedLayerNormalization 1 2 axis epsilon stash_type",
       convertSimplifiedLayerNormalization},
      {"com.microsoft:BiasGelu 1 2", convertGeluOfSum<GeluForm::erf>},
      {"com.microsoft:EmbedLayerNormalization 1 1-9 epsilon mask_index_type",
       convertEmbedLayerNormalization},
      {"com.microsoft:FastGelu 1 1-2", convertGeluOfSum<GeluForm::tanh>},
      {"com.microsoft:FusedMatMul 1 2 alpha transA transB transBatchA "
       "transBatchB",
       convertFusedMatMul},
      {"com.microsoft:Gelu 1 1", convertGeluOfSum<GeluForm::erf>},
      {"com.microsoft:MatMulNBits 1 3-6 K N accuracy_level bits block_size",
       convertMatMulNBits},
      {"com.microsoft:QuickGelu 1 1 alpha", convertQuickGelu},
      {"com.microsoft:SimplifiedLayerNormalization 1 2 axis epsilon stash_type",
       convertSimplifiedLayerNormalization},
      {"com.microsoft:SkipLayerNormalization 1 3-5 epsilon",
       convertSkipNormalization<true>},
      {"com.microsoft:SkipSimplifiedLayerNormalization 1 3-4 epsilon",
       convertSkipNormalization<false>},
  };
  return entries;
}
