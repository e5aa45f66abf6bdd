//===- GraphText.h - writer of mpc-dialect text -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_CHECKPOINT_GRAPHTEXT_H
#define MPC_LIB_IMPORT_CHECKPOINT_GRAPHTEXT_H

#include "mpc/Runtime/TensorType.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace mpc::checkpoint {

/// An SSA value of a graph.
struct Node {
  unsigned id = 0;
  TensorType type;

  const std::vector<int64_t> &shape() const { return type.shape; }
  /// Extent of dimension `i`, from the end if negative.
  int64_t dim(int64_t i) const {
    return type.shape[i < 0 ? i + int64_t(type.shape.size()) : i];
  }
};

/// Writes @main op by op, in generic syntax. Shapes of results are inferred.
/// Operands must be valid: nothing is checked, the import verifies the text.
class GraphText {
public:
  /// Layer path of the ops that follow ("model/layers/0/mlp").
  void setLayer(llvm::StringRef path) { layer = path.str(); }

  Node argument(llvm::StringRef name, TensorType type);
  void result(llvm::StringRef name, const Node &value);

  /// A constant whose bytes are external.
  Node external(llvm::StringRef identity, const TensorType &type);
  Node numbers(llvm::ArrayRef<float> values, std::vector<int64_t> shape);
  Node scalar(double value);
  Node integer(int64_t value);
  /// Indices along `axis` of a tensor of i64.
  Node iota(std::vector<int64_t> shape, int64_t axis);

  Node unary(llvm::StringRef op, const Node &x,
             const llvm::Twine &attributes = "");
  /// Broadcasts the operands.
  Node binary(llvm::StringRef op, const Node &lhs, const Node &rhs);
  Node add(const Node &lhs, const Node &rhs) { return binary("add", lhs, rhs); }
  Node mul(const Node &lhs, const Node &rhs) { return binary("mul", lhs, rhs); }
  /// `predicate`: "eq", "ne", "lt", "le", "gt", "ge".
  Node compare(llvm::StringRef predicate, const Node &lhs, const Node &rhs);
  Node select(const Node &condition, const Node &lhs, const Node &rhs);
  Node cast(const Node &x, ElementType element);
  /// Values of codes (ui8) of an 8-bit float format, in f32.
  Node decodeFloat(const Node &codes, ElementType format);

  Node reshape(const Node &x, std::vector<int64_t> shape);
  Node broadcast(const Node &x, std::vector<int64_t> shape);
  Node transpose(const Node &x, llvm::ArrayRef<int64_t> order);
  /// Elements [offset, offset + size) of dimension `axis`, from the end if
  /// negative.
  Node slice(const Node &x, int64_t axis, int64_t offset, int64_t size,
             int64_t stride = 1);
  Node concat(llvm::ArrayRef<Node> parts, int64_t axis);
  /// Rows of a table; an index outside of it is a run-time error.
  Node gather(const Node &table, const Node &indices);
  /// Inclusive prefix sum.
  Node cumsum(const Node &x, int64_t axis);
  Node reduceSum(const Node &x, int64_t axis, bool keepDim);

  /// `lhs [..., m, k]` times `rhs [..., k, n]`, or [..., n, k] if transposed.
  Node matmul(const Node &lhs, const Node &rhs, bool transposed);
  Node softmax(const Node &x, int64_t axis);
  /// Norms over the last dimension; `bias` may be null.
  Node layerNorm(const Node &x, const Node &scale, const Node *bias,
                 double epsilon);
  Node rmsNorm(const Node &x, const Node &scale, double epsilon);
  /// `mask` broadcasts to [batch, heads, queries, keys], of i1; may be null.
  Node attention(const Node &query, const Node &key, const Node &value,
                 const Node *mask, double scale, bool causal);

  /// Returns the complete text.
  std::string finish() const;

private:
  /// Appends `op` with `properties` ("axis = 1 : i64").
  Node emit(llvm::StringRef op, llvm::ArrayRef<Node> operands, TensorType type,
            const llvm::Twine &properties = "",
            const llvm::Twine &attributes = "");

  unsigned count = 0;
  std::string layer, arguments, body;
  struct Output {
    std::string name;
    Node value;
  };
  std::vector<Output> results;
};

} // namespace mpc::checkpoint

#endif // MPC_LIB_IMPORT_CHECKPOINT_GRAPHTEXT_H
