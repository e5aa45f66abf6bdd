//===- MathSymbol.h - symbolic numbers for the math library -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Argument type with which the compiler instantiates the functions of
// lib/Target/Math: each operation appends an op at the insertion point. Lanes
// of a vector do not branch: choose computes both sides.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_MATHSYMBOL_H
#define MPC_LIB_TARGET_KERNEL_MATHSYMBOL_H

#include "MathExpansion.h"

#include "../Math/Short.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include "llvm/ADT/bit.h"

#include <type_traits>

namespace mpc {

/// A value with elements of type T - float, double, a word of their sizes or
/// bool -, or a constant, which adopts the shape of the other operand.
template <typename T> struct Symbol {
  static constexpr bool isFloat = std::is_floating_point_v<T>;

  Symbol() = default;
  explicit Symbol(T constant) : constant(constant) {}
  Symbol(MathExpansion &math, mlir::Value value) : math(&math), value(value) {}
  /// Converts between float or word widths.
  template <typename U> explicit Symbol(Symbol<U> x) : math(x.math) {
    mlir::Type element = elementType(*math);
    if constexpr (sizeof(T) > sizeof(U))
      value = isFloat ? math->extendFloat(x.value, element)
                      : math->extendUnsigned(x.value, element);
    else
      value = isFloat ? math->truncateFloat(x.value, element)
                      : math->truncateInt(x.value, element);
  }

  static mlir::Type elementType(MathExpansion &math) {
    mlir::OpBuilder &b = math.getBuilder();
    if constexpr (isFloat)
      return sizeof(T) == 4 ? mlir::Type(b.getF32Type()) : b.getF64Type();
    return b.getIntegerType(8 * sizeof(T));
  }

  MathExpansion *math = nullptr;
  mlir::Value value;
  T constant = {};
};

namespace detail {
template <typename T> struct FloatFormat<Symbol<T>> : FloatFormat<T> {
  using Word = Symbol<typename FloatFormat<T>::Word>;
  using Wide = Symbol<double>;
};

/// Materializes a constant in the shape of `other`.
template <typename T, typename U>
Symbol<T> inShapeOf(Symbol<U> other, Symbol<T> x) {
  if (x.value)
    return x;
  x.math = other.math;
  mlir::Type type =
      ValueMath::withElement(other.value.getType(), x.elementType(*x.math));
  x.value = Symbol<T>::isFloat
                ? x.math->constant(type, static_cast<double>(x.constant))
                : x.math->integer(type, static_cast<int64_t>(x.constant));
  return x;
}
/// Applies `build` to the values of x and y.
template <typename To, typename T, typename Build>
Symbol<To> join(Symbol<T> x, Symbol<T> y, Build build) {
  Symbol<T> shape = x.value ? x : y;
  return {*shape.math, build(*shape.math, inShapeOf(shape, x).value,
                             inShapeOf(shape, y).value)};
}
} // namespace detail

//===----------------------------------------------------------------------===//
// Operators: of constants alone there are -, << and floatOf
//===----------------------------------------------------------------------===//

#define MPC_OPERATOR(sign, To, expression)                                     \
  template <typename T>                                                        \
  Symbol<To> operator sign(Symbol<T> left, Symbol<T> right) {                  \
    return detail::join<To>(left, right,                                       \
                            [](MathExpansion &m, mlir::Value x,                \
                               mlir::Value y) { return expression; });         \
  }
#define MPC_COMPARISON(sign, ofFloats, ofWords)                                \
  MPC_OPERATOR(sign, bool,                                                     \
               Symbol<T>::isFloat                                              \
                   ? m.compare(mlir::arith::CmpFPredicate::ofFloats, x, y)     \
                   : m.compare(mlir::arith::CmpIPredicate::ofWords, x, y))
MPC_OPERATOR(+, T, m.add(x, y))
MPC_OPERATOR(-, T, m.sub(x, y))
MPC_OPERATOR(*, T, m.mul(x, y))
MPC_OPERATOR(/, T, m.div(x, y))
MPC_OPERATOR(&, T, m.bitAnd(x, y))
MPC_OPERATOR(|, T, m.bitOr(x, y))
MPC_OPERATOR(^, T, m.bitXor(x, y))
MPC_OPERATOR(&&, bool, m.bitAnd(x, y))
MPC_OPERATOR(||, bool, m.bitOr(x, y))
MPC_OPERATOR(>>, T, m.shiftRight(x, y))
MPC_COMPARISON(<, OLT, ult)
MPC_COMPARISON(>, OGT, ugt)
MPC_COMPARISON(>=, OGE, uge)
MPC_COMPARISON(==, OEQ, eq)
MPC_COMPARISON(!=, UNE, ne)
#undef MPC_COMPARISON
#undef MPC_OPERATOR

template <typename T> Symbol<T> operator-(Symbol<T> x) {
  if (!x.value)
    return Symbol<T>(-x.constant);
  return {*x.math, x.math->neg(x.value)};
}
template <typename T> Symbol<T> operator<<(Symbol<T> x, int bits) {
  if (!x.value)
    return Symbol<T>(x.constant << bits);
  return {*x.math, x.math->shiftLeft(x.value, bits)};
}
template <typename T> Symbol<T> operator>>(Symbol<T> x, int bits) {
  return {*x.math, x.math->shiftRight(x.value, bits)};
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

#define MPC_FUNCTION_1(name, To, expression)                                   \
  template <typename T> Symbol<To> name(Symbol<T> x) {                         \
    return {*x.math, x.math->expression};                                      \
  }
MPC_FUNCTION_1(abs, T, abs(x.value))
MPC_FUNCTION_1(sqrt, T, sqrt(x.value))
MPC_FUNCTION_1(trunc, T, truncate(x.value))
MPC_FUNCTION_1(bitsOf, typename detail::FloatFormat<T>::Word, bits(x.value))
MPC_FUNCTION_1(isNegative, bool,
               compare(mlir::arith::CmpIPredicate::slt, x.value, 0))
#undef MPC_FUNCTION_1

/// Reinterprets a word as the float of its size.
template <typename T>
using FloatLike = std::conditional_t<sizeof(T) == 4, float, double>;
template <typename T> Symbol<FloatLike<T>> floatOf(Symbol<T> x) {
  if (!x.value)
    return Symbol<FloatLike<T>>(llvm::bit_cast<FloatLike<T>>(x.constant));
  return {*x.math, x.math->fromBits(
                       x.value, Symbol<FloatLike<T>>::elementType(*x.math))};
}
template <typename T> Symbol<FloatLike<T>> signedToFloat(Symbol<T> x) {
  return {*x.math,
          x.math->toFloat(x.value, Symbol<FloatLike<T>>::elementType(*x.math))};
}
template <typename T> Symbol<T> shiftSigned(Symbol<T> x, int bits) {
  return {*x.math, x.math->shiftRightSigned(x.value, bits)};
}
template <typename T> Symbol<T> copySign(Symbol<T> x, Symbol<T> sign) {
  return {*x.math, x.math->copySign(x.value, sign.value)};
}
template <typename T> Symbol<T> fma(Symbol<T> x, Symbol<T> y, Symbol<T> z) {
  Symbol<T> shape = x.value ? x : y.value ? y : z;
  return {*shape.math, shape.math->fma(detail::inShapeOf(shape, x).value,
                                       detail::inShapeOf(shape, y).value,
                                       detail::inShapeOf(shape, z).value)};
}

template <typename T>
Symbol<T> select(Symbol<bool> condition, Symbol<T> x, Symbol<T> y) {
  MathExpansion &m = *condition.math;
  return {m, m.select(condition.value, detail::inShapeOf(condition, x).value,
                      detail::inShapeOf(condition, y).value)};
}
template <typename F, typename G>
auto choose(Symbol<bool> condition, F onTrue, G onFalse) {
  auto x = onTrue();
  return select(condition, x, onFalse());
}

/// Computes onTrue in a branch taken if any lane needs it.
template <typename F, typename G>
auto chooseRarely(Symbol<bool> condition, F onTrue, G onFalse) {
  MathExpansion &m = *condition.math;
  mlir::OpBuilder &b = m.getBuilder();
  mlir::Value any = m.any(condition.value);
  auto angle = onFalse();
  auto choice = mlir::scf::IfOp::create(
      b, m.getLoc(), any,
      [&](mlir::OpBuilder &, mlir::Location loc) {
        auto rare = onTrue();
        mlir::Value rest = select(condition, rare.rest, angle.rest).value;
        mlir::Value quadrant =
            select(condition, rare.quadrant, angle.quadrant).value;
        mlir::scf::YieldOp::create(b, loc, mlir::ValueRange{rest, quadrant});
      },
      [&](mlir::OpBuilder &, mlir::Location loc) {
        mlir::scf::YieldOp::create(
            b, loc, mlir::ValueRange{angle.rest.value, angle.quadrant.value});
      });
  angle.rest.value = choice.getResult(0);
  angle.quadrant.value = choice.getResult(1);
  return angle;
}

/// Returns the smaller one; a NaN if `x` is NaN.
template <typename T> Symbol<T> minimum(Symbol<T> x, Symbol<T> y) {
  return select(x > y, y, x);
}
template <typename T> Symbol<T> exp2Fast(Symbol<T> x) {
  return detail::exp2OfNormal(x);
}
template <typename T> bool scalesAtOnce(Symbol<T> x) {
  return x.math->usesScalef(x.value.getType());
}
template <typename T> Symbol<T> scaleAtOnce(Symbol<T> x, Symbol<T> n) {
  return {*x.math, x.math->scalef(x.value, n.value)};
}

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_MATHSYMBOL_H
