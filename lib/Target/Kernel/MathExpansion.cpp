//===- MathExpansion.cpp - scalar or vector arithmetic, exp and log -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MathExpansion.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;
using arith::CmpIPredicate;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();
static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

Type ValueMath::withElement(Type type, Type element) {
  if (auto vector = dyn_cast<VectorType>(type))
    return VectorType::get(vector.getShape(), element);
  return element;
}

Value ValueMath::constant(Type type, double value) {
  Attribute element = b.getFloatAttr(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    element = DenseElementsAttr::get(vector, element);
  return arith::ConstantOp::create(b, loc, type, cast<TypedAttr>(element));
}

Value ValueMath::integer(Type type, int64_t value) {
  Type elementType = getElementTypeOrSelf(type);
  unsigned width =
      elementType.isIndex() ? 64 : elementType.getIntOrFloatBitWidth();
  Attribute element = IntegerAttr::get(
      elementType, APInt(width, static_cast<uint64_t>(value), /*isSigned=*/true,
                         /*implicitTrunc=*/true));
  if (auto vector = dyn_cast<VectorType>(type))
    element = DenseElementsAttr::get(vector, element);
  return arith::ConstantOp::create(b, loc, type, cast<TypedAttr>(element));
}

Value ValueMath::add(Value x, Value y) {
  return arith::AddFOp::create(b, loc, x, y);
}
Value ValueMath::sub(Value x, Value y) {
  return arith::SubFOp::create(b, loc, x, y);
}
Value ValueMath::mul(Value x, Value y) {
  return arith::MulFOp::create(b, loc, x, y);
}
Value ValueMath::div(Value x, Value y) {
  return arith::DivFOp::create(b, loc, x, y);
}
Value ValueMath::neg(Value x) { return arith::NegFOp::create(b, loc, x); }
Value ValueMath::abs(Value x) { return math::AbsFOp::create(b, loc, x); }
Value ValueMath::sqrt(Value x) { return math::SqrtOp::create(b, loc, x); }
Value ValueMath::truncate(Value x) { return math::TruncOp::create(b, loc, x); }

Value ValueMath::fma(Value x, Value y, Value z) {
  return math::FmaOp::create(b, loc, x, y, z);
}

Value ValueMath::copySign(Value magnitude, Value sign) {
  return math::CopySignOp::create(b, loc, magnitude, sign);
}

Value ValueMath::compare(CmpFPredicate predicate, Value x, Value y) {
  return arith::CmpFOp::create(b, loc, predicate, x, y);
}
Value ValueMath::compare(CmpIPredicate predicate, Value x, Value y) {
  return arith::CmpIOp::create(b, loc, predicate, x, y);
}
Value ValueMath::select(Value condition, Value onTrue, Value onFalse) {
  return arith::SelectOp::create(b, loc, condition, onTrue, onFalse);
}

Value ValueMath::addInt(Value x, Value y) {
  return arith::AddIOp::create(b, loc, x, y);
}
Value ValueMath::subInt(Value x, Value y) {
  return arith::SubIOp::create(b, loc, x, y);
}
Value ValueMath::bitAnd(Value x, Value y) {
  return arith::AndIOp::create(b, loc, x, y);
}
Value ValueMath::bitOr(Value x, Value y) {
  return arith::OrIOp::create(b, loc, x, y);
}
Value ValueMath::bitXor(Value x, Value y) {
  return arith::XOrIOp::create(b, loc, x, y);
}

Value ValueMath::shiftLeft(Value x, int64_t bits) {
  return arith::ShLIOp::create(b, loc, x, integer(x.getType(), bits));
}
Value ValueMath::shiftRight(Value x, int64_t bits) {
  return arith::ShRUIOp::create(b, loc, x, integer(x.getType(), bits));
}
Value ValueMath::shiftRightSigned(Value x, int64_t bits) {
  return arith::ShRSIOp::create(b, loc, x, integer(x.getType(), bits));
}

Value ValueMath::bits(Value x) {
  unsigned width = getElementTypeOrSelf(x.getType()).getIntOrFloatBitWidth();
  return arith::BitcastOp::create(
      b, loc, withElement(x.getType(), b.getIntegerType(width)), x);
}
Value ValueMath::fromBits(Value x, Type floatType) {
  return arith::BitcastOp::create(
      b, loc, withElement(x.getType(), getElementTypeOrSelf(floatType)), x);
}

Value ValueMath::extendFloat(Value x, Type element) {
  return arith::ExtFOp::create(b, loc, withElement(x.getType(), element), x);
}
Value ValueMath::truncateFloat(Value x, Type element) {
  return arith::TruncFOp::create(b, loc, withElement(x.getType(), element), x);
}
Value ValueMath::extendUnsigned(Value x, Type element) {
  return arith::ExtUIOp::create(b, loc, withElement(x.getType(), element), x);
}
Value ValueMath::extendSigned(Value x, Type element) {
  return arith::ExtSIOp::create(b, loc, withElement(x.getType(), element), x);
}
Value ValueMath::truncateInt(Value x, Type element) {
  return arith::TruncIOp::create(b, loc, withElement(x.getType(), element), x);
}

Value ValueMath::polynomial(Value x, ArrayRef<double> coefficients) {
  Value sum = constant(x.getType(), coefficients.back());
  for (double coefficient : llvm::reverse(coefficients.drop_back()))
    sum = fma(sum, x, constant(x.getType(), coefficient));
  return sum;
}

//===----------------------------------------------------------------------===//
// Rounding
//===----------------------------------------------------------------------===//

Value ValueMath::truncateToOdd(Value x) {
  Value nearest = truncateFloat(x, b.getF32Type());
  Value widened = extendFloat(nearest, b.getF64Type());
  Value pattern = bits(nearest);
  // An inexact result with an even last bit moves to its odd neighbour towards
  // x.
  Value inexact = compare(CmpFPredicate::ONE, widened, x);
  Value even = compare(CmpIPredicate::eq, bitAnd(pattern, 1),
                       integer(pattern.getType(), 0));
  Value below = compare(CmpFPredicate::OLT, abs(widened), abs(x));
  Value odd = select(below, addInt(pattern, 1), addInt(pattern, -1));
  Value moved = select(bitAnd(inexact, even), odd, pattern);
  return fromBits(moved, nearest.getType());
}

Value ValueMath::roundToBf16(Value x) {
  Value pattern = bits(x);
  Value last = bitAnd(shiftRight(pattern, 16), 1);
  Value rounded = addInt(addInt(pattern, 0x7fff), last);
  Value isNan = compare(CmpFPredicate::UNO, x, x);
  // A quiet NaN whose payload survives in the upper half.
  rounded = select(isNan, bitOr(pattern, 0x400000), rounded);
  return fromBits(bitAnd(rounded, static_cast<int64_t>(0xffff0000u)),
                  x.getType());
}

Value ValueMath::roundToF16(Value x) {
  return extendFloat(truncateFloat(x, b.getF16Type()), b.getF32Type());
}

//===----------------------------------------------------------------------===//
// Exponentials
//===----------------------------------------------------------------------===//

namespace {
/// Constants that differ between f32 and f64.
struct FloatFormat {
  int mantissaBits;
  int64_t exponentBias;
  /// 1.5 * 2^mantissaBits: adding it leaves the nearest integer in the low
  /// bits.
  double rounder;
  int64_t rounderBits;
  /// ln 2 as a short high part, whose products with exponents are exact, plus
  /// low.
  double ln2High, ln2Low;
  double smallestNormal;
};
} // namespace

static const FloatFormat &formatOf(Type type) {
  static const FloatFormat single = {23,
                                     127,
                                     12582912.0,
                                     0x4b400000,
                                     0.693145752,
                                     1.42860677e-6,
                                     1.1754943508222875e-38};
  static const FloatFormat wide = {52,
                                   1023,
                                   6755399441055744.0,
                                   0x4338000000000000,
                                   6.93147180369123816490e-01,
                                   1.90821492927058770002e-10,
                                   2.2250738585072014e-308};
  return ValueMath::isDouble(type) ? wide : single;
}

// (e^r - 1 - r) / r^2 on [-ln 2 / 2, ln 2 / 2].
static constexpr double kExp32[] = {0.4999999337, 0.1666651953, 0.0416684006,
                                    8.368850907e-3, 1.381435018e-3};
static constexpr double kExpm132[] = {0.5000000047,   0.1666666682,
                                      0.04166635231,  8.333272767e-3,
                                      1.394120982e-3, 1.991432284e-4};
static constexpr double kExp64[] = {
    0.4999999999999999999,   0.1666666666666667679,   0.04166666666666670232,
    8.333333333321436578e-3, 1.388888888886639019e-3, 1.984126988667271454e-4,
    2.480158736140839887e-5, 2.755724360976482416e-6, 2.755724204913577313e-7,
    2.510926163975827436e-8, 2.092465924390621815e-9};

MathExpansion::ExpParts MathExpansion::splitExp(Value x) {
  const FloatFormat &format = formatOf(x.getType());
  Value rounder = constant(x.getType(), format.rounder);
  Value shifted = fma(x, M_LOG2E, rounder);
  Value n = sub(shifted, rounder);
  Value rest = fma(n, -format.ln2High, x);
  rest = fma(n, -format.ln2Low, rest);
  return {n, bits(shifted), rest};
}

Value MathExpansion::expm1Core(Value r, bool precise) {
  ArrayRef<double> coefficients(kExp64);
  if (!isDouble(r.getType()))
    coefficients =
        precise ? ArrayRef<double>(kExpm132) : ArrayRef<double>(kExp32);
  return fma(mul(r, r), polynomial(r, coefficients), r);
}

Value MathExpansion::powerOfTwo(Value n, Type floatType) {
  const FloatFormat &format = formatOf(floatType);
  Value exponent = addInt(n, format.exponentBias);
  return fromBits(shiftLeft(exponent, format.mantissaBits), floatType);
}

bool MathExpansion::usesScalef(Type type) const {
  auto vector = dyn_cast<VectorType>(type);
  return target.hasScalef && vector &&
         vector.getNumElements() % (isDouble(type) ? 8 : 16) == 0;
}

Value MathExpansion::scalef(Value x, Value n) {
  if (!usesScalef(x.getType()))
    return {};
  auto type = cast<VectorType>(x.getType());
  bool wide = isDouble(type);
  int64_t lanes = wide ? 8 : 16, count = type.getNumElements();
  StringRef name = wide ? "llvm.x86.avx512.mask.scalef.pd.512"
                        : "llvm.x86.avx512.mask.scalef.ps.512";
  Value everyLane = integer(b.getIntegerType(lanes), -1);
  Value currentRounding = integer(b.getI32Type(), 4);
  SmallVector<Value> parts;
  for (int64_t first = 0; first < count; first += lanes) {
    SmallVector<int64_t> order =
        llvm::to_vector(llvm::seq(first, first + lanes));
    auto part = [&](Value value) -> Value {
      return count == lanes
                 ? value
                 : vector::ShuffleOp::create(b, loc, value, value, order);
    };
    Value source = part(x);
    parts.push_back(
        LLVM::CallIntrinsicOp::create(
            b, loc, VectorType::get({lanes}, type.getElementType()),
            b.getStringAttr(name),
            ValueRange{source, part(n), source, everyLane, currentRounding})
            .getResult(0));
  }
  for (; parts.size() > 1; lanes *= 2) {
    SmallVector<int64_t> order =
        llvm::to_vector(llvm::seq<int64_t>(0, 2 * lanes));
    SmallVector<Value> joined;
    for (size_t i = 0; i + 1 < parts.size(); i += 2)
      joined.push_back(
          vector::ShuffleOp::create(b, loc, parts[i], parts[i + 1], order));
    parts = joined;
  }
  return parts.front();
}

Value MathExpansion::expScaled(Value x, int bias, Value low) {
  Type type = x.getType();
  const FloatFormat &format = formatOf(type);
  // Outside these the result is 0 or infinity also after the bias.
  double bound = isDouble(type) ? 750 : 106;
  Value clamped = select(compare(CmpFPredicate::OGT, x, bound), bound, x);
  clamped =
      select(compare(CmpFPredicate::OLT, clamped, -bound), -bound, clamped);
  ExpParts parts = splitExp(clamped);
  Value rest = low ? add(parts.rest, low) : parts.rest;
  Value mantissa = add(expm1Core(rest, /*precise=*/false), 1.0);
  if (Value scaled =
          scalef(mantissa, bias == 0 ? parts.n : add(parts.n, double(bias))))
    return scaled;
  // Two factors: the result may be subnormal or the power alone too large.
  Value n = addInt(parts.shifted, bias - format.rounderBits);
  Value half = shiftRightSigned(n, 1);
  Value result = mul(mantissa, powerOfTwo(half, type));
  return mul(result, powerOfTwo(subInt(n, half), type));
}

Value MathExpansion::expNonPositive(Value x) {
  if (target.call)
    return call("exp", {x});
  Type type = x.getType();
  const FloatFormat &format = formatOf(type);
  bool wide = isDouble(type);
  // Below it half the least subnormal number.
  double bound = wide ? -746.0 : -104.0;
  Value tiny = compare(CmpFPredicate::OLT, x, bound);
  ExpParts parts = splitExp(select(tiny, bound, x));
  Value mantissa = add(expm1Core(parts.rest, /*precise=*/false), 1.0);
  if (Value scaled = scalef(mantissa, parts.n))
    return scaled;
  // In two steps, of which only the second may leave the normal numbers. Zeros
  // come before it: processors are slow at multiplications that underflow. The
  // rounding constant's own bits leave the word when shifted.
  constexpr int64_t kLift = 64;
  Value power = addInt(shiftLeft(parts.shifted, format.mantissaBits),
                       (format.exponentBias + kLift) << format.mantissaBits);
  Value lifted = select(tiny, 0.0, mul(mantissa, fromBits(power, type)));
  return mul(lifted, std::ldexp(1.0, -kLift));
}

Value MathExpansion::expm1(Value x) {
  if (target.call)
    return call("expm1", {x});
  Type type = x.getType();
  const FloatFormat &format = formatOf(type);
  double high = isDouble(type) ? 710 : 89, low = isDouble(type) ? -40 : -20;
  Value clamped = select(compare(CmpFPredicate::OGT, x, high), high, x);
  clamped = select(compare(CmpFPredicate::OLT, clamped, low), low, clamped);
  ExpParts parts = splitExp(clamped);
  Value core = expm1Core(parts.rest, /*precise=*/true);
  // Half the result first: 2^n itself may be infinite.
  Value half = powerOfTwo(addInt(parts.shifted, -1 - format.rounderBits), type);
  Value sum = fma(core, half, sub(half, 0.5));
  Value result = add(sum, sum);
  return select(compare(CmpFPredicate::OEQ, x, 0.0), x, result);
}

//===----------------------------------------------------------------------===//
// Logarithms
//===----------------------------------------------------------------------===//

// (log(1 + f) - f) / f^2 on [-1/3, 1/3].
static constexpr double kLog32[] = {-0.5000000122, 0.3333320883,  -0.2499971569,
                                    0.2001072653,  -0.1668235547, 0.1400145173,
                                    -0.1216663306, 0.1400355924,  -0.12950835};
// (log((1 + s) / (1 - s)) - 2 s) / s^3 in s^2, for arguments within [sqrt 1/2,
// sqrt 2].
static constexpr double kLog64[] = {
    0.6666666666666666089, 0.4000000000000633198, 0.285714285690584912,
    0.2222222265094309708, 0.1818177533215644244, 0.1538710539991040826,
    0.1324978649644892786, 0.1325435794561132474};

std::pair<Value, Value> MathExpansion::splitLog(Value x) {
  Type type = x.getType();
  bool wide = isDouble(type);
  const FloatFormat &format = formatOf(type);
  Value subnormal = compare(CmpFPredicate::OLT, x, format.smallestNormal);
  double scale = std::ldexp(1.0, format.mantissaBits);
  Value scaled = select(subnormal, mul(x, scale), x);
  Value pattern = bits(scaled);
  // The offset puts m within [2/3, 4/3) for f32, [sqrt 1/2, sqrt 2) for f64.
  int64_t offset = wide ? 0x3fe6a09e667f3bcd : 0x3f2aaaab;
  Value biased =
      addInt(pattern, (format.exponentBias << format.mantissaBits) - offset);
  Value biasedExponent = shiftRight(biased, format.mantissaBits);
  Value exponentField = addInt(biasedExponent, -format.exponentBias);
  Value m = fromBits(
      subInt(pattern, shiftLeft(exponentField, format.mantissaBits)), type);
  Value n;
  if (wide) {
    // 2^52 with the exponent in its low bits: no conversion of 64-bit integers.
    Value joined = bitOr(biasedExponent, 0x4330000000000000);
    n = sub(fromBits(joined, type), 4503599627370496.0 + 1023);
  } else {
    n = arith::SIToFPOp::create(b, loc, type, exponentField);
  }
  n = select(subnormal, sub(n, format.mantissaBits), n);
  return {n, m};
}

Value MathExpansion::log(Value x) {
  if (target.call)
    return call("log", {x});
  Type type = x.getType();
  const FloatFormat &format = formatOf(type);
  auto [n, m] = splitLog(x);
  Value f = sub(m, 1.0), result;
  if (isDouble(type)) {
    Value s = div(f, add(f, 2.0));
    Value square = mul(s, s);
    // log m = f - s * (f - s^2 * P): keeps f exact.
    Value tail = mul(square, polynomial(square, kLog64));
    Value low = fma(n, format.ln2Low, neg(mul(s, sub(f, tail))));
    result = fma(n, format.ln2High, add(f, low));
  } else {
    Value r = fma(mul(f, f), polynomial(f, kLog32), f);
    result = fma(n, format.ln2High, fma(n, format.ln2Low, r));
  }
  // Infinity and NaN stay; what is below 0 is NaN.
  result = select(compare(CmpFPredicate::OLT, x, kInfinity), result, x);
  result = select(compare(CmpFPredicate::OLT, x, 0.0), kNan, result);
  return select(compare(CmpFPredicate::OEQ, x, 0.0), -kInfinity, result);
}

Value MathExpansion::log1p(Value x) {
  if (target.call)
    return call("log1p", {x});
  Value u = add(x, 1.0);
  // What the sum lost, to first order.
  Value lost = sub(x, sub(u, 1.0));
  Value corrected = add(log(u), div(lost, u));
  // At -1 and infinity the correction is no number; log(u) is right there.
  Value plain = bitOr(compare(CmpFPredicate::OEQ, u, 0.0),
                      compare(CmpFPredicate::OEQ, u, kInfinity));
  Value result = select(plain, log(u), corrected);
  return select(compare(CmpFPredicate::OEQ, u, 1.0), x, result);
}

std::pair<Value, Value> MathExpansion::logParts(Value x) {
  const FloatFormat &format = formatOf(x.getType());
  auto [n, m] = splitLog(x);
  Value f = sub(m, 1.0), d = add(f, 2.0);
  Value s = div(f, d);
  // The quotient's rest, the rounding of d included.
  Value dRest = sub(f, sub(d, 2.0));
  Value rest = fma(neg(s), dRest, fma(neg(s), d, f));
  Value sLow = div(rest, d);
  Value square = mul(s, s);
  Value tail = mul(mul(s, square), polynomial(square, kLog64));
  Value base = mul(n, format.ln2High), twice = add(s, s);
  Value high = add(base, twice);
  // Two-sum of base and twice, whichever is larger.
  Value part = sub(high, base);
  Value error = add(sub(base, sub(high, part)), sub(twice, part));
  Value low = add(fma(n, format.ln2Low, tail), add(error, add(sLow, sLow)));
  return {high, low};
}
