//===- StablehloVerify.h - shared checks of verifiers -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_STABLEHLO_IR_STABLEHLOVERIFY_H
#define MPC_LIB_DIALECT_STABLEHLO_IR_STABLEHLOVERIFY_H

#include "mpc/Dialect/Stablehlo/IR/StablehloOps.h"

namespace mpc::stablehlo {

inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return mlir::cast<mlir::ShapedType>(value.getType()).getShape();
}
inline mlir::Type elementOf(mlir::Value value) {
  return mlir::cast<mlir::ShapedType>(value.getType()).getElementType();
}

/// Checks the type of `value`.
mlir::LogicalResult verifyType(mlir::Operation *op, mlir::Value value,
                               llvm::ArrayRef<int64_t> shape,
                               mlir::Type element);

/// Checks that `dims`, called `name` in diagnostics, are unique and inside
/// `rank`.
mlir::LogicalResult verifyDims(mlir::Operation *op, llvm::StringRef name,
                               llvm::ArrayRef<int64_t> dims, size_t rank);

/// Returns the result extents of a window over `shape`; emits an error for
/// inconsistent attributes.
mlir::FailureOr<llvm::SmallVector<int64_t>>
windowedShape(mlir::Operation *op, llvm::ArrayRef<int64_t> shape,
              llvm::ArrayRef<int64_t> sizes,
              std::optional<llvm::ArrayRef<int64_t>> strides,
              std::optional<mlir::DenseIntElementsAttr> padding,
              std::optional<llvm::ArrayRef<int64_t>> baseDilations,
              std::optional<llvm::ArrayRef<int64_t>> windowDilations);

/// Dimension numbers of a gather (offset, collapsed, ...) or a scatter.
struct IndexNumbers {
  llvm::ArrayRef<int64_t> window, left, batch, indexBatch, map;
  int64_t vector;
};
struct IndexDims {
  /// Window dimensions of the operand.
  llvm::SmallVector<int64_t> windowDims;
  /// Extents of the indices without the index vector dimension.
  llvm::SmallVector<int64_t> batchShape;
};
/// Checks the dimension numbers of a gather or scatter against the ranks of the
/// operand and of the result (or updates).
mlir::FailureOr<IndexDims>
verifyIndexDims(mlir::Operation *op, llvm::ArrayRef<int64_t> indices,
                size_t rank, const IndexNumbers &numbers, size_t resultRank);

} // namespace mpc::stablehlo

#endif // MPC_LIB_DIALECT_STABLEHLO_IR_STABLEHLOVERIFY_H
