//===- PrintIntegers.cpp - printing of integer ops ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IndexRange.h"
#include "KernelPrinter.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Comparisons
//===----------------------------------------------------------------------===//

Expression KernelPrinter::compare(arith::CmpFOp op) {
  using Predicate = arith::CmpFPredicate;
  auto ordered = [&](StringRef sign, Precedence precedence) {
    return operation(op, sign, precedence);
  };
  // Negation of the ordered opposite: true if an operand is NaN.
  auto unordered = [&](StringRef opposite) {
    Expression inner = operation(op, opposite, Precedence::Relation);
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
    return function(op, "differs");
  case Predicate::UEQ:
    return function(op, "equalOrNan");
  case Predicate::ORD:
    if (op.getLhs() == op.getRhs()) {
      Expression isNan = call("mpc::isNan", takeWhole(op.getLhs()));
      Expression result("!" + isNan.text, Precedence::Unary);
      result.depend(isNan);
      return result;
    }
    return function(op, "ordered");
  case Predicate::UNO:
    if (op.getLhs() == op.getRhs()) {
      return call("mpc::isNan", takeWhole(op.getLhs()));
    }
    return function(op, "anyNan");
  }
  llvm_unreachable("a predicate of floats");
}

static bool bothNonNegative(Operation *op) {
  return llvm::all_of(op->getOperands(), [](Value value) {
    std::optional<IndexRange> range = indexRange(value);
    return range && range->low >= 0;
  });
}

Expression KernelPrinter::compare(arith::CmpIOp op) {
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
    return operation(op, sign, precedence);
  Type type = op.getLhs().getType();
  Expression x = takeWhole(op.getLhs()), y = takeWhole(op.getRhs());
  return binary(asUnsigned(x, type), sign, asUnsigned(y, type), precedence);
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

bool KernelPrinter::printInteger(Operation *op) {
  Value result = op->getResult(0);
  Type type = result.getType(), element = getElementTypeOrSelf(type);
  bool isBool = element.isInteger(1), isIndex = element.isIndex();
  bool isVector = isa<VectorType>(type);

  /// Converts to unsigned and back.
  auto onUnsigned = [&](auto build) {
    Expression x = asUnsigned(takeWhole(op->getOperand(0)), type);
    Expression y = asUnsigned(takeWhole(op->getOperand(1)), type);
    define(result, cast(type, build(x, y), op));
    return true;
  };
  auto plain = [&](StringRef sign, Precedence precedence) {
    define(result, operation(op, sign, precedence));
    return true;
  };
  auto named = [&](StringRef text) {
    std::string full = text.str();
    // A literal may differ in type from the other operand.
    bool isShort = isIndex ? index64 : element.getIntOrFloatBitWidth() < 32;
    if (!isVector && isShort)
      full += "<" + typeName(element, op) + ">";
    define(result, function(op, full));
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
      Expression x = takeWhole(op->getOperand(0));
      Expression inverse("!" + x.in(Precedence::Unary), Precedence::Unary);
      inverse.depend(x);
      define(result, inverse);
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
      Expression x = take(op->getOperand(0));
      Expression magnitude(std::to_string(-constant.getSExtValue()));
      define(result, binary(x, "-", magnitude, Precedence::Sum));
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
