//===- Expression.cpp - C++ expressions as text ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Expression.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mpc;
using namespace mpc::cuda;
using llvm::StringRef;

/// Line width. Longer lines are broken at the space with the least nesting of
/// parentheses, the last such space within the width.
static constexpr size_t kColumns = 80;

Expression::Expression(std::string text, Precedence precedence,
                       llvm::ArrayRef<Expression> parts)
    : text(std::move(text)), precedence(precedence) {
  for (const Expression &part : parts) {
    readsMemory |= part.readsMemory;
    for (const std::string &variable : part.variables)
      if (!reads(variable))
        variables.push_back(variable);
  }
}

std::string Expression::in(Precedence outer, bool closed) const {
  // Parenthesize arithmetic inside shifts and bit operators for readability.
  bool bits = outer == Precedence::Shift ||
              (outer >= Precedence::BitAnd && outer <= Precedence::BitOr);
  bool enclose = precedence > outer || (closed && precedence == outer) ||
                 (bits && precedence > Precedence::Unary) ||
                 (outer == Precedence::Or && precedence == Precedence::And);
  return enclose ? "(" + text + ")" : text;
}

bool Expression::reads(StringRef variable) const {
  return llvm::is_contained(variables, variable);
}

Expression cuda::prefix(StringRef op, const Expression &x) {
  std::string operand = x.in(Precedence::Unary);
  // "--x" would be a decrement.
  if (op == "-" && operand.front() == '-')
    operand = "(" + operand + ")";
  return {op.str() + operand, Precedence::Unary, x};
}

Expression cuda::binary(const Expression &x, StringRef op, const Expression &y,
                        Precedence precedence) {
  Expression result(x.in(precedence) + " " + op.str() + " " +
                        y.in(precedence, /*closed=*/true),
                    precedence, {x, y});
  result.left = x.text;
  return result;
}

Expression cuda::call(StringRef name, llvm::ArrayRef<Expression> arguments,
                      StringRef brackets) {
  std::string list = llvm::join(
      llvm::map_range(arguments, [](const Expression &x) { return x.text; }),
      ", ");
  return {name.str() + brackets.front() + list + brackets.back(),
          Precedence::Primary, arguments};
}

std::string cuda::wrapped(StringRef line, int indent) {
  std::string result(indent, ' ');
  size_t column = indent;
  while (column + line.size() > kColumns) {
    size_t best = StringRef::npos;
    int depth = 0, bestDepth = 0;
    for (size_t i = 0; i < line.size(); ++i) {
      if (column + i > kColumns && best != StringRef::npos)
        break;
      if (line[i] == '(' || line[i] == '[' || line[i] == '{')
        ++depth;
      else if (line[i] == ')' || line[i] == ']' || line[i] == '}')
        --depth;
      // Break after an operator.
      bool breakable = line[i] == ' ' && i >= 8 &&
                       StringRef(",;=+-*/%<>|&?:").contains(line[i - 1]);
      if (breakable && (best == StringRef::npos || depth <= bestDepth)) {
        best = i;
        bestDepth = depth;
      }
    }
    if (best == StringRef::npos)
      break;
    result += line.take_front(best);
    result += "\n" + std::string(indent + 4, ' ');
    column = indent + 4;
    line = line.drop_front(best + 1);
  }
  return result + line.str();
}
