//===- Expression.h - pieces of C++ text ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_EMIT_EXPRESSION_H
#define MPC_LIB_TARGET_CUDA_EMIT_EXPRESSION_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace mpc {

/// How strongly the outermost operator of a text binds, as C++ has it.
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
  /// Whether a store may change its value.
  bool readsMemory = false;
  /// The variables in it that are assigned to later.
  llvm::SmallVector<std::string, 1> variables;
  /// A vector of equal lanes written as one of them.
  bool splat = false;

  Expression() = default;
  Expression(std::string text, Precedence precedence = Precedence::Primary)
      : text(std::move(text)), precedence(precedence) {}

  /// The text as an operand of something that binds as strongly as `outer`;
  /// `closed`: the same strength needs parentheses too.
  std::string in(Precedence outer, bool closed = false) const;
  /// Takes over what `part`, which this text contains, depends on.
  void depend(const Expression &part);
  bool reads(llvm::StringRef variable) const;
};

/// "x op y".
Expression binary(const Expression &x, llvm::StringRef op, const Expression &y,
                  Precedence precedence);
/// "name(arguments)".
Expression call(llvm::StringRef name, llvm::ArrayRef<Expression> arguments);

/// Breaks `line`, indented by `indent`, at spaces so that it keeps to 80
/// columns where it can; continuations are indented by four more.
std::string wrapped(llvm::StringRef line, int indent);

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_EMIT_EXPRESSION_H
