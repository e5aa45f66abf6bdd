//===- AssignLayout.h - patterns of mpc-assign-layout -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_ASSIGNLAYOUT_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_ASSIGNLAYOUT_H

#include "OpEmitter.h"

#include "mlir/IR/PatternMatch.h"

namespace mpc {

/// Patterns that sink transposes and reshapes below their users and merge
/// adjacent ones: through elementwise ops and matmuls, through data movement
/// and reductions, and for reshapes. Each pattern moves data movement towards
/// the function's end or removes it, so the set terminates.
void populateSinkPatterns(mlir::RewritePatternSet &patterns);
void populateMovementPatterns(mlir::RewritePatternSet &patterns);
void populateReshapePatterns(mlir::RewritePatternSet &patterns);

namespace layout {

/// Temporary attribute on optimizer-update arithmetic. Transposes do not sink
/// through it: master weights and moments have their own layouts, so one f32
/// transpose per moment would result.
inline constexpr llvm::StringLiteral kUpdateAttr = "mpc.update";

/// `values` in the order given by `permutation`: result[i] =
/// values[permutation[i]].
template <typename T>
llvm::SmallVector<T> permuted(llvm::ArrayRef<T> values,
                              llvm::ArrayRef<int64_t> permutation) {
  llvm::SmallVector<T> result;
  for (int64_t dimension : permutation)
    result.push_back(values[dimension]);
  return result;
}

inline mlir::RankedTensorType withShape(mlir::Value value,
                                        llvm::ArrayRef<int64_t> shape) {
  return mlir::RankedTensorType::get(shape, mlir::getElementTypeOrSelf(value));
}

/// Clones `op` with new operands and a new result type.
mlir::Value cloneWith(OpEmitter &emit, mlir::Operation *op,
                      mlir::ValueRange operands, mlir::Type type);

/// Returns true if undo() is (almost) free: the operand is a transpose by the
/// same permutation, a constant, or small compared to `resultElements`,
/// broadcast or not.
bool canUndo(mlir::Value operand, llvm::ArrayRef<int64_t> permutation,
             int64_t resultElements);

/// Returns the value v with transpose(v, permutation) == operand: the input of
/// an existing transpose, else a new inverse transpose.
mlir::Value undo(OpEmitter &emit, mlir::Value operand,
                 llvm::ArrayRef<int64_t> permutation);

} // namespace layout

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_ASSIGNLAYOUT_H
