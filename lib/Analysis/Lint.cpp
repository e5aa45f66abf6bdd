//===- Lint.cpp - static lint for low-precision types ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the lint checks and sorts their warnings by op.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Lint.h"

#include "LintContext.h"
#include "ScalarEvaluation.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Support/EscapedText.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Helpers of the parts
//===----------------------------------------------------------------------===//

FloatType mpc::narrowTypeOf(Value value) {
  auto type = dyn_cast<FloatType>(getElementTypeOrSelf(value.getType()));
  return type && type.getWidth() == 16 ? type : FloatType();
}

std::string mpc::nameOf(FloatType type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << type;
  return text;
}

std::string mpc::numberText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return text;
}

std::string mpc::describe(Operation *op) {
  SmallVector<StringRef> names = opNames(op);
  if (names.empty())
    return "mpc." + op->getName().stripDialect().str();
  return "'" + names.front().str() + "'";
}

std::string mpc::overrideOf(ArrayRef<Operation *> ops) {
  /// More names than this are summarized by kind.
  constexpr size_t kMostNames = 3;
  llvm::SmallSetVector<StringRef, 4> names, kinds;
  bool allNamed = true;
  for (Operation *op : ops) {
    if (auto decision =
            op->getAttrOfType<DecisionAttr>(MpcDialect::kDecisionAttr))
      if (decision.getRule() == "untouched" || decision.getRule() == "pin")
        return "the model sets this type; change it to float32 in the model";
    SmallVector<StringRef> own = opNames(op);
    allNamed &= !own.empty();
    if (!own.empty())
      names.insert(own.front());
    auto precision = dyn_cast<PrecisionOpInterface>(op);
    kinds.insert(precision ? precision.getPrecisionKind()
                           : op->getName().stripDialect());
  }
  bool byName = allNamed && names.size() <= kMostNames;
  std::string text;
  for (StringRef word : byName ? names : kinds)
    text += (text.empty() ? "--set " : " --set ") +
            shellWord((byName ? "name:" : "op:") + word.str() + "=float32");
  return text;
}

bool mpc::isTransparent(Operation *op) {
  if (auto cast = dyn_cast<CastOp>(op))
    return isa<FloatType>(getElementTypeOrSelf(cast.getInput().getType())) &&
           isa<FloatType>(getElementTypeOrSelf(cast.getType()));
  return isUnaryMovement(op);
}

Value mpc::beforeCasts(Value value) {
  while (auto cast = value.getDefiningOp<CastOp>()) {
    if (!isTransparent(cast))
      break;
    value = cast.getInput();
  }
  return value;
}

void mpc::sortByPlace(SmallVectorImpl<OpOperand *> &reads) {
  llvm::sort(reads, [](OpOperand *a, OpOperand *b) {
    Operation *first = a->getOwner(), *second = b->getOwner();
    if (first == second)
      return a->getOperandNumber() < b->getOperandNumber();
    return first->isBeforeInBlock(second);
  });
}

SmallVector<OpOperand *> mpc::readersOf(Value value) {
  SmallVector<OpOperand *> readers;
  SmallVector<Value> pending = {value};
  while (!pending.empty())
    for (OpOperand &use : pending.pop_back_val().getUses()) {
      if (isTransparent(use.getOwner()))
        pending.push_back(use.getOwner()->getResult(0));
      else
        readers.push_back(&use);
    }
  sortByPlace(readers);
  return readers;
}

/// Returns true if an elementwise op maps a zero in operand `index` to zero,
/// with its other non-constant operands zero too.
static bool passesZero(Operation *op, unsigned index) {
  if (!isa<ElementwiseOpInterface>(op) ||
      !isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType())))
    return false;
  SmallVector<double> values;
  for (OpOperand &operand : op->getOpOperands())
    values.push_back(operand.getOperandNumber() == index
                         ? 0
                         : constantSplat(operand.get()).value_or(0));
  return evaluateAt(op, values) == 0.0;
}

bool mpc::guardsDivision(Value value) {
  constexpr unsigned kDepth = 4;
  SmallVector<std::pair<Value, unsigned>> pending = {{value, 0}};
  while (!pending.empty()) {
    auto [current, depth] = pending.pop_back_val();
    for (OpOperand *use : readersOf(current)) {
      Operation *user = use->getOwner();
      unsigned index = use->getOperandNumber();
      if (isSingularAtZero(user, index))
        return true;
      if (auto power = dyn_cast<PowOp>(user)) {
        std::optional<double> exponent = constantSplat(power.getRhs());
        if (index == 0 && exponent && *exponent < 0)
          return true;
      }
      if (depth < kDepth && passesZero(user, index))
        pending.push_back({user->getResult(0), depth + 1});
    }
  }
  return false;
}

//===----------------------------------------------------------------------===//
// LintContext, NumericLint
//===----------------------------------------------------------------------===//

void LintContext::report(StringRef code, Operation *op, double value,
                         const Twine &text, std::string fix) {
  warnings.push_back(
      {code.str(), op, numberText(value), text.str(), std::move(fix)});
}

NumericLint::NumericLint(func::FuncOp func) {
  for (auto op : func.getBody().front().getOps<ConstantOp>())
    if (getElementTypeOrSelf(op.getType()).isF32())
      for (OpOperand &use : op->getUses())
        originals[{use.getOwner(), use.getOperandNumber()}] = {
            op.getValue(), "constant " + describe(op)};
}

std::vector<LintWarning> NumericLint::run(func::FuncOp func,
                                          const Policy &policy) {
  LintContext context(func, policy, originals);
  lintConstants(context);
  lintRanges(context);
  lintSums(context);
  lintIntegers(context);
  lintCoordinates(context);
  lintMeasured(context);
  lintStored(context);
  lintOperands(context);
  // In the order of the ops; warnings about one op stay in the checks' order.
  llvm::DenseMap<Operation *, size_t> positions;
  for (auto [position, op] : llvm::enumerate(context.body()))
    positions[&op] = position;
  std::vector<std::pair<size_t, size_t>> order;
  for (auto [index, warning] : llvm::enumerate(context.warnings))
    order.push_back({positions.lookup(warning.op), index});
  llvm::sort(order);
  std::vector<LintWarning> sorted;
  sorted.reserve(order.size());
  for (auto [position, index] : order)
    sorted.push_back(std::move(context.warnings[index]));
  return sorted;
}
