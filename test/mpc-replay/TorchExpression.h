//===- TorchExpression.h - the expressions of torch recordings --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A recording stores each call as a Python expression. Parses the subset of
// Python that such expressions use: names, numbers, strings, attributes, calls
// with keywords, subscripts, slices, tuples, lists, operators.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_REPLAY_TORCHEXPRESSION_H
#define MPC_TOOLS_REPLAY_TORCHEXPRESSION_H

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mpc::replay {

/// A node of an expression's tree.
struct Expression {
  enum class Kind {
    Name,      ///< text
    Number,    ///< number, isInteger
    String,    ///< text
    Sequence,  ///< parts: a tuple or list
    Attribute, ///< parts[0] . text
    Call,      ///< parts[0] ( parts[1..], keywords )
    Subscript, ///< parts[0] [ parts[1..] ]
    Slice,     ///< parts: start and stop; null where absent
    Unary,     ///< text parts[0]
    Binary,    ///< parts[0] text parts[1]
  };
  Kind kind = Kind::Name;
  std::string text;
  double number = 0;
  bool isInteger = false;
  std::vector<std::unique_ptr<Expression>> parts;
  std::vector<std::pair<std::string, std::unique_ptr<Expression>>> keywords;

  /// The dotted name that a chain of attributes spells: "torch.linalg.norm";
  /// empty for anything else.
  std::string dottedName() const;
};

/// Parses `text` up to its end or a comment. Throws
/// std::runtime_error with the column of a syntax error.
std::unique_ptr<Expression> parseExpression(const std::string &text);

} // namespace mpc::replay

#endif // MPC_TOOLS_REPLAY_TORCHEXPRESSION_H
