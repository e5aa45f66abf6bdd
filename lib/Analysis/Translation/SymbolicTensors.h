//===- SymbolicTensors.h - tensors as functions of their index --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_TRANSLATION_SYMBOLICTENSORS_H
#define MPC_LIB_ANALYSIS_TRANSLATION_SYMBOLICTENSORS_H

#include "Expression.h"

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "mlir/IR/Operation.h"

#include <map>
#include <optional>
#include <vector>

namespace mpc::translation {

/// Position of a tensor in SymbolicTensors.
using TensorId = unsigned;

/// An element as a closed function of the dimensions of its tensor. Two tensors
/// have equal elements if their forms are equal: the function's parameters are
/// numbered in order of use, so the form does not depend on layouts.
struct ClosedForm {
  Expr function = nullptr;
  /// For each parameter, its value.
  Indices arguments;
  bool operator==(const ClosedForm &) const = default;
};

/// A consecutive range of a buffer's elements.
struct Piece {
  /// First element in the viewed range.
  int64_t offset = 0;
  /// Elements of `tensor` before the piece.
  int64_t skipped = 0;
  int64_t size = 0;
  TensorId tensor = 0;
};

/// Meanings of ops: what an element of a result is, from the definitions in the
/// dialect's documentation. Sums, products and composite ops become closed
/// functions that are applied at an index, and so do long chains of elementwise
/// ops, so that expressions do not grow with the depth of a model; other
/// elementwise ops and data movement are inlined.
class SymbolicTensors {
public:
  explicit SymbolicTensors(Expressions &expressions) : make(expressions) {}

  TensorId input(llvm::StringRef name, mlir::RankedTensorType type);
  TensorId constant(mlir::ElementsAttr value);
  /// Result `number` of `op` on tensors.
  TensorId result(mlir::Operation *op, unsigned number,
                  llvm::ArrayRef<TensorId> operands);
  /// The elements of `pieces` in order, as `type`.
  TensorId view(llvm::ArrayRef<Piece> pieces, mlir::RankedTensorType type);

  /// Dimension i of the result is dimension permutation[i] of the tensor.
  TensorId transpose(TensorId id, llvm::ArrayRef<int64_t> permutation);

  /// The value of a constant, else null.
  mlir::ElementsAttr constantValue(TensorId id) const {
    return tensors[id].value;
  }
  /// Variable of dimension `dim` in forms.
  Expr dimension(size_t dim, int64_t extent) {
    return make.variable(Space::Dimension, int64_t(dim), extent);
  }
  mlir::RankedTensorType typeOf(TensorId id) const { return tensors[id].type; }

  /// Returns true if there are too many expressions for a proof. Results of
  /// further ops are then values of their own.
  bool isExhausted() const;

  /// The element at `at`, one index per dimension.
  Expr read(TensorId id, llvm::ArrayRef<Expr> at);
  /// The element at the dimensions themselves.
  ClosedForm form(TensorId id);

private:
  struct Tensor {
    mlir::RankedTensorType type;
    std::string name;
    mlir::ElementsAttr value;
    mlir::Operation *op = nullptr;
    unsigned number = 0;
    llvm::SmallVector<TensorId, 3> operands;
    llvm::SmallVector<Piece, 1> pieces;
    /// Of a transposed piece.
    llvm::SmallVector<int64_t> permutation;
    /// Elementwise ops that are inlined, on the longest path.
    unsigned depth = 0;
  };

  /// Returns the longest path of inlined elementwise ops to a result.
  unsigned inlinedDepth(const Tensor &tensor) const;
  Expr readAsFunction(TensorId id, llvm::ArrayRef<Expr> at);
  /// The element of an op's result.
  Expr evaluate(const Tensor &tensor, llvm::ArrayRef<Expr> at);
  Expr elementwise(const Tensor &tensor, llvm::ArrayRef<Expr> at);
  /// Null for other ops.
  Expr movement(const Tensor &tensor, llvm::ArrayRef<Expr> at);
  Expr gather(const Tensor &tensor, llvm::ArrayRef<Expr> at);
  Expr reduction(const Tensor &tensor, llvm::ArrayRef<Expr> at);
  Expr contraction(const Tensor &tensor, llvm::ArrayRef<Expr> at);
  Expr convolution(const Tensor &tensor, llvm::ArrayRef<Expr> at);
  Expr pool(const Tensor &tensor, llvm::ArrayRef<Expr> at);
  Expr rowMap(const Tensor &tensor, llvm::ArrayRef<Expr> at);
  Expr opaqueResult(const Tensor &tensor, llvm::ArrayRef<Expr> at);
  /// Element of an operand that broadcasts to `at`.
  Expr broadcast(TensorId id, llvm::ArrayRef<Expr> at);
  /// An index that an operand's element gives; clamped to `extent`.
  Expr indexFrom(Expr value, int64_t extent);
  /// Replaces an op on constants by its value.
  void fold(Tensor &tensor);

  /// Closes an expression over its variables.
  ClosedForm close(Expr expr);
  Expr splitVariables(Expr expr, llvm::DenseMap<Expr, Expr> &values);
  /// Replaces reads of constants by tables of their elements.
  Expr tabulate(Expr expr, llvm::DenseMap<Expr, Expr> &done);

  Expressions &make;
  std::vector<Tensor> tensors;
  std::map<std::pair<TensorId, llvm::SmallVector<Expr, 4>>, Expr> memo;
  llvm::DenseMap<Expr, ClosedForm> closed;
  llvm::DenseMap<Expr, uint64_t> hashes;
  llvm::DenseMap<Expr, double> splats;
};

} // namespace mpc::translation

#endif // MPC_LIB_ANALYSIS_TRANSLATION_SYMBOLICTENSORS_H
