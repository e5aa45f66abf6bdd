//===- MiscOps.cpp - functions without an mpc op --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpImport.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::hlo;

/// Evaluates a polynomial by Horner's rule; coefficients are highest first.
static Value polynomial(OpImport &op, Value x, ArrayRef<double> coefficients) {
  Value sum;
  for (double coefficient : coefficients)
    sum = sum ? op.with<AddOp>(op.map<MulOp>({sum, x}), coefficient)
              : op.scalar(coefficient, OpImport::element(x));
  return sum;
}

static LogicalResult convertSquare(OpImport &op) {
  Value x = op.in(0);
  return op.result(op.map<MulOp>({x, x}));
}

/// asin x = 2 atan(x / (1 + sqrt(1 - x^2))), accurate near 0 and near 1.
static Value arcsine(OpImport &op, Value x) {
  if (!x)
    return {};
  Value one = op.scalar(1, OpImport::element(x));
  Value left =
      op.map<MulOp>({op.map<SubOp>({one, x}), op.map<AddOp>({one, x})});
  Value ratio = op.map<DivOp>({x, op.with<AddOp>(op.map<SqrtOp>(left), 1)});
  return op.with<MulOp>(op.map<AtanOp>(ratio), 2);
}

static LogicalResult convertAsin(OpImport &op) {
  return op.result(arcsine(op, op.in(0)));
}

/// acos x = 2 atan2(sqrt(1 - x), sqrt(1 + x)).
static LogicalResult convertAcos(OpImport &op) {
  Value x = op.in(0);
  if (!x)
    return failure();
  Value one = op.scalar(1, OpImport::element(x));
  Value high = op.map<SqrtOp>(op.map<SubOp>({one, x}));
  Value low = op.map<SqrtOp>(op.map<AddOp>({one, x}));
  return op.result(op.with<MulOp>(op.map<Atan2Op>({high, low}), 2));
}

/// Returns x of -x, also of a scaled one; null if `value` is not negated.
static Value withoutSign(OpImport &op, Value value) {
  if (auto negated = value.getDefiningOp<NegOp>())
    return negated.getInput();
  auto scaled = value.getDefiningOp<MulOp>();
  for (int side = 0; scaled && side < 2; ++side) {
    Value factor = scaled->getOperand(side),
          other = scaled->getOperand(1 - side);
    std::optional<double> splat = constantSplat(factor);
    if (!splat)
      continue;
    if (Value plain = withoutSign(op, other))
      return op.map<MulOp>({plain, factor});
    if (*splat < 0)
      return op.with<MulOp>(other, -*splat);
  }
  return {};
}

/// erfc x. For a negated value, as in JAX's GELU, 1 + erf of the value: the sum
/// is between 0 and 2, and GELU recognition needs this form.
static LogicalResult convertErfc(OpImport &op) {
  Value x = op.in(0);
  if (!x)
    return failure();
  if (Value plain = withoutSign(op, x))
    return op.result(op.with<AddOp>(op.map<ErfOp>(plain), 1));
  Value one = op.scalar(1, OpImport::element(x));
  return op.result(op.map<SubOp>({one, op.map<ErfOp>(x)}));
}

/// Inverse error function by the polynomials of M. Giles, "Approximating the
/// erfinv function" (GPU Computing Gems, 2010), in single precision.
static LogicalResult convertErfInv(OpImport &op) {
  Value x = op.in(0);
  if (!x)
    return failure();
  Type type = OpImport::element(x), wide = op.wideType(type);
  if (type.isF64()) {
    op.error() << "of f64 is not supported";
    return failure();
  }
  Value v = op.cast(x, wide);
  // w = -log((1 - x)(1 + x))
  Value w =
      op.map<NegOp>(op.map<Log1pOp>(op.map<NegOp>(op.map<MulOp>({v, v}))));
  Value isCentral = op.compare(ComparePredicate::lt, w, op.scalar(5, wide));
  Value central = polynomial(op, op.with<SubOp>(w, 2.5),
                             {2.81022636e-08, 3.43273939e-07, -3.5233877e-06,
                              -4.39150654e-06, 0.00021858087, -0.00125372503,
                              -0.00417768164, 0.246640727, 1.50140941});
  Value tail = polynomial(op, op.with<SubOp>(op.map<SqrtOp>(w), 3),
                          {-0.000200214257, 0.000100950558, 0.00134934322,
                           -0.00367342844, 0.00573950773, -0.0076224613,
                           0.00943887047, 1.00167406, 2.83297682});
  Value scaled = op.map<MulOp>({op.select(isCentral, central, tail), v});
  // At +-1 the logarithm is infinite, and so is the result.
  Value size = op.map<AbsOp>(v);
  Value isEnd = op.compare(ComparePredicate::eq, size, op.scalar(1, wide));
  Value end = op.with<MulOp>(v, std::numeric_limits<double>::infinity());
  return op.result(op.cast(op.select(isEnd, end, scaled), type));
}

template <bool positive, bool negative>
static LogicalResult convertIsInf(OpImport &op) {
  return op.result(op.make<IsInfOp>(
      op.in(0), {op.attr("positive", op.builder.getBoolAttr(positive)),
                 op.attr("negative", op.builder.getBoolAttr(negative))}));
}

/// Rounding to an existing type is a cast and its inverse.
static LogicalResult convertReducePrecision(OpImport &op) {
  auto reduce = cast<stablehlo::ReducePrecisionOp>(op.op);
  Value x = op.in(0);
  Type type = OpImport::element(x);
  struct Format {
    unsigned exponent, mantissa;
    Type type;
  };
  const Format formats[] = {{11, 52, op.builder.getF64Type()},
                            {8, 23, op.builder.getF32Type()},
                            {8, 7, op.builder.getBF16Type()},
                            {5, 10, op.builder.getF16Type()}};
  for (const Format &format : formats) {
    if (format.exponent != reduce.getExponentBits() ||
        format.mantissa != reduce.getMantissaBits())
      continue;
    if (!type ||
        format.type.getIntOrFloatBitWidth() >= type.getIntOrFloatBitWidth())
      return op.result(x);
    return op.result(op.cast(op.cast(x, format.type, /*pinned=*/true), type));
  }
  op.error() << "to e" << reduce.getExponentBits() << "m"
             << reduce.getMantissaBits()
             << " is not supported; use e5m10, e8m7 or e8m23";
  return failure();
}

/// Population count by sums of adjacent fields.
static Value countBits(OpImport &op, Value value) {
  if (!value)
    return {};
  Type type = OpImport::element(value);
  unsigned width = type.getIntOrFloatBitWidth();
  Value sum = value;
  const uint64_t masks[] = {0x5555555555555555, 0x3333333333333333,
                            0x0f0f0f0f0f0f0f0f, 0x00ff00ff00ff00ff,
                            0x0000ffff0000ffff, 0x00000000ffffffff};
  for (unsigned step = 0; (1U << step) < width; ++step) {
    Value mask = op.integer(masks[step], type);
    Value high =
        op.map<ShiftRightOp>({sum, op.integer(uint64_t(1) << step, type)});
    sum = op.map<AddOp>(
        {op.map<AndOp>({sum, mask}), op.map<AndOp>({high, mask})});
  }
  return sum;
}

static LogicalResult convertPopcnt(OpImport &op) {
  return op.result(countBits(op, op.in(0)));
}

/// Sets all bits below the leading one, and counts the zeros.
static LogicalResult convertCountLeadingZeros(OpImport &op) {
  Value value = op.in(0);
  if (!value)
    return failure();
  Type type = OpImport::element(value);
  for (unsigned by = 1; by < type.getIntOrFloatBitWidth(); by *= 2)
    value = op.map<OrOp>(
        {value, op.map<ShiftRightOp>({value, op.integer(by, type)})});
  return op.result(countBits(op, op.map<NotOp>(value)));
}

/// Returns the number of possibly nonzero low bits of an unsigned integer: all,
/// or those of the type it was cast from.
static unsigned usedBits(Value value) {
  if (auto cast = value.getDefiningOp<CastOp>())
    if (Type narrow = OpImport::element(cast->getOperand(0));
        narrow.isUnsignedInteger())
      return std::min(narrow.getIntOrFloatBitWidth(),
                      OpImport::element(value).getIntOrFloatBitWidth());
  return OpImport::element(value).getIntOrFloatBitWidth();
}

/// Recognizes a float in [1, 2) assembled from random bits: in f32 `0x3F800000
/// | (bits >> 9)` is exactly 1 + (bits >> 9) * 2^-23.
static Value fromMantissa(OpImport &op, Value bits, FloatType type) {
  auto joined = bits.getDefiningOp<OrOp>();
  if (!joined ||
      OpImport::element(bits).getIntOrFloatBitWidth() != type.getWidth())
    return {};
  unsigned places = type.getFPMantissaWidth() - 1;
  uint64_t one =
      APFloat::getOne(type.getFloatSemantics()).bitcastToAPInt().getZExtValue();
  for (int side = 0; side < 2; ++side) {
    Value mantissa = joined->getOperand(1 - side);
    auto shift = mantissa.getDefiningOp<ShiftRightOp>();
    if (!shift || constantSplat(joined->getOperand(side)) != double(one) ||
        constantSplat(shift.getRhs()).value_or(0) + places <
            usedBits(shift.getLhs()))
      continue;
    Value number =
        op.with<MulOp>(op.cast(mantissa, type), std::ldexp(1, -int(places)));
    return op.with<AddOp>(number, 1);
  }
  return {};
}

/// Bit-casts between integers of different widths, low part first.
static Value recast(OpImport &op, Value value, Type to) {
  Type from = OpImport::element(value);
  unsigned fromBits = from.getIntOrFloatBitWidth(),
           toBits = to.getIntOrFloatBitWidth();
  if (fromBits == toBits)
    return op.cast(value, to);
  SmallVector<int64_t> shape(OpImport::shape(value));
  if (fromBits < toBits) {
    auto parts = int64_t(toBits / fromBits);
    auto axis = int64_t(shape.size()) - 1;
    // Zero extension of the low part.
    Type plain = IntegerType::get(op.builder.getContext(), fromBits,
                                  IntegerType::Unsigned);
    Type wide = IntegerType::get(op.builder.getContext(), toBits,
                                 IntegerType::Unsigned);
    shape.pop_back();
    Value joined;
    for (int64_t i = 0; i < parts; ++i) {
      Value part = op.reshape(op.sliceAxis(value, axis, i, 1), shape);
      part = op.cast(op.cast(part, plain), wide);
      if (i)
        part = op.map<ShiftLeftOp>(
            {part, op.integer(uint64_t(i) * fromBits, wide)});
      joined = joined ? op.map<OrOp>({joined, part}) : part;
    }
    return op.cast(joined, to);
  }
  SmallVector<Value> parts;
  shape.push_back(1);
  for (unsigned at = 0; at < fromBits; at += toBits) {
    Value part =
        at ? op.map<ShiftRightOp>({value, op.integer(at, from)}) : value;
    parts.push_back(op.reshape(op.cast(part, to), shape));
  }
  return op.concat(parts, int64_t(shape.size()) - 1);
}

/// Bit-casts a constant to another type of the same width.
static Value recastConstant(OpImport &op, Value value, Type to) {
  auto constant = value.getDefiningOp<ConstantOp>();
  if (!constant || OpImport::element(value).getIntOrFloatBitWidth() !=
                       to.getIntOrFloatBitWidth())
    return {};
  ElementsAttr elements = constant.getValue();
  auto type = RankedTensorType::get(OpImport::shape(value), to);
  if (auto dense = dyn_cast<DenseElementsAttr>(elements))
    return op.constant(dense.bitcast(to));
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(elements))
    return op.constant(
        DenseResourceElementsAttr::get(type, resource.getRawHandle()));
  return {};
}

static LogicalResult convertBitcast(OpImport &op) {
  Value value = op.in(0);
  Type from = OpImport::element(value);
  Type to = OpImport::element(op.op->getResult(0));
  if (!value)
    return failure();
  if (from == to)
    return op.result(value);
  // An empty tensor.
  ArrayRef<int64_t> shape = OpImport::shape(op.op->getResult(0));
  if (productOf(shape) == 0)
    return op.result(op.broadcast(op.scalar(0, to), shape));
  if (isa<IntegerType>(from) && isa<IntegerType>(to))
    return op.result(recast(op, value, to));
  if (Value number = recastConstant(op, value, to))
    return op.result(number);
  if (to.isF32() || to.isF16() || to.isBF16())
    if (Value number = fromMantissa(op, value, cast<FloatType>(to)))
      return op.result(number);
  op.error()
      << "reinterprets " << from << " as " << to
      << ", which is supported only for constants and random mantissa bits";
  return failure();
}

OpFamily hlo::specialOps() {
  static const OpEntry entries[] = {
      {"stablehlo.bitcast_convert", convertBitcast},
      {"stablehlo.count_leading_zeros", convertCountLeadingZeros},
      {"stablehlo.popcnt", convertPopcnt},
      {"stablehlo.reduce_precision", convertReducePrecision},
      {"chlo.acos", convertAcos},
      {"chlo.asin", convertAsin},
      {"chlo.erf_inv", convertErfInv},
      {"chlo.erfc", convertErfc},
      {"chlo.is_inf", convertIsInf<true, true>},
      {"chlo.is_neg_inf", convertIsInf<false, true>},
      {"chlo.is_pos_inf", convertIsInf<true, false>},
      {"chlo.square", convertSquare},
  };
  return entries;
}
