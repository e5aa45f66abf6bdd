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

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mpc {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Builds arithmetic on scalars and vectors at the insertion point.
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
  mlir::Value mulInt(mlir::Value x, mlir::Value y);
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
  mlir::Value shiftRight(mlir::Value x, mlir::Value bits);
  mlir::Value shiftRight(mlir::Value x, int64_t bits) {
    return shiftRight(x, integer(x.getType(), bits));
  }
  mlir::Value shiftRightSigned(mlir::Value x, int64_t bits);

  /// The integer of the float's width that has the same bits, and back.
  mlir::Value bits(mlir::Value x);
  mlir::Value fromBits(mlir::Value x, mlir::Type floatType);

  /// Splits a vector into parts of `lanes`, which divides its length by a power
  /// of two, and concatenates such parts.
  llvm::SmallVector<mlir::Value> partsOf(mlir::Value x, int64_t lanes);
  mlir::Value joined(llvm::SmallVector<mlir::Value> parts);

  /// Conversions to another element width.
  mlir::Value extendFloat(mlir::Value x, mlir::Type element);
  mlir::Value truncateFloat(mlir::Value x, mlir::Type element);
  mlir::Value extendUnsigned(mlir::Value x, mlir::Type element);
  mlir::Value extendSigned(mlir::Value x, mlir::Type element);
  mlir::Value truncateInt(mlir::Value x, mlir::Type element);

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
  mlir::OpBuilder &b;
  mlir::Location loc;
};

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
