//===- Expression.h - C++ expressions as text -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_EMIT_EXPRESSION_H
#define MPC_LIB_TARGET_CUDA_EMIT_EXPRESSION_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace mpc::cuda {

/// Precedence of an expression's outermost operator, in C++ order.
enum class Precedence {
  Primary,
  Unary,
  Product,
  Sum,
  Shift,
  Relation,
  Equality,
  BitAnd,
  BitXor,
  BitOr,
  And,
  Or,
  Choice,
};

/// An expression without side effects.
struct Expression {
  std::string text;
  Precedence precedence = Precedence::Primary;
  /// Whether a later store may change the value.
  bool readsMemory = false;
  /// Variables in the text that are reassigned later.
  llvm::SmallVector<std::string, 1> variables;
  /// Whether the text is one lane of a vector with equal lanes.
  bool splat = false;
  /// Text of the left operand of a binary operator.
  std::string left;

  Expression() = default;
  /// Inherits the memory and variable dependences of `parts`, the
  /// subexpressions.
  Expression(std::string text, Precedence precedence = Precedence::Primary,
             llvm::ArrayRef<Expression> parts = {});

  /// Returns the text as an operand of an operator with precedence `outer`,
  /// parenthesized as needed; `closed`: also for equal precedence.
  std::string in(Precedence outer, bool closed = false) const;
  bool reads(llvm::StringRef variable) const;
};

/// "op x".
Expression prefix(llvm::StringRef op, const Expression &x);
/// "x op y".
Expression binary(const Expression &x, llvm::StringRef op, const Expression &y,
                  Precedence precedence);
/// "name(arguments)".
Expression call(llvm::StringRef name, llvm::ArrayRef<Expression> arguments,
                llvm::StringRef brackets = "()");

/// Breaks `line`, indented by `indent`, at spaces to fit into 80 columns if
/// possible; continuation lines are indented by four more.
std::string wrapped(llvm::StringRef line, int indent);

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_EMIT_EXPRESSION_H
