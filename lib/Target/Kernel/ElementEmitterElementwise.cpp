//===- ElementEmitterElementwise.cpp - elementwise ops and casts ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ElementEmitter.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;
using arith::CmpIPredicate;
using Request = ElementEmitter::Request;

namespace {
/// One elementwise op on carried values.
class Elementwise : public MathExpansion {
public:
  Elementwise(ElementEmitter &emitter, Operation *op, ArrayRef<Value> operands)
      : MathExpansion(emitter.math()), op(op), operands(operands),
        from(getElementTypeOrSelf(op->getOperand(0).getType())),
        to(getElementTypeOrSelf(op->getResult(0).getType())) {}

  /// Returns null for other ops.
  Value emit();

private:
  Value emitNumber();
  Value emitFloat();
  Value emitFunction(Value x);
  Value emitInteger();
  Value emitCompare(ComparePredicate predicate);
  Value emitCast();
  Value floatToInteger(Value x);
  Value floatToNarrowInteger(Value x, Type type);
  Value integerToFloat(Value x);
  Value emitPow(Value x, Value y);
  Value divideIntegers(Value x, Value y, bool remainder);
  Value powerOfIntegers(Value x, Value y);
  Value shiftIntegers(Value x, Value y, bool left);
  bool isUnsigned(Type type) const {
    return type.isUnsignedInteger() || type.isInteger(1);
  }

  Operation *op;
  ArrayRef<Value> operands;
  Type from, to;
};
} // namespace

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

/// Returns the value of a splat constant, through casts.
static std::optional<double> splatOf(Value value) {
  while (auto cast = value.getDefiningOp<CastOp>())
    value = cast.getInput();
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant ? splatValue(constant.getValue()) : std::nullopt;
}

Value Elementwise::emitPow(Value x, Value y) {
  // Exponents whose power takes few exactly rounded steps.
  std::optional<double> exponent = splatOf(op->getOperand(1));
  if (exponent == 1.0)
    return x;
  if (exponent == 2.0)
    return mul(x, x);
  if (exponent == 3.0)
    return mul(mul(x, x), x);
  if (exponent == -1.0)
    return div(constant(x.getType(), 1.0), x);
  return pow(x, y);
}

/// Returns the 16-bit type to which all uses round `value`; null if there is
/// none.
static Type typeSeen(Value value) {
  auto narrow = [](Type type) {
    type = getElementTypeOrSelf(type);
    return type.isF16() || type.isBF16() ? type : Type();
  };
  if (Type own = narrow(value.getType()))
    return own;
  Type seen;
  for (Operation *user : value.getUsers()) {
    Type type =
        isa<CastOp>(user) ? narrow(user->getResult(0).getType()) : Type();
    if (!type || (seen && seen != type))
      return {};
    seen = type;
  }
  return seen;
}

/// Ops named like a mathematical function of one argument.
Value Elementwise::emitFunction(Value x) {
  StringRef function = op->getName().stripDialect();
#define MPC_CALL(name)                                                         \
  if (function == #name)                                                       \
    return name(x);
  MPC_MATH_1(MPC_CALL)
#undef MPC_CALL
  return {};
}

Value Elementwise::emitFloat() {
  Value x = operands[0], y = operands.size() > 1 ? operands[1] : Value();
  Type type = x.getType();
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](DivOp) { return div(x, y); })
      .Case([&](PowOp) { return emitPow(x, y); })
      .Case([&](Atan2Op) { return atan2(x, y); })
      .Case([&](RemOp) { return fmod(x, y); })
      .Case([&](AbsOp) { return abs(x); })
      .Case([&](NegOp) { return neg(x); })
      .Case([&](SignOp) {
        Value positive = compare(CmpFPredicate::OGT, x, 0.0);
        Value negative = compare(CmpFPredicate::OLT, x, 0.0);
        return select(positive, 1.0, select(negative, -1.0, x));
      })
      .Case([&](FloorOp) { return make<math::FloorOp>(x); })
      .Case([&](CeilOp) { return make<math::CeilOp>(x); })
      .Case([&](RoundOp) { return make<math::RoundEvenOp>(x); })
      .Case([&](SqrtOp) { return sqrt(x); })
      .Case([&](RsqrtOp) { return div(constant(type, 1.0), sqrt(x)); })
      .Case([&](ReciprocalOp) { return div(constant(type, 1.0), x); })
      .Case([&](ReluOp) {
        // Also turns -0 into 0; preserves NaN.
        return select(compare(CmpFPredicate::OLE, x, 0.0), 0.0, x);
      })
      .Case([&](SiluOp) { return mul(x, sigmoid(x)); })
      .Case([&](GeluOp gelu) {
        if (gelu.getForm() != GeluForm::erf)
          return geluTanh(x);
        // Which casts are in the kernel must not change reproducible bits.
        return geluSeenIn(x, target.canonicalSums ? Type()
                                                  : typeSeen(op->getResult(0)));
      })
      .Case([&](LeakyReluOp leaky) {
        Value scaled = mul(x, leaky.getAlpha().convertToDouble());
        return select(compare(CmpFPredicate::OGE, x, 0.0), x, scaled);
      })
      .Case([&](EluOp elu) {
        Value scaled = mul(expm1(x), elu.getAlpha().convertToDouble());
        return select(compare(CmpFPredicate::OGE, x, 0.0), x, scaled);
      })
      .Case([&](IsNanOp) { return compare(CmpFPredicate::UNO, x, x); })
      .Case([&](IsInfOp isInf) -> Value {
        if (isInf.getPositive() && isInf.getNegative())
          return compare(CmpFPredicate::OEQ, abs(x), kInfinity);
        if (!isInf.getPositive() && !isInf.getNegative())
          return integer(withElement(type, b.getI1Type()), 0);
        return compare(CmpFPredicate::OEQ, x,
                       isInf.getPositive() ? kInfinity : -kInfinity);
      })
      .Default([&](Operation *) { return emitFunction(x); });
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

Value Elementwise::divideIntegers(Value x, Value y, bool remainder) {
  Type type = x.getType();
  Value zero = integer(type, 0), one = integer(type, 1);
  Value byZero = compare(CmpIPredicate::eq, y, zero);
  Value divisor = select(byZero, one, y);
  if (isUnsigned(to)) {
    Value quotient = make<arith::DivUIOp>(x, divisor),
          rest = make<arith::RemUIOp>(x, divisor);
    return select(byZero, zero, remainder ? rest : quotient);
  }
  // The lowest value over -1 traps: -1 is handled separately.
  Value byMinusOne = compare(CmpIPredicate::eq, divisor, -1);
  divisor = select(byMinusOne, one, divisor);
  if (remainder)
    return select(byZero, zero, make<arith::RemSIOp>(x, divisor));
  Value quotient = make<arith::DivSIOp>(x, divisor);
  quotient = select(byMinusOne, sub(zero, x), quotient);
  return select(byZero, zero, quotient);
}

Value Elementwise::shiftIntegers(Value x, Value y, bool left) {
  Type type = x.getType();
  int64_t width = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  Value limit = integer(type, width), zero = integer(type, 0);
  // i1 cannot represent its own width; only a shift by 0 preserves it.
  Value inside = width == 1 ? compare(CmpIPredicate::eq, y, zero)
                            : compare(CmpIPredicate::ult, y, limit);
  Value amount = select(inside, y, zero);
  Value shifted = left ? make<arith::ShLIOp>(x, amount) : shiftRight(x, amount);
  return select(inside, shifted, zero);
}

Value Elementwise::powerOfIntegers(Value x, Value y) {
  Type type = x.getType();
  Value zero = integer(type, 0), one = integer(type, 1);
  int64_t width = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  Value power = one, square = x;
  // Binary exponentiation; a vector runs until all lanes are done, at most its
  // width in bits.
  auto loop = scf::WhileOp::create(
      b, loc, TypeRange{type, type, type}, ValueRange{power, square, y},
      [&](OpBuilder &, Location, ValueRange state) {
        Value more = any(compare(CmpIPredicate::ne, state[2], zero));
        scf::ConditionOp::create(b, loc, more, state);
      },
      [&](OpBuilder &, Location, ValueRange state) {
        Value bit = compare(CmpIPredicate::ne, bitAnd(state[2], 1), zero);
        Value next = select(bit, mul(state[0], state[1]), state[0]);
        Value squared = mul(state[1], state[1]);
        Value rest = width == 1 ? zero : shiftRight(state[2], 1);
        scf::YieldOp::create(b, loc, ValueRange{next, squared, rest});
      });
  Value result = loop.getResult(0);
  if (isUnsigned(to))
    return result;
  // A negative exponent: the truncated reciprocal.
  Value odd = compare(CmpIPredicate::ne, bitAnd(y, 1), zero);
  Value minusOne = compare(CmpIPredicate::eq, x, -1);
  Value unit = compare(CmpIPredicate::eq, x, one);
  Value reciprocal =
      select(unit, one, select(minusOne, select(odd, x, one), zero));
  return select(compare(CmpIPredicate::slt, y, zero), reciprocal, result);
}

Value Elementwise::emitInteger() {
  Value x = operands[0], y = operands.size() > 1 ? operands[1] : Value();
  Type type = x.getType();
  bool noSign = isUnsigned(to);
  Value zero = integer(type, 0);
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](DivOp) { return divideIntegers(x, y, /*remainder=*/false); })
      .Case([&](RemOp) { return divideIntegers(x, y, /*remainder=*/true); })
      .Case([&](PowOp) { return powerOfIntegers(x, y); })
      .Case([&](AndOp) { return bitAnd(x, y); })
      .Case([&](OrOp) { return bitOr(x, y); })
      .Case([&](XorOp) { return bitXor(x, y); })
      .Case([&](ShiftLeftOp) { return shiftIntegers(x, y, /*left=*/true); })
      .Case([&](ShiftRightOp) { return shiftIntegers(x, y, /*left=*/false); })
      .Case([&](NotOp) { return bitXor(x, -1); })
      .Case([&](NegOp) { return sub(zero, x); })
      .Case([&](AbsOp) {
        return noSign ? x
                      : select(compare(CmpIPredicate::slt, x, zero),
                               sub(zero, x), x);
      })
      .Case([&](SignOp) {
        Value one = integer(type, 1);
        Value nonZero = select(compare(CmpIPredicate::ne, x, zero), one, zero);
        if (noSign)
          return nonZero;
        Value minusOne = integer(type, -1);
        return select(compare(CmpIPredicate::slt, x, zero), minusOne, nonZero);
      })
      .Case([&](ReluOp) { return noSign ? x : maximum(x, zero); })
      .Default([](Operation *) { return Value(); });
}

/// Ops that are alike for floats and integers; passes others on.
Value Elementwise::emitNumber() {
  Value x = operands[0], y = operands.size() > 1 ? operands[1] : Value();
  bool noSign = isUnsigned(to);
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](AddOp) { return add(x, y); })
      .Case([&](SubOp) { return sub(x, y); })
      .Case([&](MulOp) { return mul(x, y); })
      .Case([&](MaxOp) { return extremum(x, y, true, noSign); })
      .Case([&](MinOp) { return extremum(x, y, false, noSign); })
      .Case([&](ClampOp) {
        return extremum(extremum(x, y, true, noSign), operands[2], false,
                        noSign);
      })
      .Default([&](Operation *) {
        return isa<FloatType>(from) ? emitFloat() : emitInteger();
      });
}

//===----------------------------------------------------------------------===//
// Comparison and conversion
//===----------------------------------------------------------------------===//

Value Elementwise::emitCompare(ComparePredicate predicate) {
  if (isa<FloatType>(from)) {
    static constexpr CmpFPredicate predicates[] = {
        CmpFPredicate::OEQ, CmpFPredicate::UNE, CmpFPredicate::OLT,
        CmpFPredicate::OLE, CmpFPredicate::OGT, CmpFPredicate::OGE};
    return compare(predicates[static_cast<unsigned>(predicate)], operands[0],
                   operands[1]);
  }
  static constexpr CmpIPredicate signedPredicates[] = {
      CmpIPredicate::eq,  CmpIPredicate::ne,  CmpIPredicate::slt,
      CmpIPredicate::sle, CmpIPredicate::sgt, CmpIPredicate::sge};
  static constexpr CmpIPredicate unsignedPredicates[] = {
      CmpIPredicate::eq,  CmpIPredicate::ne,  CmpIPredicate::ult,
      CmpIPredicate::ule, CmpIPredicate::ugt, CmpIPredicate::uge};
  unsigned index = static_cast<unsigned>(predicate);
  return compare(isUnsigned(from) ? unsignedPredicates[index]
                                  : signedPredicates[index],
                 operands[0], operands[1]);
}

/// The same for vectors, via i32: LLVM would scalarize saturating conversions
/// to elements of 8 and 16 bits.
Value Elementwise::floatToNarrowInteger(Value x, Type type) {
  double span = std::exp2(double(to.getIntOrFloatBitWidth()));
  double least = isUnsigned(to) ? 0 : -span / 2;
  // Written so that NaN becomes the second operand of either.
  auto bound = [&](CmpFPredicate predicate, double limit) {
    Value end = constant(x.getType(), limit);
    x = select(compare(predicate, x, end), x, end);
  };
  if (least != 0)
    x = select(compare(CmpFPredicate::ORD, x, x), x,
               constant(x.getType(), 0.0));
  bound(CmpFPredicate::OGT, least);
  bound(CmpFPredicate::OLT, least + span - 1);
  return truncateInt(convert<arith::FPToSIOp>(x, b.getI32Type()),
                     getElementTypeOrSelf(type));
}

Value Elementwise::floatToInteger(Value x) {
  if (to.isInteger(1))
    return compare(CmpFPredicate::UNE, x, 0.0);
  // LLVM's saturating conversion: out-of-range values are clamped, NaN gives 0.
  Type type =
      withElement(x.getType(), b.getIntegerType(to.getIntOrFloatBitWidth()));
  // On targets with their own functions, arith's conversions saturate too.
  if (target.call)
    return isUnsigned(to) ? make<arith::FPToUIOp>(type, x)
                          : make<arith::FPToSIOp>(type, x);
  if (isa<VectorType>(type) && to.getIntOrFloatBitWidth() <= 16)
    return floatToNarrowInteger(x, type);
  return intrinsic(isUnsigned(to) ? "llvm.fptoui.sat" : "llvm.fptosi.sat", type,
                   x);
}

Value Elementwise::integerToFloat(Value x) {
  Type source = getElementTypeOrSelf(x.getType());
  bool narrow = to.isF16() || to.isBF16();
  // Integers that f32 represents exactly convert directly; wider ones on the
  // way to 16 bits go through f64, so that only one rounding counts.
  bool direct = !narrow || source.getIntOrFloatBitWidth() <= 16;
  Type element =
      to.isF64() || !direct ? Type(b.getF64Type()) : Type(b.getF32Type());
  Value value = toFloat(x, element, isUnsigned(from));
  return narrow && !direct ? truncateToOdd(value) : value;
}

Value Elementwise::emitCast() {
  Value x = operands[0];
  bool fromFloat = isa<FloatType>(from), toFloat = isa<FloatType>(to);
  if (fromFloat && toFloat)
    return to.isF64() && !from.isF64() ? extendFloat(x, to)
                                       : narrowDouble(x, to);
  if (fromFloat)
    return floatToInteger(x);
  if (toFloat)
    return integerToFloat(x);
  unsigned fromWidth = from.getIntOrFloatBitWidth(),
           toWidth = to.getIntOrFloatBitWidth();
  if (toWidth == 1)
    return fromWidth == 1 ? x : compare(CmpIPredicate::ne, x, 0);
  Type element = b.getIntegerType(toWidth);
  if (toWidth < fromWidth)
    return truncateInt(x, element);
  return toWidth > fromWidth ? extendInt(x, element, isUnsigned(from)) : x;
}

Value Elementwise::emit() {
  if (auto compare = dyn_cast<CompareOp>(op))
    return emitCompare(compare.getPredicate());
  if (isa<SelectOp>(op))
    return select(operands[0], operands[1], operands[2]);
  if (isa<CastOp>(op))
    return emitCast();
  if (auto encode = dyn_cast<EncodeFloatOp>(op))
    return encodeFloat(
        *this, from.isF64() ? truncateToOdd(operands[0]) : operands[0],
        *narrowFloatOf(encode.getFormat()), encode.getSaturate(),
        encode.roundingMode(), operands.size() > 1 ? operands[1] : Value());
  if (auto decode = dyn_cast<DecodeFloatOp>(op)) {
    if (to == decode.getFormat())
      return convert<arith::BitcastOp>(operands[0], to);
    Value number =
        decodeFloat(*this, operands[0], *narrowFloatOf(decode.getFormat()));
    return to.isF64() ? extendFloat(number, to) : number;
  }
  if (isa<StopGradientOp>(op))
    return operands[0];
  return emitNumber();
}

Value mpc::emitElementwise(ElementEmitter &e, Operation *op,
                           const Request &at) {
  SmallVector<Value, 3> operands;
  for (Value operand : op->getOperands())
    operands.push_back(e.operandValue(operand, at));
  Value value = Elementwise(e, op, operands).emit();
  if (!value) {
    std::string type;
    llvm::raw_string_ostream(type)
        << getElementTypeOrSelf(op->getOperand(0).getType());
    return e.fail(op->getResult(0),
                  "cannot be generated with element type " + type, at.lanes);
  }
  // A selection between exact values is exact.
  Type elementType = getElementTypeOrSelf(op->getResult(0).getType());
  bool exact = op->hasTrait<Exact>() ||
               (isa<CastOp>(op) &&
                op->getOperand(0).getType() == op->getResult(0).getType());
  if (exact && isa<FloatType>(elementType) && !elementType.isF32() &&
      !elementType.isF64()) {
    e.markRounded(value, elementType);
    return value;
  }
  return e.round(value, elementType);
}
