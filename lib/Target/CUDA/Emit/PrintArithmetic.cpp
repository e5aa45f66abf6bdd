//===- PrintArithmetic.cpp - printing of arith and math ops ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IndexRange.h"
#include "KernelPrinter.h"

#include "mlir/IR/Matchers.h"

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

/// Converts to `type`, or to the unsigned integers of its width.
static Expression castTo(KernelPrinter &p, Type type,
                         const Expression &expression, Operation *op,
                         bool toUnsigned = false) {
  std::string name = toUnsigned ? p.unsignedName(type)
                                : p.typeName(getElementTypeOrSelf(type), op);
  bool isVector = isa<VectorType>(type);
  return call((isVector ? "mpc::convert<" : "static_cast<") + name + ">",
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
  if (isa<arith::FPToSIOp, arith::FPToUIOp>(op)) {
    bool isSigned = isa<arith::FPToSIOp>(op);
    std::string type =
        isSigned ? p.typeName(toElement, op) : p.unsignedName(toElement);
    Expression x = call("mpc::toInteger<" + type + ">", p.takeWhole(input));
    p.define(result, isSigned ? x : castTo(p, to, x, op));
    return true;
  }
  if (isa<arith::TruncIOp>(op) && toElement.isInteger(1)) {
    Expression bit =
        binary(p.takeWhole(input), "&", Expression("1"), Precedence::BitAnd);
    p.define(result, binary(bit, "!=", Expression("0"), Precedence::Equality));
    return true;
  }
  if (isa<arith::SIToFPOp, arith::UIToFPOp, arith::ExtSIOp, arith::ExtUIOp,
          arith::TruncIOp, arith::IndexCastOp>(op)) {
    if (p.typeName(from, op) == p.typeName(to, op)) {
      p.define(result, p.take(input));
      return true;
    }
    Expression x = p.takeWhole(input);
    bool isBool = fromElement.isInteger(1);
    if (isa<arith::UIToFPOp>(op) || (isa<arith::ExtUIOp>(op) && !isBool))
      x = castTo(p, from, x, op, /*toUnsigned=*/true);
    x = castTo(p, to, x, op);
    p.define(result, isBool && isa<arith::ExtSIOp>(op) ? prefix("-", x) : x);
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
// Operators and functions
//===----------------------------------------------------------------------===//

namespace {
enum class Numbers { Floats, Signed, Unsigned };

/// The C++ operator, or function of the prelude, that implements an op.
struct OpForm {
  StringRef op, text;
  /// Primary: a function.
  Precedence precedence = Precedence::Primary;
  Numbers numbers = Numbers::Floats;
  /// Function that wraps around, for scalars; indices never overflow.
  StringRef wrapping = {};
};
} // namespace

static const OpForm kForms[] = {
    {"arith.addf", "+", Precedence::Sum},
    {"arith.subf", "-", Precedence::Sum},
    {"arith.mulf", "*", Precedence::Product},
    {"arith.divf", "/", Precedence::Product},
    {"arith.maximumf", "maximum"},
    {"arith.minimumf", "minimum"},
    {"math.absf", "abs"},
    {"math.ceil", "ceil"},
    {"math.copysign", "copySign"},
    {"math.floor", "floor"},
    {"math.fma", "fma"},
    {"math.roundeven", "roundEven"},
    {"math.sqrt", "sqrt"},
    {"math.trunc", "trunc"},
    {"arith.addi", "+", Precedence::Sum, Numbers::Signed, "add"},
    {"arith.subi", "-", Precedence::Sum, Numbers::Signed, "subtract"},
    {"arith.muli", "*", Precedence::Product, Numbers::Signed, "multiply"},
    {"arith.divsi", "/", Precedence::Product, Numbers::Signed},
    {"arith.divui", "/", Precedence::Product, Numbers::Unsigned},
    {"arith.remsi", "%", Precedence::Product, Numbers::Signed},
    {"arith.remui", "%", Precedence::Product, Numbers::Unsigned},
    {"arith.andi", "&", Precedence::BitAnd, Numbers::Signed},
    {"arith.ori", "|", Precedence::BitOr, Numbers::Signed},
    {"arith.xori", "^", Precedence::BitXor, Numbers::Signed},
    {"arith.shli", "<<", Precedence::Shift, Numbers::Unsigned},
    {"arith.shrui", ">>", Precedence::Shift, Numbers::Unsigned},
    {"arith.shrsi", ">>", Precedence::Shift, Numbers::Signed},
    {"arith.maxsi", "maximum", Precedence::Primary, Numbers::Signed},
    {"arith.minsi", "minimum", Precedence::Primary, Numbers::Signed},
    {"arith.maxui", "maximum", Precedence::Primary, Numbers::Unsigned},
    {"arith.minui", "minimum", Precedence::Primary, Numbers::Unsigned},
};

static bool bothNonNegative(Operation *op) {
  return llvm::all_of(op->getOperands(), isNonNegative);
}

/// Emits an operator or function on operands converted to unsigned.
static Expression unsignedOperation(KernelPrinter &p, Operation *op,
                                    StringRef text, Precedence precedence) {
  auto take = [&](unsigned operand) {
    Value value = op->getOperand(operand);
    return castTo(p, value.getType(), p.takeWhole(value), op,
                  /*toUnsigned=*/true);
  };
  Expression x = take(0), y = take(1);
  return precedence == Precedence::Primary
             ? call(("mpc::" + text).str(), {x, y})
             : binary(x, text, y, precedence);
}

/// Prints arithmetic modulo 2 and logic of booleans.
static bool printBoolean(KernelPrinter &p, Operation *op) {
  bool isVector = isa<VectorType>(op->getResult(0).getType());
  auto define = [&](const Expression &expression) {
    p.define(op->getResult(0), expression);
    return true;
  };
  if (isa<arith::XOrIOp>(op) && matchPattern(op->getOperand(1), m_One()))
    return define(prefix("!", p.takeWhole(op->getOperand(0))));
  if (isa<arith::XOrIOp, arith::AddIOp, arith::SubIOp>(op))
    return define(operation(p, op, "!=", Precedence::Equality));
  if (isa<arith::AndIOp, arith::MulIOp>(op))
    return define(isVector ? operation(p, op, "&", Precedence::BitAnd)
                           : operation(p, op, "&&", Precedence::And));
  if (isa<arith::OrIOp>(op) && !isVector)
    return define(operation(p, op, "||", Precedence::Or));
  return false;
}

/// 16-bit types are storage only.
static bool isStorage(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isF16() || element.isBF16();
}

static bool printForm(KernelPrinter &p, Operation *op) {
  const auto *form = llvm::find_if(kForms, [&](const OpForm &form) {
    return form.op == op->getName().getStringRef();
  });
  if (form == std::end(kForms))
    return false;
  Value result = op->getResult(0);
  bool isVector = isa<VectorType>(result.getType());
  Type element = getElementTypeOrSelf(result.getType());
  bool isFunction = form->precedence == Precedence::Primary;
  if (form->numbers == Numbers::Floats) {
    if (isStorage(element))
      return false;
    p.define(result, isFunction
                         ? p.function(op, form->text)
                         : operation(p, op, form->text, form->precedence));
    return true;
  }
  if (element.isInteger(1) && printBoolean(p, op))
    return true;
  if (form->numbers == Numbers::Unsigned && !bothNonNegative(op)) {
    Expression text = unsignedOperation(p, op, form->text, form->precedence);
    p.define(result, castTo(p, result.getType(), text, op));
    return true;
  }
  bool wraps = !form->wrapping.empty() && !element.isIndex() && !isVector;
  if (isFunction || wraps) {
    std::string name = (wraps ? form->wrapping : form->text).str();
    // A literal may differ in type from the other operand.
    bool isShort = element.isIndex() ? p.isIndex64()
                                     : element.getIntOrFloatBitWidth() < 32;
    if (!isVector && isShort)
      name += "<" + p.typeName(element, op) + ">";
    p.define(result, p.function(op, name));
    return true;
  }
  APInt constant;
  if (isa<arith::AddIOp>(op) && !isVector &&
      matchPattern(op->getOperand(1), m_ConstantInt(&constant)) &&
      constant.isNegative()) {
    Expression magnitude(std::to_string(-constant.getSExtValue()));
    p.define(result, binary(p.take(op->getOperand(0)), "-", magnitude,
                            Precedence::Sum));
    return true;
  }
  p.define(result, operation(p, op, form->text, form->precedence));
  return true;
}

//===----------------------------------------------------------------------===//
// Comparisons and selections
//===----------------------------------------------------------------------===//

static Expression compare(KernelPrinter &p, arith::CmpFOp op) {
  /// By predicate: an operator, or (Primary) a literal or function.
  struct Form {
    StringRef text;
    Precedence precedence = Precedence::Primary;
    /// Whether to negate the ordered opposite: true if an operand is NaN.
    bool negated = false;
  };
  static const Form kPredicates[] = {{"false"},
                                     {"==", Precedence::Equality},
                                     {">", Precedence::Relation},
                                     {">=", Precedence::Relation},
                                     {"<", Precedence::Relation},
                                     {"<=", Precedence::Relation},
                                     {"differs"},
                                     {"ordered"},
                                     {"equalOrNan"},
                                     {"<=", Precedence::Relation, true},
                                     {"<", Precedence::Relation, true},
                                     {">=", Precedence::Relation, true},
                                     {">", Precedence::Relation, true},
                                     {"!=", Precedence::Equality},
                                     {"anyNan"},
                                     {"true"}};
  using Predicate = arith::CmpFPredicate;
  Predicate predicate = op.getPredicate();
  const Form &form = kPredicates[static_cast<size_t>(predicate)];
  if (predicate == Predicate::AlwaysFalse ||
      predicate == Predicate::AlwaysTrue) {
    Expression result(form.text.str());
    result.splat = isa<VectorType>(op.getType());
    return result;
  }
  if (op.getLhs() == op.getRhs() &&
      (predicate == Predicate::ORD || predicate == Predicate::UNO)) {
    Expression isNan = call("mpc::isNan", p.takeWhole(op.getLhs()));
    return predicate == Predicate::UNO ? isNan : prefix("!", isNan);
  }
  if (form.precedence == Precedence::Primary)
    return p.function(op, form.text);
  Expression result = operation(p, op, form.text, form.precedence);
  return form.negated ? prefix("!", result) : result;
}

static Expression compare(KernelPrinter &p, arith::CmpIOp op) {
  // By predicate.
  static constexpr StringRef kSigns[] = {"==", "!=", "<",  "<=", ">",
                                         ">=", "<",  "<=", ">",  ">="};
  arith::CmpIPredicate predicate = op.getPredicate();
  StringRef sign = kSigns[static_cast<size_t>(predicate)];
  Precedence precedence = predicate <= arith::CmpIPredicate::ne
                              ? Precedence::Equality
                              : Precedence::Relation;
  return predicate < arith::CmpIPredicate::ult || bothNonNegative(op)
             ? operation(p, op, sign, precedence)
             : unsignedOperation(p, op, sign, precedence);
}

static Expression select(KernelPrinter &p, arith::SelectOp op) {
  bool isVector = isa<VectorType>(op.getType());
  Expression condition =
      isVector ? p.takeWhole(op.getCondition()) : p.take(op.getCondition());
  Expression x = p.take(op.getTrueValue()), y = p.take(op.getFalseValue());
  if (isVector) {
    if (x.splat && y.splat)
      x = p.whole(x, op.getType());
    return call("mpc::select", {condition, x, y});
  }
  return {condition.in(Precedence::Choice, true) + " ? " +
              x.in(Precedence::Choice, true) + " : " + y.in(Precedence::Choice),
          Precedence::Choice,
          {condition, x, y}};
}

bool cuda::printArithmetic(KernelPrinter &p, Operation *op) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    p.bind(constant,
           p.literal(constant.getValue(), constant.getType(), constant));
  else if (auto comparison = dyn_cast<arith::CmpFOp>(op))
    p.define(comparison, compare(p, comparison));
  else if (auto comparison = dyn_cast<arith::CmpIOp>(op))
    p.define(comparison, compare(p, comparison));
  else if (auto choice = dyn_cast<arith::SelectOp>(op))
    p.define(choice, select(p, choice));
  else if (auto negation = dyn_cast<arith::NegFOp>(op);
           negation && !isStorage(negation.getType()))
    p.define(negation, prefix("-", p.takeWhole(negation.getOperand())));
  else
    return printCast(p, op) || printForm(p, op);
  return true;
}
