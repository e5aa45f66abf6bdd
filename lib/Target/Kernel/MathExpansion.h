//===- MathExpansion.h - inline mathematical functions ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions of f32 and f64 scalars and vectors: the target's own functions if
// available, otherwise those of lib/Target/Math as branch-free arithmetic.
// Never calls a math library.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_MATHEXPANSION_H
#define MPC_LIB_TARGET_KERNEL_MATHEXPANSION_H

#include "../Math/Functions.h"
#include "ElementTarget.h"

#include "mpc/Support/NarrowFloat.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mpc {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Builds arithmetic on scalars and vectors at the insertion point.
class ValueMath {
public:
  ValueMath(mlir::OpBuilder &builder, mlir::Location loc)
      : b(builder), loc(loc) {}

  mlir::OpBuilder &getBuilder() { return b; }
  mlir::Location getLoc() const { return loc; }

  /// A constant of `type`, a scalar or vector type. `integer` takes all 64-bit
  /// integers.
  mlir::Value constant(mlir::Type type, double value);
  mlir::Value integer(mlir::Type type, int64_t value);

  // Floats or integers.
  mlir::Value add(mlir::Value x, mlir::Value y) {
    return ofKind<mlir::arith::AddFOp, mlir::arith::AddIOp>(x, y);
  }
  mlir::Value sub(mlir::Value x, mlir::Value y) {
    return ofKind<mlir::arith::SubFOp, mlir::arith::SubIOp>(x, y);
  }
  mlir::Value mul(mlir::Value x, mlir::Value y) {
    return ofKind<mlir::arith::MulFOp, mlir::arith::MulIOp>(x, y);
  }
  mlir::Value div(mlir::Value x, mlir::Value y, bool isUnsigned = false) {
    return isUnsigned ? make<mlir::arith::DivUIOp>(x, y)
                      : ofKind<mlir::arith::DivFOp, mlir::arith::DivSIOp>(x, y);
  }
  mlir::Value add(mlir::Value x, double y) {
    return add(x, constant(x.getType(), y));
  }
  mlir::Value sub(mlir::Value x, double y) {
    return sub(x, constant(x.getType(), y));
  }
  mlir::Value mul(mlir::Value x, double y) {
    return mul(x, constant(x.getType(), y));
  }
  /// The larger (smaller) one; NaN if one of the floats is NaN.
  mlir::Value extremum(mlir::Value x, mlir::Value y, bool isMaximum,
                       bool isUnsigned = false);
  mlir::Value maximum(mlir::Value x, mlir::Value y) {
    return extremum(x, y, /*isMaximum=*/true);
  }
  mlir::Value minimum(mlir::Value x, mlir::Value y) {
    return extremum(x, y, /*isMaximum=*/false);
  }
  /// The number of `type` that every element is at least as large (small) as.
  mlir::Value extremumIdentity(mlir::Type type, bool isMaximum,
                               bool isUnsigned);

  mlir::Value fma(mlir::Value x, mlir::Value y, mlir::Value z) {
    return make<mlir::math::FmaOp>(x, y, z);
  }
  mlir::Value fma(mlir::Value x, double y, mlir::Value z) {
    return fma(x, constant(x.getType(), y), z);
  }
  mlir::Value neg(mlir::Value x) { return make<mlir::arith::NegFOp>(x); }
  mlir::Value abs(mlir::Value x) { return make<mlir::math::AbsFOp>(x); }
  mlir::Value sqrt(mlir::Value x) { return make<mlir::math::SqrtOp>(x); }
  mlir::Value truncate(mlir::Value x) { return make<mlir::math::TruncOp>(x); }
  mlir::Value copySign(mlir::Value magnitude, mlir::Value sign) {
    return make<mlir::math::CopySignOp>(magnitude, sign);
  }

  mlir::Value compare(mlir::arith::CmpFPredicate predicate, mlir::Value x,
                      mlir::Value y) {
    return make<mlir::arith::CmpFOp>(predicate, x, y);
  }
  mlir::Value compare(mlir::arith::CmpFPredicate predicate, mlir::Value x,
                      double y) {
    return compare(predicate, x, constant(x.getType(), y));
  }
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value x,
                      mlir::Value y) {
    return make<mlir::arith::CmpIOp>(predicate, x, y);
  }
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value x,
                      int64_t y) {
    return compare(predicate, x, integer(x.getType(), y));
  }
  mlir::Value select(mlir::Value condition, mlir::Value onTrue,
                     mlir::Value onFalse) {
    return make<mlir::arith::SelectOp>(condition, onTrue, onFalse);
  }
  mlir::Value select(mlir::Value condition, double onTrue,
                     mlir::Value onFalse) {
    return select(condition, constant(onFalse.getType(), onTrue), onFalse);
  }

  // Integers.
  mlir::Value bitAnd(mlir::Value x, mlir::Value y) {
    return make<mlir::arith::AndIOp>(x, y);
  }
  mlir::Value bitOr(mlir::Value x, mlir::Value y) {
    return make<mlir::arith::OrIOp>(x, y);
  }
  mlir::Value bitXor(mlir::Value x, mlir::Value y) {
    return make<mlir::arith::XOrIOp>(x, y);
  }
  mlir::Value bitAnd(mlir::Value x, int64_t y) {
    return bitAnd(x, integer(x.getType(), y));
  }
  mlir::Value bitOr(mlir::Value x, int64_t y) {
    return bitOr(x, integer(x.getType(), y));
  }
  mlir::Value bitXor(mlir::Value x, int64_t y) {
    return bitXor(x, integer(x.getType(), y));
  }
  mlir::Value shiftLeft(mlir::Value x, int64_t bits) {
    return make<mlir::arith::ShLIOp>(x, integer(x.getType(), bits));
  }
  mlir::Value shiftRight(mlir::Value x, mlir::Value bits) {
    return make<mlir::arith::ShRUIOp>(x, bits);
  }
  mlir::Value shiftRight(mlir::Value x, int64_t bits) {
    return shiftRight(x, integer(x.getType(), bits));
  }
  mlir::Value shiftRightSigned(mlir::Value x, int64_t bits) {
    return make<mlir::arith::ShRSIOp>(x, integer(x.getType(), bits));
  }
  /// Whether `condition` holds in any lane.
  mlir::Value any(mlir::Value condition);

  /// The integer of the float's width that has the same bits, and back.
  mlir::Value bits(mlir::Value x);
  mlir::Value fromBits(mlir::Value x, mlir::Type floatType) {
    return convert<mlir::arith::BitcastOp>(
        x, mlir::getElementTypeOrSelf(floatType));
  }

  // Lanes.
  /// Broadcasts a scalar to `lanes`; vectors, and scalars for one lane, as they
  /// are.
  mlir::Value splat(mlir::Value value, int64_t lanes);
  /// `start`, `start` + 1, ... in `lanes` lanes; a scalar for one lane.
  mlir::Value countFrom(mlir::Value start, int64_t lanes);
  mlir::Value shuffle(mlir::Value x, mlir::Value y,
                      llvm::ArrayRef<int64_t> order) {
    return make<mlir::vector::ShuffleOp>(x, y, order);
  }
  /// The bits of a vector as one of `element`, with as many lanes as fit.
  mlir::Value reinterpret(mlir::Value vector, mlir::Type element);
  /// Splits a vector into parts of `lanes`, which divides its length by a power
  /// of two, and concatenates such parts.
  llvm::SmallVector<mlir::Value> partsOf(mlir::Value x, int64_t lanes);
  mlir::Value joined(llvm::SmallVector<mlir::Value> parts);

  /// Conversions to another element type.
  mlir::Value extendFloat(mlir::Value x, mlir::Type element) {
    return convert<mlir::arith::ExtFOp>(x, element);
  }
  mlir::Value truncateFloat(mlir::Value x, mlir::Type element) {
    return convert<mlir::arith::TruncFOp>(x, element);
  }
  mlir::Value extendUnsigned(mlir::Value x, mlir::Type element) {
    return convert<mlir::arith::ExtUIOp>(x, element);
  }
  mlir::Value extendSigned(mlir::Value x, mlir::Type element) {
    return convert<mlir::arith::ExtSIOp>(x, element);
  }
  mlir::Value extendInt(mlir::Value x, mlir::Type element, bool isUnsigned) {
    return isUnsigned ? extendUnsigned(x, element) : extendSigned(x, element);
  }
  mlir::Value truncateInt(mlir::Value x, mlir::Type element) {
    return convert<mlir::arith::TruncIOp>(x, element);
  }
  mlir::Value toFloat(mlir::Value x, mlir::Type element,
                      bool isUnsigned = false) {
    return isUnsigned ? convert<mlir::arith::UIToFPOp>(x, element)
                      : convert<mlir::arith::SIToFPOp>(x, element);
  }
  /// Truncates numbers in the range of the signed type `element`.
  mlir::Value toInt(mlir::Value x, mlir::Type element) {
    return convert<mlir::arith::FPToSIOp>(x, element);
  }
  /// Between an index and an integer.
  mlir::Value castIndex(mlir::Value x, mlir::Type type) {
    return make<mlir::arith::IndexCastOp>(type, x);
  }
  /// An f64 accumulator as f32, or to be rounded to the narrower type
  /// `element`; others as they are.
  mlir::Value narrowDouble(mlir::Value x, mlir::Type element);

  /// Calls an LLVM intrinsic.
  mlir::Value intrinsic(llvm::StringRef name, mlir::Type type,
                        mlir::ValueRange operands);

  /// f64 to f32, rounded to odd, so that a second rounding to at most 22 bits
  /// equals rounding the f64 value directly.
  mlir::Value truncateToOdd(mlir::Value x);
  /// Rounds an f32 to bf16 (ties to even), represented as f32.
  mlir::Value roundToBf16(mlir::Value x);
  /// An f32 value that is exact in bf16, and its 16 bits.
  struct Bf16 {
    mlir::Value wide, pattern;
  };
  /// roundToBf16 with the conversion instruction of the vector unit if `x` is a
  /// suitable vector without subnormal numbers (ElementTarget::roundsToBf16);
  /// the bits are equal. `permutes`: see widenBf16.
  Bf16 roundToBf16ByUnit(mlir::Value x, bool permutes);
  /// Upconverts bits of bf16 to f32; `permutes`: full vectors by one
  /// permutation (ElementTarget::permutesWords).
  mlir::Value widenBf16(mlir::Value pattern, bool permutes);
  /// Rounds an f32 to f16, represented as f32.
  mlir::Value roundToF16(mlir::Value x);

  /// `type` with another element type.
  static mlir::Type withElement(mlir::Type type, mlir::Type element);
  static bool isDouble(mlir::Type type) {
    return mlir::getElementTypeOrSelf(type).isF64();
  }

protected:
  template <typename Op, typename... Arguments>
  mlir::Value make(Arguments... arguments) {
    return Op::create(b, loc, arguments...);
  }
  template <typename OfFloats, typename OfIntegers>
  mlir::Value ofKind(mlir::Value x, mlir::Value y) {
    bool isFloat =
        mlir::isa<mlir::FloatType>(mlir::getElementTypeOrSelf(x.getType()));
    return isFloat ? make<OfFloats>(x, y) : make<OfIntegers>(x, y);
  }
  template <typename Op>
  mlir::Value convert(mlir::Value x, mlir::Type element) {
    return make<Op>(withElement(x.getType(), element), x);
  }

  mlir::OpBuilder &b;
  mlir::Location loc;
};

/// Decodes codes (i8) of `format` to f32, as NarrowFloat::decode.
mlir::Value decodeFloat(ValueMath &math, mlir::Value code,
                        const NarrowFloat &format, bool mayBeNaN = true);
/// Encodes f32 numbers, as NarrowFloat::encode; `random` (i32) is null without
/// stochastic rounding.
mlir::Value encodeFloat(ValueMath &math, mlir::Value x,
                        const NarrowFloat &format, bool saturate,
                        NarrowFloat::Rounding rounding, mlir::Value random);

/// The functions. Arguments are f32 or f64, scalar or vector.
class MathExpansion : public ValueMath {
public:
  MathExpansion(mlir::OpBuilder &builder, mlir::Location loc,
                const ElementTarget &target = {})
      : ValueMath(builder, loc), target(target) {}

#define MPC_DECLARE_1(name) mlir::Value name(mlir::Value x);
#define MPC_DECLARE_2(name) mlir::Value name(mlir::Value x, mlir::Value y);
  MPC_MATH_1(MPC_DECLARE_1)
  MPC_MATH_2(MPC_DECLARE_2)
#undef MPC_DECLARE_1
#undef MPC_DECLARE_2
  /// e^x for x <= 0 (or NaN), as softmax needs it.
  mlir::Value expNonPositive(mlir::Value x);
  mlir::Value fmod(mlir::Value x, mlir::Value y);
  /// gelu with a result that is only used rounded to the 16-bit type `seen`,
  /// for which a target's function may be shorter; null: none.
  mlir::Value geluSeenIn(mlir::Value x, mlir::Type seen);
  /// Calls the target's function of this name, which only some targets have.
  mlir::Value call(llvm::StringRef name, mlir::Value x) {
    return target.call(b, loc, name, x);
  }

  /// Returns true if vectors of `type` fill registers that vscalef supports.
  bool usesScalef(mlir::Type type) const;
  /// x * 2^n with integral n, for such vectors.
  mlir::Value scalef(mlir::Value x, mlir::Value n);

protected:
  ElementTarget target;

private:
  /// Calls the target's own function of that name, else expands `function`.
  template <typename Function, typename... Values>
  mlir::Value expand(llvm::StringRef name, Function function, mlir::Value x,
                     Values... y);
};

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_MATHEXPANSION_H
