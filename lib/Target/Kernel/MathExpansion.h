//===- MathExpansion.h - inline mathematical functions ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions of f32 and f64 scalars and vectors: by the target's own functions
// where it has them, else as arithmetic without branches that lanes could take
// apart: no call of a mathematical library is ever made. Polynomials are
// minimax fits (Remez) to the function named beside them. Errors in units in
// the last place of f32: exp, log, sigmoid, tanh, erf below 2, atan2 3, all
// others at most 4; f64 functions are within about 1e-15 relative; sin, cos and
// tan hold this for arguments below 2^30 in magnitude.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_MATHEXPANSION_H
#define MPC_LIB_TARGET_KERNEL_MATHEXPANSION_H

#include "ElementTarget.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mpc {

/// Arithmetic on scalars and vectors alike at a builder's insertion point.
class ValueMath {
public:
  ValueMath(mlir::OpBuilder &builder, mlir::Location loc)
      : b(builder), loc(loc) {}

  mlir::OpBuilder &getBuilder() { return b; }
  mlir::Location getLoc() const { return loc; }

  /// A float (integer) constant of `type`, a scalar or vector type.
  mlir::Value constant(mlir::Type type, double value);
  mlir::Value integer(mlir::Type type, int64_t value);

  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value sub(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, mlir::Value y);
  mlir::Value div(mlir::Value x, mlir::Value y);
  mlir::Value add(mlir::Value x, double y) {
    return add(x, constant(x.getType(), y));
  }
  mlir::Value sub(mlir::Value x, double y) {
    return sub(x, constant(x.getType(), y));
  }
  mlir::Value mul(mlir::Value x, double y) {
    return mul(x, constant(x.getType(), y));
  }
  mlir::Value fma(mlir::Value x, mlir::Value y, mlir::Value z);
  mlir::Value fma(mlir::Value x, double y, mlir::Value z) {
    return fma(x, constant(x.getType(), y), z);
  }
  mlir::Value neg(mlir::Value x);
  mlir::Value abs(mlir::Value x);
  mlir::Value sqrt(mlir::Value x);
  mlir::Value truncate(mlir::Value x);
  mlir::Value copySign(mlir::Value magnitude, mlir::Value sign);

  mlir::Value compare(mlir::arith::CmpFPredicate predicate, mlir::Value x,
                      mlir::Value y);
  mlir::Value compare(mlir::arith::CmpFPredicate predicate, mlir::Value x,
                      double y) {
    return compare(predicate, x, constant(x.getType(), y));
  }
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value x,
                      mlir::Value y);
  mlir::Value select(mlir::Value condition, mlir::Value onTrue,
                     mlir::Value onFalse);
  mlir::Value select(mlir::Value condition, double onTrue,
                     mlir::Value onFalse) {
    return select(condition, constant(onFalse.getType(), onTrue), onFalse);
  }

  // Integers.
  mlir::Value addInt(mlir::Value x, mlir::Value y);
  mlir::Value subInt(mlir::Value x, mlir::Value y);
  mlir::Value addInt(mlir::Value x, int64_t y) {
    return addInt(x, integer(x.getType(), y));
  }
  mlir::Value bitAnd(mlir::Value x, mlir::Value y);
  mlir::Value bitOr(mlir::Value x, mlir::Value y);
  mlir::Value bitXor(mlir::Value x, mlir::Value y);
  mlir::Value bitAnd(mlir::Value x, int64_t y) {
    return bitAnd(x, integer(x.getType(), y));
  }
  mlir::Value bitOr(mlir::Value x, int64_t y) {
    return bitOr(x, integer(x.getType(), y));
  }
  mlir::Value bitXor(mlir::Value x, int64_t y) {
    return bitXor(x, integer(x.getType(), y));
  }
  mlir::Value shiftLeft(mlir::Value x, int64_t bits);
  mlir::Value shiftRight(mlir::Value x, int64_t bits);
  mlir::Value shiftRightSigned(mlir::Value x, int64_t bits);

  /// The integer of the float's width that has the same bits, and back.
  mlir::Value bits(mlir::Value x);
  mlir::Value fromBits(mlir::Value x, mlir::Type floatType);

  /// The value in another element width.
  mlir::Value extendFloat(mlir::Value x, mlir::Type element);
  mlir::Value truncateFloat(mlir::Value x, mlir::Type element);
  mlir::Value extendUnsigned(mlir::Value x, mlir::Type element);
  mlir::Value extendSigned(mlir::Value x, mlir::Type element);
  mlir::Value truncateInt(mlir::Value x, mlir::Type element);

  /// f64 to f32, the lost bits joined into the last one, so that a second
  /// rounding to at most 22 bits is the rounding of the f64 value.
  mlir::Value truncateToOdd(mlir::Value x);
  /// Rounds an f32 to bf16 (ties to even), kept as f32.
  mlir::Value roundToBf16(mlir::Value x);
  /// Rounds an f32 to f16, kept as f32.
  mlir::Value roundToF16(mlir::Value x);

  /// `type` with another element type.
  static mlir::Type withElement(mlir::Type type, mlir::Type element);
  static bool isDouble(mlir::Type type) {
    return mlir::getElementTypeOrSelf(type).isF64();
  }

protected:
  /// c[0] + x * (c[1] + x * ...).
  mlir::Value polynomial(mlir::Value x, llvm::ArrayRef<double> coefficients);

  mlir::OpBuilder &b;
  mlir::Location loc;
};

/// The functions. Arguments are f32 or f64, scalar or vector.
class MathExpansion : public ValueMath {
public:
  MathExpansion(mlir::OpBuilder &builder, mlir::Location loc,
                const ElementTarget &target = {})
      : ValueMath(builder, loc), target(target) {}

  mlir::Value exp(mlir::Value x) {
    return target.call ? call("exp", x) : expScaled(x, 0);
  }
  /// e^x for x <= 0 (or NaN), as softmax needs it.
  mlir::Value expNonPositive(mlir::Value x);
  mlir::Value expm1(mlir::Value x);
  mlir::Value log(mlir::Value x);
  mlir::Value log1p(mlir::Value x);
  mlir::Value pow(mlir::Value x, mlir::Value y);
  mlir::Value fmod(mlir::Value x, mlir::Value y);

  mlir::Value sin(mlir::Value x) {
    return target.call ? call("sin", x) : sinCos(x).first;
  }
  mlir::Value cos(mlir::Value x) {
    return target.call ? call("cos", x) : sinCos(x).second;
  }
  mlir::Value tan(mlir::Value x);
  mlir::Value asin(mlir::Value x);
  mlir::Value acos(mlir::Value x);
  mlir::Value atan(mlir::Value x);
  /// The angle of the point (x, y); zeros and infinities as C's atan2 has them.
  mlir::Value atan2(mlir::Value y, mlir::Value x);

  mlir::Value sinh(mlir::Value x);
  mlir::Value cosh(mlir::Value x);
  mlir::Value tanh(mlir::Value x);
  mlir::Value asinh(mlir::Value x);
  mlir::Value acosh(mlir::Value x);
  mlir::Value atanh(mlir::Value x);

  mlir::Value sigmoid(mlir::Value x);
  mlir::Value softplus(mlir::Value x);
  mlir::Value erf(mlir::Value x);
  mlir::Value gelu(mlir::Value x);
  mlir::Value geluTanh(mlir::Value x);

protected:
  ElementTarget target;

private:
  /// The target's own function.
  mlir::Value call(llvm::StringRef name, mlir::ValueRange arguments) {
    return target.call(b, loc, name, arguments);
  }
  /// e^(x + low) * 2^bias, |low| far below an ulp of 1.
  mlir::Value expScaled(mlir::Value x, int bias, mlir::Value low = {});
  /// Splits x = n ln 2 + r with |r| <= ln 2 / 2: n as a float, n's bits in the
  /// low part of an integer that also holds the rounding constant, r.
  struct ExpParts {
    mlir::Value n, shifted, rest;
  };
  ExpParts splitExp(mlir::Value x);
  /// e^r - 1 for |r| <= ln 2 / 2.
  mlir::Value expm1Core(mlir::Value r, bool precise);
  /// x * 2^n, n a whole float, by vscalef; null where the target or the type
  /// has none.
  mlir::Value scalef(mlir::Value x, mlir::Value n);
  /// Whether vectors of `type` fill registers that vscalef takes.
  bool usesScalef(mlir::Type type) const;
  /// 2^(n) from the integer n.
  mlir::Value powerOfTwo(mlir::Value n, mlir::Type floatType);
  /// Writes x = 2^n * m with m near 1; subnormals are scaled first.
  std::pair<mlir::Value, mlir::Value> splitLog(mlir::Value x);
  /// log of positive finite x as high + low.
  std::pair<mlir::Value, mlir::Value> logParts(mlir::Value x);
  std::pair<mlir::Value, mlir::Value> sinCos(mlir::Value x);
  /// For f32 of at least 2^32 in magnitude: x = q pi / 2 + r with |r| <= pi /
  /// 4, as (r in f64, i64 that is q in its last two bits). NaN where x is
  /// infinite.
  std::pair<mlir::Value, mlir::Value> reduceLarge(mlir::Value x);
  /// asin on [0, 1/2].
  mlir::Value asinCore(mlir::Value x);
  /// The normal distribution function at -x times e^(x^2 / 2), for x >= 0.
  mlir::Value scaledNormalTail(mlir::Value x);
};

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_MATHEXPANSION_H
