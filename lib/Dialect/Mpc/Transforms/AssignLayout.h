//===- AssignLayout.h - the rewrites of mpc-assign-layout -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_ASSIGNLAYOUT_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_ASSIGNLAYOUT_H

#include "OpEmitter.h"

#include "mlir/IR/PatternMatch.h"

namespace mpc {

/// Patterns that move transposes and reshapes behind the ops that read them,
/// and merge those that meet: elementwise ops and products, what moves or
/// reduces, and reshapes. Each moves data movement towards the function's end
/// or removes it, so the set terminates.
void populateSinkPatterns(mlir::RewritePatternSet &patterns);
void populateMovementPatterns(mlir::RewritePatternSet &patterns);
void populateReshapePatterns(mlir::RewritePatternSet &patterns);

namespace layout {

/// Stands, while the pass runs, on the arithmetic of updates. A transpose stops
/// there: masters and moments have orders of their own, so that it would go on
/// as one transpose per moment, of wide values.
inline constexpr llvm::StringLiteral kUpdateAttr = "mpc.update";

/// Dimension `i` of the result taken from dimension `permutation[i]` of
/// `values`.
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

/// Copies `op` with other operands and result type.
mlir::Value cloneWith(OpEmitter &emit, mlir::Operation *op,
                      mlir::ValueRange operands, mlir::Type type);

/// Whether undo() costs nothing, or next to nothing: for a transpose by the
/// same permutation, a constant and something small beside `resultElements`,
/// repeated or not.
bool canUndo(mlir::Value operand, llvm::ArrayRef<int64_t> permutation,
             int64_t resultElements);

/// The value from which `operand` becomes with `permutation`: known for a
/// transpose by the same permutation, else made by the inverse one.
mlir::Value undo(OpEmitter &emit, mlir::Value operand,
                 llvm::ArrayRef<int64_t> permutation);

} // namespace layout

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_ASSIGNLAYOUT_H
