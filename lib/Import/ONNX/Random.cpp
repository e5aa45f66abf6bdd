//===- Random.cpp - random number operators -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ONNX does not specify the generator. The numbers are those of mpc.random_bits
// (Philox4x32-10) with the node's seed and a separate stream per node, so that
// they are equal on every device and in every run.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "NodeImport.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Returns uniform numbers in [0, 1) in the wide type of `type`, with all bits
/// of its significand.
static Value uniform(NodeImport &n, ArrayRef<int64_t> shape, Type type) {
  Type f32 = n.builder.getF32Type(), i64 = n.builder.getI64Type();
  Value word = n.randomBits(shape);
  if (!type.isF64()) {
    Value high = n.op<ShiftRightOp>({word, n.scalar(8, i64)});
    return n.op<MulOp>({n.cast(high, f32), n.scalar(std::ldexp(1, -24), f32)});
  }
  // 53 bits from two words.
  Value high = n.op<ShiftLeftOp>(
      {n.op<ShiftRightOp>({word, n.scalar(5, i64)}), n.scalar(26, i64)});
  Value low = n.op<ShiftRightOp>({n.randomBits(shape), n.scalar(6, i64)});
  return n.op<MulOp>({n.cast(n.op<OrOp>({high, low}), type),
                      n.scalar(std::ldexp(1, -53), type)});
}

/// Returns the element type in attribute 'dtype', or `fallback`. Null after an
/// error.
static Type randomElementType(NodeImport &n, Type fallback) {
  if (!n.hasAttr("dtype"))
    return fallback;
  auto dtype = int32_t(n.intAttr("dtype", kFloat));
  Type type = elementTypeOf(dtype, n.builder.getContext());
  if (!type && !n.failed())
    n.error() << "attribute 'dtype' is " << dataTypeName(dtype)
              << ", which mpc does not support";
  return type;
}

/// Returns the type of the random tensor, from the input or from attributes.
template <bool like> static RankedTensorType randomTensorType(NodeImport &n) {
  SmallVector<int64_t> shape;
  Type type = n.builder.getF32Type();
  if (like) {
    Value x = n.in(0);
    shape.assign(n.shape(x).begin(), n.shape(x).end());
    type = n.element(x);
  } else {
    shape = n.intsAttr("shape");
    for (int64_t extent : shape)
      if (extent < 0 && !n.failed())
        n.error() << "attribute 'shape' has the entry " << extent
                  << ", expected at least 0";
  }
  type = randomElementType(n, type);
  if (n.failed())
    return nullptr;
  if (!isa<FloatType>(type)) {
    n.error() << "the random numbers have type " << type
              << ", expected a float type (attribute 'dtype')";
    return nullptr;
  }
  return n.tensorType(shape, type);
}

template <bool like> static LogicalResult convertUniform(NodeImport &n) {
  double low = n.floatAttr("low", 0), high = n.floatAttr("high", 1);
  RankedTensorType drawn = randomTensorType<like>(n);
  if (!drawn)
    return failure();
  Value number = uniform(n, drawn.getShape(), drawn.getElementType());
  Type wide = n.element(number);
  number = n.op<AddOp>(
      {n.op<MulOp>({number, n.scalar(high - low, wide)}), n.scalar(low, wide)});
  return n.result(n.cast(number, drawn.getElementType()));
}

/// Box-Muller transform (1958): radius from one number, angle from another.
template <bool like> static LogicalResult convertNormal(NodeImport &n) {
  double mean = n.floatAttr("mean", 0), scale = n.floatAttr("scale", 1);
  RankedTensorType drawn = randomTensorType<like>(n);
  if (!drawn)
    return failure();
  Type type = drawn.getElementType();
  Value radius = uniform(n, drawn.getShape(), type),
        angle = uniform(n, drawn.getShape(), type);
  Type wide = n.element(radius);
  // 1 - u is in (0, 1]: its logarithm is finite.
  radius = n.op<LogOp>(n.op<SubOp>({n.scalar(1, wide), radius}));
  radius = n.op<SqrtOp>(n.op<MulOp>({radius, n.scalar(-2, wide)}));
  angle = n.op<CosOp>(n.op<MulOp>({angle, n.scalar(2 * M_PI, wide)}));
  Value number = n.op<MulOp>({radius, angle});
  number = n.op<AddOp>(
      {n.op<MulOp>({number, n.scalar(scale, wide)}), n.scalar(mean, wide)});
  return n.result(n.cast(number, type));
}

static LogicalResult convertBernoulli(NodeImport &n) {
  Value x = n.in(0);
  Type type = randomElementType(n, n.element(x));
  if (n.failed())
    return failure();
  if (!n.isFloat(x))
    return n.error() << "probabilities " << x.getType()
                     << " are of no float type";
  Value number = uniform(n, n.shape(x), n.element(x));
  Value below =
      n.compare(ComparePredicate::lt, number, n.cast(x, n.element(number)));
  return n.result(n.cast(below, type));
}

/// Gumbel-max trick (Gumbel, 1954; Maddison et al., 2014): argmax of
/// log-probabilities plus Gumbel noise, independent for each sample.
static LogicalResult convertMultinomial(NodeImport &n) {
  Value x = n.in(0);
  int64_t samples = n.intAttr("sample_size", 1);
  Type type = randomElementType(n, n.builder.getI32Type());
  if (n.failed())
    return failure();
  if (n.rank(x) != 2 || !n.isFloat(x) || n.dim(x, 1) < 1 || samples < 1)
    return n.error() << "input " << x.getType() << " and attribute "
                     << "'sample_size' " << samples
                     << " are not [batch, classes] and at least 1";
  if (!type.isInteger(32) && !type.isInteger(64))
    return n.error() << "attribute 'dtype' is " << type
                     << ", expected INT32 or INT64";
  int64_t batch = n.dim(x, 0), classes = n.dim(x, 1);
  SmallVector<int64_t> shape = {batch, samples, classes};
  if (!n.tensorType(shape, n.builder.getI64Type()))
    return failure();
  Value number = uniform(n, shape, n.element(x));
  Type wide = n.element(number);
  // A positive number keeps both logarithms finite.
  number = n.op<MaxOp>(
      {number, n.scalar(std::ldexp(1, wide.isF64() ? -54 : -25), wide)});
  Value noise = n.op<NegOp>(n.op<LogOp>(n.op<NegOp>(n.op<LogOp>(number))));
  Value noisy =
      n.op<AddOp>({n.reshape(n.cast(x, wide), {batch, 1, classes}), noise});
  return n.result(
      n.cast(n.op<ArgmaxOp>(noisy, {n.attr("axis", int64_t(2))}), type));
}

OpFamily mpc::onnx::randomOps() {
  static const OpEntry entries[] = {
      {"Bernoulli 15,22 1 dtype seed", convertBernoulli},
      {"Multinomial 7,22 1 dtype sample_size seed", convertMultinomial},
      {"RandomNormal 1,22 0 dtype mean scale seed shape", convertNormal<false>},
      {"RandomNormalLike 1,22 1 dtype mean scale seed", convertNormal<true>},
      {"RandomUniform 1,22 0 dtype high low seed shape", convertUniform<false>},
      {"RandomUniformLike 1,22 1 dtype high low seed", convertUniform<true>},
  };
  return entries;
}
