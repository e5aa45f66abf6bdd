//===- MathExpansionTrigonometry.cpp - circular and hyperbolic functions --===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MathExpansion.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;
using arith::CmpIPredicate;

// pi / 2 as a sum of three doubles.
static constexpr double kHalfPi[] = {
    0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fb8p-110};
static constexpr double kLn2 = 0.693147180559945309417;
static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// A constant as the nearest number of the type plus the rest.
static std::pair<double, double> split(double high, double low, Type type) {
  if (ValueMath::isDouble(type))
    return {high, low};
  double nearest = static_cast<float>(high);
  return {nearest, high - nearest};
}

//===----------------------------------------------------------------------===//
// sin, cos, tan
//===----------------------------------------------------------------------===//

// (sin r - r) / r^3 and (cos r - 1 + r^2 / 2) / r^4 in r^2, |r| <= pi / 4.
static constexpr double kSin32[] = {-0.1666665461, 8.332160886e-3,
                                    -1.951529347e-4};
static constexpr double kCos32[] = {0.04166664573, -1.38873178e-3,
                                    2.443327593e-5};
static constexpr double kSin64[] = {
    -0.1666666666666666664,   8.333333333333322527e-3,
    -1.984126984125482124e-4, 2.755731921407456837e-6,
    -2.505210488400921383e-8, 1.605836339778771479e-10,
    -7.578550049539552124e-13};
static constexpr double kCos64[] = {
    0.04166666666666666661,  -1.388888888888887301e-3,
    2.480158730157056176e-5, -2.755731921500216806e-7,
    2.087675428733558869e-9, -1.147028484852260367e-11,
    4.737750231047934117e-14};

// The bits of 1 / (2 pi) behind the point, in words.
static constexpr int64_t kInverseTurn[] = {0x28be60db, 0x9391054a, 0x7f09d5f4,
                                           0x7d4d3770, 0x36d8a566, 0x4f10e410,
                                           0x7f9458ea};

std::pair<Value, Value> MathExpansion::reduceLarge(Value x) {
  // x = m 2^e with a 24-bit m: of the turns m 2^e / (2 pi) only the fraction
  // counts, and so only the bits of 1 / (2 pi) from the e-th on. 96 of them
  // give the fraction to 2^-72; a float is no nearer than 2^-32 to a quarter
  // turn.
  Type element = b.getI64Type();
  Value pattern = extendUnsigned(bitAnd(bits(x), 0x7fffffff), element);
  Type type = pattern.getType();
  Value mantissa = bitOr(bitAnd(pattern, 0x7fffff), 0x800000);
  Value exponent = addInt(shiftRight(pattern, 23), -150);
  Value first = shiftRight(exponent, 5);
  Value shift = subInt(integer(type, 32), bitAnd(exponent, 31));
  Value words[4], window[3];
  for (int j = 0; j < 4; ++j) {
    words[j] = integer(type, kInverseTurn[j]);
    for (int i = 1; i < 4; ++i)
      words[j] = select(compare(CmpIPredicate::eq, first, integer(type, i)),
                        integer(type, kInverseTurn[i + j]), words[j]);
  }
  for (int j = 0; j < 3; ++j) {
    Value pair = bitOr(shiftLeft(words[j], 32), words[j + 1]);
    pair = arith::ShRUIOp::create(b, loc, pair, shift);
    window[j] = bitAnd(pair, 0xffffffff);
  }
  auto times = [&](Value word) -> Value {
    return arith::MulIOp::create(b, loc, mantissa, word);
  };
  Value low = shiftRight(times(window[2]), 32);
  Value middle = arith::AddIOp::create(b, loc, times(window[1]), low);
  Value high =
      arith::AddIOp::create(b, loc, times(window[0]), shiftRight(middle, 32));
  Value turn = bitOr(shiftLeft(high, 32), bitAnd(middle, 0xffffffff));
  Value zero = integer(type, 0);
  turn = select(compare(CmpFPredicate::OLT, x, 0.0), subInt(zero, turn), turn);

  Value quadrant = shiftRight(addInt(turn, int64_t(1) << 61), 62);
  Value rest = subInt(turn, shiftLeft(quadrant, 62));
  Type wide = withElement(x.getType(), b.getF64Type());
  Value r = arith::SIToFPOp::create(b, loc, wide, rest);
  r = mul(r, kHalfPi[0] * 0x1p-62);
  // NaN for infinities.
  r = add(r, extendFloat(sub(x, x), b.getF64Type()));
  return {r, quadrant};
}

std::pair<Value, Value> MathExpansion::sinCos(Value x) {
  Type type = x.getType();
  bool wide = isDouble(type);
  // The reduction runs in f64 for both types: exact where f32 needs it.
  Value argument = wide ? x : extendFloat(x, b.getF64Type());
  Value rounder = constant(argument.getType(), 6755399441055744.0);
  Value shifted = fma(argument, M_2_PI, rounder);
  Value n = neg(sub(shifted, rounder));
  Value r = fma(n, kHalfPi[0], argument);
  r = fma(n, kHalfPi[1], r);
  Value quadrant = bits(shifted);
  if (wide) {
    r = fma(n, kHalfPi[2], r);
  } else {
    // Rare, and so behind a branch that all lanes share.
    Value isLarge = compare(CmpFPredicate::OGE, abs(x), 0x1p40);
    Value any = isLarge;
    if (isa<VectorType>(type))
      any = vector::ReductionOp::create(b, loc, vector::CombiningKind::OR,
                                        isLarge);
    auto choice = scf::IfOp::create(
        b, loc, any,
        [&](OpBuilder &, Location) {
          auto [largeRest, largeQuadrant] = reduceLarge(x);
          scf::YieldOp::create(
              b, loc,
              ValueRange{select(isLarge, largeRest, r),
                         select(isLarge, largeQuadrant, quadrant)});
        },
        [&](OpBuilder &, Location) {
          scf::YieldOp::create(b, loc, ValueRange{r, quadrant});
        });
    r = truncateFloat(choice.getResult(0), b.getF32Type());
    quadrant = truncateInt(choice.getResult(1), b.getI32Type());
  }

  Value square = mul(r, r);
  Value sine = polynomial(square, wide ? ArrayRef<double>(kSin64)
                                       : ArrayRef<double>(kSin32));
  sine = fma(mul(r, square), sine, r);
  Value cosine = polynomial(square, wide ? ArrayRef<double>(kCos64)
                                         : ArrayRef<double>(kCos32));
  cosine =
      fma(mul(square, square), cosine, fma(square, -0.5, constant(type, 1.0)));

  Value zero = integer(quadrant.getType(), 0);
  Value odd = compare(CmpIPredicate::ne, bitAnd(quadrant, 1), zero);
  int64_t signShift = wide ? 62 : 30;
  auto flip = [&](Value value, Value quarter) {
    Value sign = shiftLeft(bitAnd(quarter, 2), signShift);
    return fromBits(bitXor(bits(value), sign), type);
  };
  Value sinResult = flip(select(odd, cosine, sine), quadrant);
  Value cosResult = flip(select(odd, sine, cosine), addInt(quadrant, 1));
  return {sinResult, cosResult};
}

Value MathExpansion::tan(Value x) {
  if (target.call)
    return call("tan", {x});
  auto [sine, cosine] = sinCos(x);
  return div(sine, cosine);
}

//===----------------------------------------------------------------------===//
// asin, acos, atan
//===----------------------------------------------------------------------===//

// (asin x - x) / x^3 in x^2, |x| <= 1/2.
static constexpr double kAsin32[] = {0.1666666,     0.07500503571,
                                     0.04451706048, 0.03180694442,
                                     0.01444115201, 0.03751336357};
static constexpr double kAsin64[] = {
    0.1666666666666676044,  0.07499999999970801236, 0.04464285717461027505,
    0.03038194270786740283, 0.02237221498514073834, 0.01735161206067749271,
    0.01398081996578868782, 0.01139891706936829232, 0.01078022547037501283,
    3.70651180409632842e-3, 0.0217071973432953251,  -0.02099871078772839102,
    0.03262840484460121576};
// (atan x - x) / x^3 in x^2, |x| <= tan(pi / 8).
static constexpr double kAtan32[] = {-0.333333152, 0.1999847188, -0.1424353755,
                                     0.1059382727, -0.06078220572};
static constexpr double kAtan64[] = {
    -0.3333333333333332746,  0.1999999999999764951,   -0.1428571428538590173,
    0.1111111108806593824,   -0.09090908141113336777, 0.07692282693945742035,
    -0.06666225967273470281, 0.05877015521765963788,  -0.05218372498131968082,
    0.04503451218295654859,  -0.03347283946473113943, 0.01519413352587082909};

Value MathExpansion::asinCore(Value x) {
  Value square = mul(x, x);
  Value tail =
      polynomial(square, isDouble(x.getType()) ? ArrayRef<double>(kAsin64)
                                               : ArrayRef<double>(kAsin32));
  return fma(mul(x, square), tail, x);
}

Value MathExpansion::asin(Value x) {
  if (target.call)
    return call("asin", {x});
  auto [high, low] = split(kHalfPi[0], kHalfPi[1], x.getType());
  Value a = abs(x);
  Value large = compare(CmpFPredicate::OGT, a, 0.5);
  Value half = mul(sub(constant(x.getType(), 1.0), a), 0.5);
  Value core = asinCore(select(large, sqrt(half), a));
  Value complement =
      sub(constant(x.getType(), high), sub(add(core, core), low));
  return copySign(select(large, complement, core), x);
}

Value MathExpansion::acos(Value x) {
  if (target.call)
    return call("acos", {x});
  Type type = x.getType();
  auto [high, low] = split(kHalfPi[0], kHalfPi[1], type);
  Value a = abs(x);
  Value large = compare(CmpFPredicate::OGT, a, 0.5);
  Value half = mul(sub(constant(type, 1.0), a), 0.5);
  Value core = asinCore(select(large, sqrt(half), a));
  Value twice = add(core, core);
  // Near -1: pi - 2 core; near 1: 2 core; between: pi / 2 - asin x.
  Value farSide = sub(constant(type, 2 * high), sub(twice, 2 * low));
  Value outer = select(compare(CmpFPredicate::OLT, x, 0.0), farSide, twice);
  Value inner = sub(constant(type, high), sub(copySign(core, x), low));
  return select(large, outer, inner);
}

Value MathExpansion::atan(Value x) {
  if (target.call)
    return call("atan", {x});
  Type type = x.getType();
  auto [high, low] = split(kHalfPi[0], kHalfPi[1], type);
  Value a = abs(x);
  Value one = constant(type, 1.0);
  Value middle = compare(CmpFPredicate::OGT, a, 0.41421356237309503);
  Value outer = compare(CmpFPredicate::OGT, a, 2.4142135623730951);
  Value numerator = select(outer, -1.0, select(middle, sub(a, one), a));
  Value denominator = select(outer, a, select(middle, add(a, one), one));
  Value t = div(numerator, denominator);
  Value square = mul(t, t);
  Value tail = polynomial(square, isDouble(type) ? ArrayRef<double>(kAtan64)
                                                 : ArrayRef<double>(kAtan32));
  Value core = fma(mul(t, square), tail, t);
  Value zero = constant(type, 0.0);
  Value baseHigh = select(outer, high, select(middle, high / 2, zero));
  Value baseLow = select(outer, low, select(middle, low / 2, zero));
  return copySign(add(baseHigh, add(core, baseLow)), x);
}

Value MathExpansion::atan2(Value y, Value x) {
  if (target.call)
    return call("atan2", {y, x});
  Type type = x.getType();
  Value one = constant(type, 1.0);
  Value a = abs(x), c = abs(y);
  double infinity = std::numeric_limits<double>::infinity();
  Value bothInfinite =
      arith::AndIOp::create(b, loc, compare(CmpFPredicate::OEQ, a, infinity),
                            compare(CmpFPredicate::OEQ, c, infinity));
  // Sums of large numbers would overflow; what a factor takes from a small
  // partner of theirs is below the least number once divided.
  double large = isDouble(type) ? 0x1p1000 : 0x1p100;
  Value isLarge =
      arith::OrIOp::create(b, loc, compare(CmpFPredicate::OGT, a, large),
                           compare(CmpFPredicate::OGT, c, large));
  Value factor = select(isLarge, 0.25, one);
  a = select(bothInfinite, 1.0, mul(a, factor));
  c = select(bothInfinite, 1.0, mul(c, factor));

  // As atan(c / a) above, with one division.
  Value middle = compare(CmpFPredicate::OGT, c, mul(a, 0.41421356237309503));
  Value outer = compare(CmpFPredicate::OGT, c, mul(a, 2.4142135623730951));
  Value numerator = select(outer, neg(a), select(middle, sub(c, a), c));
  Value denominator = select(outer, c, select(middle, add(c, a), a));
  denominator =
      select(compare(CmpFPredicate::OEQ, denominator, 0.0), one, denominator);
  Value t = div(numerator, denominator);
  Value square = mul(t, t);
  Value tail = polynomial(square, isDouble(type) ? ArrayRef<double>(kAtan64)
                                                 : ArrayRef<double>(kAtan32));
  Value core = fma(mul(t, square), tail, t);

  // On the side of negative x the angle is pi minus that.
  Value negative =
      compare(CmpIPredicate::slt, bits(x), integer(bits(x).getType(), 0));
  core = select(negative, neg(core), core);
  auto base = [&](double quarters) {
    double high = quarters * kHalfPi[0] / 2;
    double rest = std::fma(quarters / 2, kHalfPi[0], -high);
    auto parts = split(high, quarters * kHalfPi[1] / 2 + rest, type);
    return std::pair(constant(type, parts.first), constant(type, parts.second));
  };
  auto [zeroHigh, zeroLow] = base(0);
  auto [quarterHigh, quarterLow] = base(1);
  auto [halfHigh, halfLow] = base(2);
  auto [threeHigh, threeLow] = base(3);
  auto [piHigh, piLow] = base(4);
  auto choose = [&](Value half, Value quarter, Value three, Value zero,
                    Value pi) {
    return select(outer, half,
                  select(middle, select(negative, three, quarter),
                         select(negative, pi, zero)));
  };
  Value high = choose(halfHigh, quarterHigh, threeHigh, zeroHigh, piHigh);
  Value low = choose(halfLow, quarterLow, threeLow, zeroLow, piLow);
  return copySign(add(high, add(core, low)), y);
}

//===----------------------------------------------------------------------===//
// Hyperbolic functions
//===----------------------------------------------------------------------===//

// (sinh x - x) / x^3 in x^2, |x| <= 1.
static constexpr double kSinh32[] = {0.166666665, 8.333350056e-3, 1.98361598e-4,
                                     2.816952235e-6};
static constexpr double kSinh64[] = {
    0.1666666666666666667,    8.333333333333333549e-3, 1.984126984126960003e-4,
    2.755731922411628897e-6,  2.505210834650917318e-8, 1.605905060123979764e-10,
    7.646482897150205317e-13, 2.848232973173515068e-15};
// (tanh x - x) / x^3 in x^2, |x| <= 0.56.
static constexpr double kTanh32[] = {-0.3333333259,   0.133332866,
                                     -0.05395845895,  0.02177419964,
                                     -8.385884822e-3, 2.362114806e-3};
static constexpr double kTanh64[] = {
    -0.3333333333333333156,   0.1333333333333294794,
    -0.05396825396796082339,  0.02186948852495429263,
    -8.863235278588557892e-3, 3.592124437075125138e-3,
    -1.455799880906022086e-3, 5.898004817563599593e-4,
    -2.380972219102663241e-4, 9.370198987884071611e-5,
    -3.262113256352412156e-5, 7.253193698795153805e-6};

Value MathExpansion::sinh(Value x) {
  if (target.call)
    return call("sinh", {x});
  Value a = abs(x), square = mul(x, x);
  Value tail =
      polynomial(square, isDouble(x.getType()) ? ArrayRef<double>(kSinh64)
                                               : ArrayRef<double>(kSinh32));
  Value small = fma(mul(x, square), tail, x);
  Value half = expScaled(a, -1);
  Value large = sub(half, div(constant(x.getType(), 0.25), half));
  return select(compare(CmpFPredicate::OLT, a, 1.0), small, copySign(large, x));
}

Value MathExpansion::cosh(Value x) {
  if (target.call)
    return call("cosh", {x});
  Value half = expScaled(abs(x), -1);
  return add(half, div(constant(x.getType(), 0.25), half));
}

Value MathExpansion::tanh(Value x) {
  if (target.call)
    return call("tanh", {x});
  Value a = abs(x), square = mul(x, x);
  Value tail =
      polynomial(square, isDouble(x.getType()) ? ArrayRef<double>(kTanh64)
                                               : ArrayRef<double>(kTanh32));
  Value small = fma(mul(x, square), tail, x);
  // 1 - 2 / (e^2a + 1), which is 1 long before 20.
  Value clamped = select(compare(CmpFPredicate::OGT, a, 20.0), 20.0, a);
  Value power = expScaled(add(clamped, clamped), 0);
  Value one = constant(x.getType(), 1.0);
  Value large = sub(one, div(constant(x.getType(), 2.0), add(power, one)));
  return select(compare(CmpFPredicate::OLT, a, 0.55), small,
                copySign(large, x));
}

Value MathExpansion::asinh(Value x) {
  if (target.call)
    return call("asinh", {x});
  Type type = x.getType();
  Value a = abs(x), square = mul(a, a);
  Value one = constant(type, 1.0);
  // Beyond this log(2 a) has no error left, and the square could overflow.
  Value large =
      compare(CmpFPredicate::OGT, a, isDouble(type) ? 0x1p28 : 0x1p13);
  Value sum = add(a, div(square, add(one, sqrt(add(square, one)))));
  Value result = log1p(select(large, sub(a, one), sum));
  result = select(large, add(result, kLn2), result);
  return copySign(result, x);
}

Value MathExpansion::acosh(Value x) {
  if (target.call)
    return call("acosh", {x});
  Type type = x.getType();
  Value t = sub(x, 1.0);
  Value large =
      compare(CmpFPredicate::OGT, x, isDouble(type) ? 0x1p28 : 0x1p13);
  Value sum = add(t, sqrt(mul(t, add(t, 2.0))));
  Value result = log1p(select(large, t, sum));
  result = select(large, add(result, kLn2), result);
  // Far below 1 the sum above is a number again.
  return select(compare(CmpFPredicate::OLT, x, 1.0), kNan, result);
}

Value MathExpansion::atanh(Value x) {
  if (target.call)
    return call("atanh", {x});
  Value a = abs(x);
  Value ratio = div(add(a, a), sub(constant(x.getType(), 1.0), a));
  return copySign(mul(log1p(ratio), 0.5), x);
}
