//===- Expression.h - symbolic elements of tensors --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Expression DAG of translation validation: what one element of a tensor is, as
// a function of its index. Nodes are hash-consed: equal expressions are one
// node. Indices are affine forms of variables with floor division and
// remainder, normalized with the variables' extents.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_TRANSLATION_EXPRESSION_H
#define MPC_LIB_ANALYSIS_TRANSLATION_EXPRESSION_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Types.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/FoldingSet.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"

#include <deque>
#include <string>

namespace mpc::translation {

enum class Kind : uint8_t {
  /// Scalar constant. Numbers: bits (of a double if `type` is a float).
  Number,
  /// Index variable. Numbers: space, identifier, extent.
  Variable,
  /// c0 + sum of ci * operand i. Numbers: c0, c1, ...
  Linear,
  /// floor(operand / number), operand mod number.
  Quotient,
  Remainder,
  /// Element of the program's input `label` at the operands.
  Element,
  /// Element of the constant `attr` at the operands.
  Constant,
  /// Element of a constant whose elements have a hash, at variables.
  Table,
  /// Result of the operation `label`, rounded to `type`.
  Operation,
  /// Operand 0 in [number 0, number 1] ? operand 1 : operand 2.
  Select,
  /// Reduction `label` of the first operands over the variables that follow.
  /// Numbers: number of reduced expressions.
  Reduce,
  /// Closed function of canonical variables: operand 0 is its body.
  Function,
  /// Function or operation at indices.
  Apply,
};

struct Node : llvm::FoldingSetNode {
  Kind kind = Kind::Number;
  mlir::Type type;
  /// Null unless `kind` is Constant.
  mlir::ElementsAttr attr;
  llvm::StringRef label;
  llvm::ArrayRef<int64_t> numbers;
  llvm::ArrayRef<const Node *> operands;
  /// Position in order of creation.
  unsigned id = 0;
  /// Range of an index.
  int64_t low = 0, high = 0;
  /// Hash that does not depend on the names of variables.
  uint64_t shape = 0;
  /// Whether a variable occurs in the expression.
  bool isOpen = false;

  // llvm::FoldingSet requires this name.
  // NOLINTNEXTLINE(readability-identifier-naming)
  void Profile(llvm::FoldingSetNodeID &profile) const;
};

using Expr = const Node *;
using Indices = llvm::SmallVector<Expr, 4>;

/// Namespaces of variables.
enum class Space : int64_t {
  /// Dimension of the value that is described.
  Dimension,
  /// Bound by a reduction, or the parameter of one read.
  Fresh,
  /// Of a Function, numbered in order of first use.
  Canonical,
};

/// Returns true if no other element of `type` has this value as a double.
inline bool isExactNumber(double value, mlir::Type type) {
  return mlir::isa<mlir::FloatType>(type) ||
         (value > -0x1p53 && value < 0x1p53);
}

/// Owns and interns nodes.
class Expressions {
public:
  /// \name Indices
  /// @{
  Expr index(int64_t value);
  Expr variable(Space space, int64_t id, int64_t extent);
  /// A variable that no other call returns.
  Expr fresh(int64_t extent) { return variable(Space::Fresh, ++made, extent); }
  Expr add(Expr a, Expr b);
  Expr offset(Expr a, int64_t value) { return add(a, index(value)); }
  Expr scale(Expr a, int64_t factor);
  Expr quotient(Expr a, int64_t divisor);
  Expr remainder(Expr a, int64_t divisor);
  /// Row-major position of `indices` in `shape`, and the inverse.
  Expr flatten(llvm::ArrayRef<Expr> indices, llvm::ArrayRef<int64_t> shape);
  Indices unflatten(Expr position, llvm::ArrayRef<int64_t> shape);
  /// The index that a tensor's element gives in a dimension of `extent`:
  /// negative ones count from the end, others are clamped.
  Expr readIndex(Expr value, int64_t extent);
  /// @}

  /// \name Scalars
  /// @{
  /// Number of distinct expressions so far.
  size_t size() const { return storage.size(); }

  Expr number(double value, mlir::Type type);
  Expr element(llvm::StringRef input, mlir::Type type, llvm::ArrayRef<Expr> at);
  Expr constant(mlir::ElementsAttr attr, llvm::ArrayRef<Expr> at);
  Expr table(uint64_t hash, mlir::Type type, llvm::ArrayRef<Expr> variables);
  /// Normalizes casts: an exact conversion before another one is dropped.
  Expr operation(llvm::StringRef label, mlir::Type type,
                 llvm::ArrayRef<Expr> operands);
  /// a if low <= index <= high, else b.
  Expr select(Expr index, int64_t low, int64_t high, Expr a, Expr b);
  Expr reduce(llvm::StringRef label, mlir::Type type,
              llvm::ArrayRef<Expr> bodies, llvm::ArrayRef<Expr> variables);
  Expr function(Expr body);
  Expr apply(Expr function, mlir::Type type, llvm::ArrayRef<Expr> at);
  /// @}

  /// Replaces variables; normalizes again.
  Expr substitute(Expr expr, const llvm::DenseMap<Expr, Expr> &values);
  /// The same operands and attributes, normalized again.
  Expr rebuild(Expr expr, llvm::ArrayRef<Expr> operands);

  /// Writes the expression to at most `depth` levels.
  static std::string print(Expr expr, unsigned depth = 4);

  /// Numbers of rounding mode "relaxed": a cast to a narrower float and back
  /// is dropped.
  bool isRelaxed = false;

private:
  Expr intern(Node node, llvm::ArrayRef<int64_t> numbers,
              llvm::ArrayRef<Expr> operands);
  Expr linear(int64_t constant,
              llvm::SmallVectorImpl<std::pair<Expr, int64_t>> &terms);
  /// Splits `a` = divisor * quotient + remainder.
  std::pair<Expr, Expr> divide(Expr a, int64_t divisor);
  Expr substitute(Expr expr, const llvm::DenseMap<Expr, Expr> &values,
                  llvm::DenseMap<Expr, Expr> &done);

  llvm::FoldingSet<Node> nodes;
  std::deque<Node> storage;
  std::deque<llvm::SmallVector<int64_t, 4>> numberStorage;
  std::deque<Indices> operandStorage;
  llvm::StringMap<char> labels;
  int64_t made = 0;
};

} // namespace mpc::translation

#endif // MPC_LIB_ANALYSIS_TRANSLATION_EXPRESSION_H
