//===- PrintArithmetic.cpp - printing of arith and math ops ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPrinter.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mpc;

Expression KernelPrinter::operation(Operation *op, StringRef text,
                                    Precedence precedence) {
  Expression x = take(op->getOperand(0)), y = take(op->getOperand(1));
  // An operator needs at least one operand of vector type.
  if (x.splat && y.splat)
    x = whole(x, op->getOperand(0).getType());
  return binary(x, text, y, precedence);
}

Expression KernelPrinter::function(Operation *op, StringRef name) {
  SmallVector<Expression> arguments;
  bool anyVector = false;
  for (Value operand : op->getOperands()) {
    arguments.push_back(take(operand));
    anyVector |= isa<VectorType>(operand.getType()) && !arguments.back().splat;
  }
  if (!anyVector && !arguments.empty())
    arguments[0] = whole(arguments[0], op->getOperand(0).getType());
  return call(("mpc::" + name).str(), arguments);
}

Expression KernelPrinter::cast(Type type, const Expression &expression,
                               Operation *op) {
  bool isVector = isa<VectorType>(type);
  std::string name = typeName(getElementTypeOrSelf(type), op);
  return call((isVector ? "mpc::convert<" : "static_cast<") + name + ">",
              expression);
}

Expression KernelPrinter::asUnsigned(const Expression &expression, Type type) {
  bool isVector = isa<VectorType>(type);
  return call((isVector ? "mpc::convert<" : "static_cast<") +
                  unsignedName(type) + ">",
              expression);
}

//===----------------------------------------------------------------------===//
// Casts
//===----------------------------------------------------------------------===//

bool KernelPrinter::printCast(Operation *op) {
  if (op->getNumOperands() != 1 || op->getNumResults() != 1)
    return false;
  Value input = op->getOperand(0), result = op->getResult(0);
  Type from = input.getType(), to = result.getType();
  Type toElement = getElementTypeOrSelf(to);
  Type fromElement = getElementTypeOrSelf(from);

  if (isa<arith::ExtFOp, arith::TruncFOp>(op)) {
    Expression x = takeWhole(input);
    bool is16 = fromElement.getIntOrFloatBitWidth() == 16;
    // 16-bit storage types convert via float.
    if (is16)
      x = call("mpc::toFloat", x);
    if (toElement.isF16())
      x = call("mpc::toHalf", x);
    else if (toElement.isBF16())
      x = call("mpc::toBfloat16", x);
    else if (!is16 || !toElement.isF32())
      x = cast(to, x, op);
    define(result, x);
    return true;
  }
  if (isa<arith::SIToFPOp, arith::UIToFPOp>(op)) {
    Expression x = takeWhole(input);
    if (isa<arith::UIToFPOp>(op))
      x = asUnsigned(x, from);
    define(result, cast(to, x, op));
    return true;
  }
  if (isa<arith::FPToSIOp, arith::FPToUIOp>(op)) {
    bool isSigned = isa<arith::FPToSIOp>(op);
    std::string type =
        isSigned ? typeName(toElement, op) : unsignedName(toElement);
    Expression x = call("mpc::toInteger<" + type + ">", takeWhole(input));
    define(result, isSigned ? x : cast(to, x, op));
    return true;
  }
  if (isa<arith::ExtSIOp>(op)) {
    Expression x = takeWhole(input);
    if (fromElement.isInteger(1)) {
      Expression wide = cast(to, x, op);
      Expression negative("-" + wide.text, Precedence::Unary);
      negative.depend(wide);
      define(result, negative);
      return true;
    }
    define(result, cast(to, x, op));
    return true;
  }
  if (isa<arith::ExtUIOp, arith::IndexCastUIOp>(op)) {
    if (typeName(from, op) == typeName(to, op)) {
      define(result, take(input));
      return true;
    }
    Expression x = takeWhole(input);
    define(result,
           cast(to, fromElement.isInteger(1) ? x : asUnsigned(x, from), op));
    return true;
  }
  if (isa<arith::TruncIOp>(op) && toElement.isInteger(1)) {
    Expression bit =
        binary(takeWhole(input), "&", Expression("1"), Precedence::BitAnd);
    define(result, binary(bit, "!=", Expression("0"), Precedence::Equality));
    return true;
  }
  if (isa<arith::TruncIOp, arith::IndexCastOp>(op)) {
    if (typeName(from, op) == typeName(to, op)) {
      define(result, take(input));
      return true;
    }
    define(result, cast(to, takeWhole(input), op));
    return true;
  }
  if (isa<arith::BitcastOp>(op)) {
    Expression x = takeWhole(input);
    // Arithmetic promotes short types to int.
    if (!isa<VectorType>(from) && from.getIntOrFloatBitWidth() < 32 &&
        x.precedence != Precedence::Primary)
      x = cast(from, x, op);
    define(result, call("mpc::bitcast<" + typeName(to, op) + ">", x));
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

bool KernelPrinter::printMath(Operation *op) {
  if (op->getNumResults() != 1)
    return false;
  Value result = op->getResult(0);
  // 16-bit types are storage only.
  Type element = getElementTypeOrSelf(result.getType());
  bool is16 = element.isF16() || element.isBF16();
  if (StringRef name = preludeFunction(op->getName().getStringRef());
      !name.empty() && !is16) {
    define(result, function(op, name));
    return true;
  }
  if (auto negation = dyn_cast<arith::NegFOp>(op); negation && !is16) {
    Expression x = takeWhole(negation.getOperand());
    std::string inner = x.in(Precedence::Unary);
    // "--x" would be a decrement.
    if (StringRef(inner).starts_with("-"))
      inner = "(" + inner + ")";
    Expression negative("-" + inner, Precedence::Unary);
    negative.depend(x);
    define(result, negative);
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
  define(result, operation(op, sign,
                           isProduct ? Precedence::Product : Precedence::Sum));
  return true;
}

bool KernelPrinter::printArithmetic(Operation *op) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    values[constant] =
        literal(constant.getValue(), constant.getType(), constant);
    return true;
  }
  if (auto comparison = dyn_cast<arith::CmpFOp>(op)) {
    define(comparison, compare(comparison));
    return true;
  }
  if (auto comparison = dyn_cast<arith::CmpIOp>(op)) {
    define(comparison, compare(comparison));
    return true;
  }
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    if (isa<VectorType>(select.getType())) {
      Expression condition = takeWhole(select.getCondition());
      Expression x = take(select.getTrueValue());
      Expression y = take(select.getFalseValue());
      if (x.splat && y.splat)
        x = whole(x, select.getType());
      define(select, call("mpc::select", {condition, x, y}));
      return true;
    }
    Expression condition = take(select.getCondition());
    Expression x = take(select.getTrueValue());
    Expression y = take(select.getFalseValue());
    Expression result(condition.in(Precedence::Choice, true) + " ? " +
                          x.in(Precedence::Choice, true) + " : " +
                          y.in(Precedence::Choice),
                      Precedence::Choice);
    result.depend(condition);
    result.depend(x);
    result.depend(y);
    define(select, result);
    return true;
  }
  return printCast(op) || printMath(op) ||
         (op->getNumResults() == 1 && op->getNumOperands() == 2 &&
          getElementTypeOrSelf(op->getResult(0).getType()).isIntOrIndex() &&
          isa<arith::ArithDialect>(op->getDialect()) && printInteger(op));
}
