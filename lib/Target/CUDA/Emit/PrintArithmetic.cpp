//===- PrintArithmetic.cpp - printing of arith and math ops ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IndexRange.h"
#include "KernelPrinter.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

static Expression operation(KernelPrinter &p, Operation *op, StringRef text,
                            Precedence precedence) {
  Expression x = p.take(op->getOperand(0)), y = p.take(op->getOperand(1));
  // An operator needs at least one operand of vector type.
  if (x.splat && y.splat)
    x = p.whole(x, op->getOperand(0).getType());
  return binary(x, text, y, precedence);
}

static Expression castTo(KernelPrinter &p, Type type,
                         const Expression &expression, Operation *op) {
  bool isVector = isa<VectorType>(type);
  std::string name = p.typeName(getElementTypeOrSelf(type), op);
  return call((isVector ? "mpc::convert<" : "static_cast<") + name + ">",
              expression);
}

static Expression asUnsigned(KernelPrinter &p, const Expression &expression,
                             Type type) {
  bool isVector = isa<VectorType>(type);
  return call((isVector ? "mpc::convert<" : "static_cast<") +
                  p.unsignedName(type) + ">",
              expression);
}

//===----------------------------------------------------------------------===//
// Casts
//===----------------------------------------------------------------------===//

static bool printCast(KernelPrinter &p, Operation *op) {
  if (op->getNumOperands() != 1 || op->getNumResults() != 1)
    return false;
  Value input = op->getOperand(0), result = op->getResult(0);
  Type from = input.getType(), to = result.getType();
  Type toElement = getElementTypeOrSelf(to);
  Type fromElement = getElementTypeOrSelf(from);

  if (isa<arith::ExtFOp, arith::TruncFOp>(op)) {
    Expression x = p.takeWhole(input);
    bool is16 = fromElement.getIntOrFloatBitWidth() == 16;
    // 16-bit storage types convert via float.
    if (is16)
      x = call("mpc::toFloat", x);
    if (toElement.isF16())
      x = call("mpc::toHalf", x);
    else if (toElement.isBF16())
      x = call("mpc::toBfloat16", x);
    else if (!is16 || !toElement.isF32())
      x = castTo(p, to, x, op);
    p.define(result, x);
    return true;
  }
  if (isa<arith::SIToFPOp, arith::UIToFPOp>(op)) {
    Expression x = p.takeWhole(input);
    if (isa<arith::UIToFPOp>(op))
      x = asUnsigned(p, x, from);
    p.define(result, castTo(p, to, x, op));
    return true;
  }
  if (isa<arith::FPToSIOp, arith::FPToUIOp>(op)) {
    bool isSigned = isa<arith::FPToSIOp>(op);
    std::string type =
        isSigned ? p.typeName(toElement, op) : p.unsignedName(toElement);
    Expression x = call("mpc::toInteger<" + type + ">", p.takeWhole(input));
    p.define(result, isSigned ? x : castTo(p, to, x, op));
    return true;
  }
  if (isa<arith::ExtSIOp>(op)) {
    Expression x = p.takeWhole(input);
    if (fromElement.isInteger(1)) {
      Expression wide = castTo(p, to, x, op);
      Expression negative("-" + wide.text, Precedence::Unary);
      negative.depend(wide);
      p.define(result, negative);
      return true;
    }
    p.define(result, castTo(p, to, x, op));
    return true;
  }
  if (isa<arith::ExtUIOp, arith::IndexCastUIOp>(op)) {
    if (p.typeName(from, op) == p.typeName(to, op)) {
      p.define(result, p.take(input));
      return true;
    }
    Expression x = p.takeWhole(input);
    p.define(result,
             castTo(p, to,
                    fromElement.isInteger(1) ? x : asUnsigned(p, x, from), op));
    return true;
  }
  if (isa<arith::TruncIOp>(op) && toElement.isInteger(1)) {
    Expression bit =
        binary(p.takeWhole(input), "&", Expression("1"), Precedence::BitAnd);
    p.define(result, binary(bit, "!=", Expression("0"), Precedence::Equality));
    return true;
  }
  if (isa<arith::TruncIOp, arith::IndexCastOp>(op)) {
    if (p.typeName(from, op) == p.typeName(to, op)) {
      p.define(result, p.take(input));
      return true;
    }
    p.define(result, castTo(p, to, p.takeWhole(input), op));
    return true;
  }
  if (isa<arith::BitcastOp>(op)) {
    Expression x = p.takeWhole(input);
    // Arithmetic promotes short types to int.
    if (!isa<VectorType>(from) && from.getIntOrFloatBitWidth() < 32 &&
        x.precedence != Precedence::Primary)
      x = castTo(p, from, x, op);
    p.define(result, call("mpc::bitcast<" + p.typeName(to, op) + ">", x));
    return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Floating-point ops and others
//===----------------------------------------------------------------------===//

/// Returns the prelude function that implements an op, if any.
static StringRef preludeFunction(StringRef op) {
  return llvm::StringSwitch<StringRef>(op)
      .Case("arith.maximumf", "maximum")
      .Case("arith.minimumf", "minimum")
      .Case("arith.maxnumf", "maximumNumber")
      .Case("arith.minnumf", "minimumNumber")
      .Case("arith.remf", "rem")
      .Cases({"math.absf", "math.absi"}, "abs")
      .Case("math.fma", "fma")
      .Case("math.sqrt", "sqrt")
      .Case("math.rsqrt", "rsqrt")
      .Case("math.floor", "floor")
      .Case("math.ceil", "ceil")
      .Case("math.trunc", "trunc")
      .Case("math.roundeven", "roundEven")
      .Case("math.copysign", "copySign")
      .Case("math.exp", "exp")
      .Case("math.expm1", "expm1")
      .Case("math.log", "log")
      .Case("math.log1p", "log1p")
      .Case("math.tanh", "tanh")
      .Case("math.erf", "erf")
      .Case("math.sin", "sin")
      .Case("math.cos", "cos")
      .Case("math.tan", "tan")
      .Case("math.asin", "asin")
      .Case("math.acos", "acos")
      .Case("math.atan", "atan")
      .Case("math.atan2", "atan2")
      .Case("math.sinh", "sinh")
      .Case("math.cosh", "cosh")
      .Case("math.asinh", "asinh")
      .Case("math.acosh", "acosh")
      .Case("math.atanh", "atanh")
      .Case("math.powf", "pow")
      .Default("");
}

static bool printMath(KernelPrinter &p, Operation *op) {
  if (op->getNumResults() != 1)
    return false;
  Value result = op->getResult(0);
  // 16-bit types are storage only.
  Type element = getElementTypeOrSelf(result.getType());
  bool is16 = element.isF16() || element.isBF16();
  if (StringRef name = preludeFunction(op->getName().getStringRef());
      !name.empty() && !is16) {
    p.define(result, p.function(op, name));
    return true;
  }
  if (auto negation = dyn_cast<arith::NegFOp>(op); negation && !is16) {
    Expression x = p.takeWhole(negation.getOperand());
    std::string inner = x.in(Precedence::Unary);
    // "--x" would be a decrement.
    if (StringRef(inner).starts_with("-"))
      inner = "(" + inner + ")";
    Expression negative("-" + inner, Precedence::Unary);
    negative.depend(x);
    p.define(result, negative);
    return true;
  }
  auto sign = llvm::StringSwitch<StringRef>(op->getName().getStringRef())
                  .Case("arith.addf", "+")
                  .Case("arith.subf", "-")
                  .Case("arith.mulf", "*")
                  .Case("arith.divf", "/")
                  .Default("");
  if (sign.empty() || is16)
    return false;
  bool isProduct = sign == "*" || sign == "/";
  p.define(result,
           operation(p, op, sign,
                     isProduct ? Precedence::Product : Precedence::Sum));
  return true;
}

//===----------------------------------------------------------------------===//
// Comparisons
//===----------------------------------------------------------------------===//

static Expression compare(KernelPrinter &p, arith::CmpFOp op) {
  using Predicate = arith::CmpFPredicate;
  auto ordered = [&](StringRef sign, Precedence precedence) {
    return operation(p, op, sign, precedence);
  };
  // Negation of the ordered opposite: true if an operand is NaN.
  auto unordered = [&](StringRef opposite) {
    Expression inner = operation(p, op, opposite, Precedence::Relation);
    Expression result("!(" + inner.text + ")", Precedence::Unary);
    result.depend(inner);
    return result;
  };
  switch (op.getPredicate()) {
  case Predicate::AlwaysFalse:
  case Predicate::AlwaysTrue: {
    bool value = op.getPredicate() == Predicate::AlwaysTrue;
    Expression result(value ? "true" : "false");
    result.splat = isa<VectorType>(op.getType());
    return result;
  }
  case Predicate::OEQ:
    return ordered("==", Precedence::Equality);
  case Predicate::OGT:
    return ordered(">", Precedence::Relation);
  case Predicate::OGE:
    return ordered(">=", Precedence::Relation);
  case Predicate::OLT:
    return ordered("<", Precedence::Relation);
  case Predicate::OLE:
    return ordered("<=", Precedence::Relation);
  case Predicate::UNE:
    return ordered("!=", Precedence::Equality);
  case Predicate::UGT:
    return unordered("<=");
  case Predicate::UGE:
    return unordered("<");
  case Predicate::ULT:
    return unordered(">=");
  case Predicate::ULE:
    return unordered(">");
  case Predicate::ONE:
    return p.function(op, "differs");
  case Predicate::UEQ:
    return p.function(op, "equalOrNan");
  case Predicate::ORD:
    if (op.getLhs() == op.getRhs()) {
      Expression isNan = call("mpc::isNan", p.takeWhole(op.getLhs()));
      Expression result("!" + isNan.text, Precedence::Unary);
      result.depend(isNan);
      return result;
    }
    return p.function(op, "ordered");
  case Predicate::UNO:
    if (op.getLhs() == op.getRhs()) {
      return call("mpc::isNan", p.takeWhole(op.getLhs()));
    }
    return p.function(op, "anyNan");
  }
  llvm_unreachable("a predicate of floats");
}

static bool bothNonNegative(Operation *op) {
  return llvm::all_of(op->getOperands(), [](Value value) {
    std::optional<IndexRange> range = indexRange(value);
    return range && range->low >= 0;
  });
}

static Expression compare(KernelPrinter &p, arith::CmpIOp op) {
  using Predicate = arith::CmpIPredicate;
  Predicate predicate = op.getPredicate();
  StringRef sign = "==";
  Precedence precedence = Precedence::Relation;
  bool isUnsigned = predicate >= Predicate::ult;
  switch (predicate) {
  case Predicate::eq:
  case Predicate::ne:
    sign = predicate == Predicate::eq ? "==" : "!=";
    precedence = Precedence::Equality;
    break;
  case Predicate::slt:
  case Predicate::ult:
    sign = "<";
    break;
  case Predicate::sle:
  case Predicate::ule:
    sign = "<=";
    break;
  case Predicate::sgt:
  case Predicate::ugt:
    sign = ">";
    break;
  case Predicate::sge:
  case Predicate::uge:
    sign = ">=";
    break;
  }
  if (!isUnsigned || bothNonNegative(op))
    return operation(p, op, sign, precedence);
  Type type = op.getLhs().getType();
  Expression x = p.takeWhole(op.getLhs()), y = p.takeWhole(op.getRhs());
  return binary(asUnsigned(p, x, type), sign, asUnsigned(p, y, type),
                precedence);
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

static bool printInteger(KernelPrinter &p, Operation *op) {
  Value result = op->getResult(0);
  Type type = result.getType(), element = getElementTypeOrSelf(type);
  bool isBool = element.isInteger(1), isIndex = element.isIndex();
  bool isVector = isa<VectorType>(type);

  /// Converts to unsigned and back.
  auto onUnsigned = [&](auto build) {
    Expression x = asUnsigned(p, p.takeWhole(op->getOperand(0)), type);
    Expression y = asUnsigned(p, p.takeWhole(op->getOperand(1)), type);
    p.define(result, castTo(p, type, build(x, y), op));
    return true;
  };
  auto plain = [&](StringRef sign, Precedence precedence) {
    p.define(result, operation(p, op, sign, precedence));
    return true;
  };
  auto named = [&](StringRef text) {
    std::string full = text.str();
    // A literal may differ in type from the other operand.
    bool isShort =
        isIndex ? p.isIndex64() : element.getIntOrFloatBitWidth() < 32;
    if (!isVector && isShort)
      full += "<" + p.typeName(element, op) + ">";
    p.define(result, p.function(op, full));
    return true;
  };

  // Bitwise ops.
  if (isa<arith::AndIOp>(op))
    return isBool && !isVector ? plain("&&", Precedence::And)
                               : plain("&", Precedence::BitAnd);
  if (isa<arith::OrIOp>(op))
    return isBool && !isVector ? plain("||", Precedence::Or)
                               : plain("|", Precedence::BitOr);
  if (isa<arith::XOrIOp>(op)) {
    if (isBool && matchPattern(op->getOperand(1), m_One())) {
      Expression x = p.takeWhole(op->getOperand(0));
      Expression inverse("!" + x.in(Precedence::Unary), Precedence::Unary);
      inverse.depend(x);
      p.define(result, inverse);
      return true;
    }
    return isBool ? plain("!=", Precedence::Equality)
                  : plain("^", Precedence::BitXor);
  }
  if (isa<arith::ShLIOp>(op) || isa<arith::ShRUIOp>(op)) {
    bool left = isa<arith::ShLIOp>(op);
    if (isIndex && bothNonNegative(op))
      return plain(left ? "<<" : ">>", Precedence::Shift);
    return onUnsigned([&](const Expression &x, const Expression &y) {
      return binary(x, left ? "<<" : ">>", y, Precedence::Shift);
    });
  }
  if (isa<arith::ShRSIOp>(op))
    return plain(">>", Precedence::Shift);

  // Integers wrap around; indices never overflow.
  if (isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op)) {
    bool isProduct = isa<arith::MulIOp>(op), isSum = isa<arith::AddIOp>(op);
    if (isBool)
      return isProduct ? plain(isVector ? "&" : "&&",
                               isVector ? Precedence::BitAnd : Precedence::And)
                       : plain("!=", Precedence::Equality);
    if (!isIndex && !isVector)
      return named(isProduct ? "multiply" : isSum ? "add" : "subtract");
    APInt constant;
    if (isSum && isIndex && !isVector &&
        matchPattern(op->getOperand(1), m_ConstantInt(&constant)) &&
        constant.isNegative()) {
      Expression x = p.take(op->getOperand(0));
      Expression magnitude(std::to_string(-constant.getSExtValue()));
      p.define(result, binary(x, "-", magnitude, Precedence::Sum));
      return true;
    }
    return isProduct ? plain("*", Precedence::Product)
                     : plain(isSum ? "+" : "-", Precedence::Sum);
  }

  // Division.
  if (isa<arith::DivSIOp>(op))
    return plain("/", Precedence::Product);
  if (isa<arith::RemSIOp>(op))
    return plain("%", Precedence::Product);
  if (isa<arith::DivUIOp, arith::RemUIOp>(op)) {
    StringRef sign = isa<arith::DivUIOp>(op) ? "/" : "%";
    if (isIndex && bothNonNegative(op))
      return plain(sign, Precedence::Product);
    return onUnsigned([&](const Expression &x, const Expression &y) {
      return binary(x, sign, y, Precedence::Product);
    });
  }
  if (isa<arith::CeilDivUIOp>(op) && isIndex && bothNonNegative(op))
    return named("ceilDivide");

  // Minimum and maximum.
  bool isMax = isa<arith::MaxSIOp, arith::MaxUIOp>(op);
  if (isa<arith::MaxSIOp, arith::MinSIOp>(op))
    return named(isMax ? "maximum" : "minimum");
  if (isa<arith::MaxUIOp, arith::MinUIOp>(op)) {
    if (bothNonNegative(op))
      return named(isMax ? "maximum" : "minimum");
    return onUnsigned([&](const Expression &x, const Expression &y) {
      return call(isMax ? "mpc::maximum" : "mpc::minimum", {x, y});
    });
  }
  return false;
}

bool cuda::printArithmetic(KernelPrinter &p, Operation *op) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    p.bind(constant,
           p.literal(constant.getValue(), constant.getType(), constant));
    return true;
  }
  if (auto comparison = dyn_cast<arith::CmpFOp>(op)) {
    p.define(comparison, compare(p, comparison));
    return true;
  }
  if (auto comparison = dyn_cast<arith::CmpIOp>(op)) {
    p.define(comparison, compare(p, comparison));
    return true;
  }
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    if (isa<VectorType>(select.getType())) {
      Expression condition = p.takeWhole(select.getCondition());
      Expression x = p.take(select.getTrueValue());
      Expression y = p.take(select.getFalseValue());
      if (x.splat && y.splat)
        x = p.whole(x, select.getType());
      p.define(select, call("mpc::select", {condition, x, y}));
      return true;
    }
    Expression condition = p.take(select.getCondition());
    Expression x = p.take(select.getTrueValue());
    Expression y = p.take(select.getFalseValue());
    Expression result(condition.in(Precedence::Choice, true) + " ? " +
                          x.in(Precedence::Choice, true) + " : " +
                          y.in(Precedence::Choice),
                      Precedence::Choice);
    result.depend(condition);
    result.depend(x);
    result.depend(y);
    p.define(select, result);
    return true;
  }
  return printCast(p, op) || printMath(p, op) ||
         (op->getNumResults() == 1 && op->getNumOperands() == 2 &&
          getElementTypeOrSelf(op->getResult(0).getType()).isIntOrIndex() &&
          isa<arith::ArithDialect>(op->getDialect()) && printInteger(p, op));
}
