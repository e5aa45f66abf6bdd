//===- MathExpansionSpecial.cpp - sigmoid, erf, pow, fmod -----------------===//
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

static constexpr double kInfinity = std::numeric_limits<double>::infinity();
static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

Value MathExpansion::sigmoid(Value x) {
  if (target.call)
    return call("sigmoid", {x});
  // The form whose power cannot overflow.
  Value power = exp(neg(abs(x)));
  Value one = constant(x.getType(), 1.0);
  Value numerator = select(compare(CmpFPredicate::OLT, x, 0.0), power, one);
  return div(numerator, add(power, one));
}

Value MathExpansion::softplus(Value x) {
  if (target.call)
    return call("softplus", {x});
  Value zero = constant(x.getType(), 0.0);
  Value positive = select(compare(CmpFPredicate::OGT, x, zero), x, zero);
  return add(positive, log1p(exp(neg(abs(x)))));
}

// erf(x) / x - 1 in x^2, |x| <= 0.93 (f32), 1 (f64).
static constexpr double kErf32[] = {
    0.128379167,    -0.3761263319,   0.1128368723,  -0.02685894277,
    5.199908241e-3, -8.130018934e-4, 8.316768991e-5};
static constexpr double kErf64[] = {
    0.128379167095512574,    -0.3761263890318374762,
    0.1128379167095485791,   -0.02686617064507295925,
    5.223977624781369794e-3, -8.548326978765148816e-4,
    1.20553310375511081e-4,  -1.492559351872822669e-5,
    1.646097295415376567e-6, -1.635002619207726853e-7,
    1.465788353091965352e-8, -1.136567067182715927e-9,
    5.945255584223487435e-11};
// log erfc a on [0.92, 4].
static constexpr double kLogErfc32[] = {
    1.747197189e-4, -1.12951511,     -0.6333465224,  -0.1082805356,
    0.02511973162,  -4.171184642e-3, 4.344889861e-4, -2.10974414e-5};
// (x + c) N(-x) e^(x^2 / 2), N the normal distribution function, in
// q = (x - c) / (x + c): c = 4.25, x <= 14.4 (f32), c = 5.5, x <= 39.6 (f64).
static constexpr double kTail32[] = {
    0.7595542087,    -0.6251298032,  0.4182274945,   -0.2205150462,
    0.08527283268,   -0.01936802787, -7.54533857e-4, 2.185196807e-3,
    -3.587061353e-4, -2.310187214e-4};
static constexpr double kTail64[] = {
    0.7737696342764067674,   -0.6851834205743381129,   0.5355964890624946909,
    -0.3670490652936197945,  0.2178724328579587049,    -0.1097030899587180671,
    0.04509758081490885509,  -0.01392351056568171048,  2.442982674360481058e-3,
    2.696040008961087741e-4, -3.245226508763719224e-4, 7.141485090732494665e-5,
    1.631997952305153577e-5, -1.211889899175785085e-5, 4.463527030062034899e-7,
    1.483864946515360148e-6, -2.677758790880816354e-7, -1.77594743274625143e-7,
    5.025175343422377821e-8, 2.293964483100194936e-8,  -5.653151780572622005e-9,
    -2.580100326645660425e-9};

Value MathExpansion::scaledNormalTail(Value x) {
  bool wide = isDouble(x.getType());
  double center = wide ? 5.5 : 4.25;
  Value one = constant(x.getType(), 1.0);
  Value sum = add(x, center);
  Value inverse = div(one, sum);
  // One Newton step, which also takes in what the sum lost: q enters a
  // polynomial with a steep slope.
  Value lost = sub(x, sub(sum, center));
  Value residual = fma(neg(inverse), lost, fma(neg(inverse), sum, one));
  Value correction = mul(inverse, residual);
  Value q = fma(correction, -2 * center, fma(inverse, -2 * center, one));
  Value scaled = polynomial(q, wide ? ArrayRef<double>(kTail64)
                                    : ArrayRef<double>(kTail32));
  return mul(scaled, add(inverse, correction));
}

Value MathExpansion::erf(Value x) {
  if (target.call)
    return call("erf", {x});
  Type type = x.getType();
  bool wide = isDouble(type);
  Value a = abs(x), square = mul(x, x);
  Value slope = polynomial(square, wide ? ArrayRef<double>(kErf64)
                                        : ArrayRef<double>(kErf32));
  Value small = fma(x, slope, x);
  Value clamped = select(compare(CmpFPredicate::OGT, a, wide ? 6.0 : 4.0),
                         wide ? 6.0 : 4.0, a);
  // erfc(a) = 2 N(-a sqrt 2).
  Value complement = wide ? mul(mul(exp(neg(mul(clamped, clamped))), 2.0),
                                scaledNormalTail(mul(clamped, M_SQRT2)))
                          : exp(polynomial(clamped, kLogErfc32));
  Value large = copySign(sub(constant(type, 1.0), complement), x);
  return select(compare(CmpFPredicate::OLT, a, wide ? 1.0 : 0.92), small,
                large);
}

// (normal distribution function of x - 1/2) / x in x^2, |x| <= 1/2.
static constexpr double kNormal32[] = {0.3989422758, -0.06648983274,
                                       9.963412911e-3, -1.1267634e-3};
static constexpr double kNormal64[] = {
    0.3989422804014326761,   -0.0664903800669045553,  9.973557009966672412e-3,
    -1.18732821343419201e-3, 1.154346578451542876e-4, -9.444420711442593061e-6,
    6.649344076081632614e-7, -3.884557399485947847e-8};

Value MathExpansion::gelu(Value x) {
  if (target.call)
    return call("gelu", {x});
  // x times the distribution function, which comes from its tail at the
  // magnitude, so that the negative side keeps its relative accuracy; near 0
  // from its odd part.
  Type type = x.getType();
  Value slope =
      polynomial(mul(x, x), isDouble(type) ? ArrayRef<double>(kNormal64)
                                           : ArrayRef<double>(kNormal32));
  Value small = mul(x, fma(x, slope, constant(type, 0.5)));
  double bound = isDouble(type) ? 39.5 : 14.4;
  Value a = abs(x);
  a = select(compare(CmpFPredicate::OGT, a, bound), bound, a);
  Value square = mul(a, a);
  Value rest = fma(a, a, neg(square));
  Value power = expScaled(mul(square, -0.5), 0, mul(rest, -0.5));
  // Up there the tail is far below an ulp of x, which may be infinite.
  Value factor = select(compare(CmpFPredicate::OGT, x, bound), bound, x);
  Value part = mul(factor, mul(power, scaledNormalTail(a)));
  Value large = select(compare(CmpFPredicate::OLT, x, 0.0), part, sub(x, part));
  return select(compare(CmpFPredicate::OLT, a, 0.5), small, large);
}

Value MathExpansion::geluTanh(Value x) {
  if (target.call)
    return call("geluTanh", {x});
  // (1 + tanh u) / 2 = sigmoid(2 u).
  Value square = mul(x, x);
  Value factor = fma(square, 0.044715, constant(x.getType(), 1.0));
  Value u = mul(mul(x, 2 * std::sqrt(M_2_PI)), factor);
  return mul(x, sigmoid(u));
}

//===----------------------------------------------------------------------===//
// pow
//===----------------------------------------------------------------------===//

Value MathExpansion::pow(Value x, Value y) {
  if (target.call)
    return call("pow", {x, y});
  Type type = x.getType();
  Value a = abs(x), magnitude;
  if (isDouble(type)) {
    auto [high, low] = logParts(a);
    Value product = mul(y, high);
    Value rest = fma(y, low, fma(y, high, neg(product)));
    Value finite = compare(CmpFPredicate::OLT, abs(product), 800.0);
    magnitude =
        expScaled(product, 0, select(finite, rest, constant(type, 0.0)));
  } else {
    Type f64 = b.getF64Type();
    Value product = mul(extendFloat(y, f64), log(extendFloat(a, f64)));
    magnitude = truncateFloat(exp(product), b.getF32Type());
  }
  Value yNegative = compare(CmpFPredicate::OLT, y, 0.0);
  Value isZero = compare(CmpFPredicate::OEQ, a, 0.0);
  Value isInfinite = compare(CmpFPredicate::OEQ, a, kInfinity);
  Value zero = constant(type, 0.0), infinity = constant(type, kInfinity);
  magnitude = select(isZero, select(yNegative, infinity, zero), magnitude);
  magnitude = select(isInfinite, select(yNegative, zero, infinity), magnitude);
  magnitude = select(compare(CmpFPredicate::OEQ, a, 1.0), 1.0, magnitude);

  Value whole = compare(CmpFPredicate::OEQ, truncate(y), y);
  Value half = mul(y, 0.5);
  Value odd = bitAnd(whole, compare(CmpFPredicate::ONE, truncate(half), half));
  Value pattern = bits(x);
  Value signBit =
      compare(CmpIPredicate::slt, pattern, integer(pattern.getType(), 0));
  Value result = select(bitAnd(odd, signBit), neg(magnitude), magnitude);

  // A negative finite base needs a whole exponent.
  Value negative = bitAnd(compare(CmpFPredicate::OLT, x, 0.0),
                          compare(CmpFPredicate::OGT, x, -kInfinity));
  Value fractional = compare(CmpFPredicate::UNE, truncate(y), y);
  result = select(bitAnd(negative, fractional), kNan, result);
  result = select(compare(CmpFPredicate::UNO, x, y), kNan, result);
  Value unit = bitOr(compare(CmpFPredicate::OEQ, y, 0.0),
                     compare(CmpFPredicate::OEQ, x, 1.0));
  return select(unit, 1.0, result);
}

//===----------------------------------------------------------------------===//
// fmod
//===----------------------------------------------------------------------===//

Value MathExpansion::fmod(Value x, Value y) {
  if (target.call)
    return call("rem", {x, y});
  if (!isDouble(x.getType())) {
    Value wide =
        fmod(extendFloat(x, b.getF64Type()), extendFloat(y, b.getF64Type()));
    return truncateFloat(wide, b.getF32Type());
  }
  Type type = x.getType();
  Value zero = constant(type, 0.0), one = constant(type, 1.0);
  Value valid = bitAnd(compare(CmpFPredicate::OLT, abs(x), kInfinity),
                       compare(CmpFPredicate::OGT, abs(y), 0.0));
  Value start = select(valid, abs(x), zero),
        divisor = select(valid, abs(y), one);

  // Exponents; a subnormal divisor is normalised to get its own.
  Value subnormal = compare(CmpFPredicate::OLT, divisor, 0x1p-1022);
  Value normal = select(subnormal, mul(divisor, 0x1p54), divisor);
  Value exponent = shiftRight(bits(normal), 52);
  exponent = select(subnormal, addInt(exponent, -54), exponent);

  // Each round takes whole multiples of divisor * 2^k away, at most 2^41 of
  // them: the quotient and the remainder are exact.
  auto loop = scf::WhileOp::create(
      b, loc, TypeRange{type}, ValueRange{start},
      [&](OpBuilder &, Location, ValueRange state) {
        Value more = compare(CmpFPredicate::OGE, state[0], divisor);
        if (isa<VectorType>(type))
          more = vector::ReductionOp::create(b, loc, vector::CombiningKind::OR,
                                             more);
        scf::ConditionOp::create(b, loc, more, state);
      },
      [&](OpBuilder &, Location, ValueRange state) {
        Value rest = state[0];
        Value k = addInt(subInt(shiftRight(bits(rest), 52), exponent), -40);
        Value none = integer(k.getType(), 0);
        k = select(compare(CmpIPredicate::sgt, k, none), k, none);
        Value half = shiftRight(k, 1);
        Value step = mul(divisor, powerOfTwo(half, type));
        step = mul(step, powerOfTwo(subInt(k, half), type));
        Value quotient = truncate(div(rest, step));
        Value next = fma(neg(quotient), step, rest);
        // The division may have rounded up to the next whole number.
        next = select(compare(CmpFPredicate::OLT, next, zero), add(next, step),
                      next);
        // Lanes that are done stay, also those whose divisor is infinite.
        next = select(compare(CmpFPredicate::OGE, rest, divisor), next, rest);
        scf::YieldOp::create(b, loc, next);
      });
  return select(valid, copySign(loop.getResult(0), x), constant(type, kNan));
}
