//===- ContractionEmitter.h - what contraction emitters share ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_CONTRACTIONEMITTER_H
#define MPC_LIB_TARGET_CPU_CONTRACTIONEMITTER_H

#include "ContractionSupport.h"

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

namespace mpc {

/// How a constant operand of element type `element` in the layout `packed` is
/// read; a diagnostic at `op` where the target cannot.
mlir::FailureOr<PanelForm> panelFormOf(mlir::Operation *op, PackedAttr packed,
                                       mlir::Type element, mlir::Type sumType,
                                       const CpuTarget &target);

/// Type in which a matmul or conv sums: f32 for floats up to f32, f64 where f64
/// takes part, the result's type for integers.
mlir::Type sumTypeOf(mlir::Operation *op);

/// Vectors to compute in a panel of which `used` columns count.
int64_t tailVectors(const Panel &panel, int64_t used, int64_t lanes);

/// A matrix product as an op describes it; see mpc.matmul.
struct MatrixProduct {
  mlir::Operation *op;
  mlir::Value lhs, rhs;
  bool transposeLhs, transposeRhs;
  PackedAttr packed;
};

/// A product's extents: batch x [m, depth] x [depth, n].
struct ProductShape {
  /// Fails with a diagnostic for results of rank below 2.
  static mlir::FailureOr<ProductShape> get(const MatrixProduct &product);

  /// Indices of an operand's batch dimensions for the batch at `position`
  /// (empty: the first).
  llvm::SmallVector<mlir::Value>
  batchIndices(IndexMath &math, llvm::ArrayRef<int64_t> operandBatch,
               llvm::ArrayRef<mlir::Value> position) const;

  int64_t batch = 1, m = 0, n = 0, depth = 0;
  llvm::SmallVector<int64_t> batchShape, lhsBatch, rhsBatch;
  /// Batch dimensions of the result count as rows (the right side has none).
  bool flattened = false;
  /// Extents that a row number runs over.
  llvm::SmallVector<int64_t> rowShape;
};

/// Whether a product of operands that no one has packed is worth being cut
/// along its depth as well.
bool isBlockedProduct(const MatrixProduct &product, const ProductShape &shape);

/// Emits the kernel around a product that is cut along its depth as well.
mlir::FailureOr<EmittedKernel> emitBlockedProduct(mlir::func::FuncOp kernel,
                                                  mlir::func::FuncOp impl,
                                                  const MatrixProduct &product,
                                                  const ProductShape &shape,
                                                  const CpuTarget &target);

/// Emits the kernel around `product`.
mlir::FailureOr<EmittedKernel> emitMatrixProduct(mlir::func::FuncOp kernel,
                                                 mlir::func::FuncOp impl,
                                                 const MatrixProduct &product,
                                                 const CpuTarget &target);

struct ConvolutionGeometry;

/// Emits a convolution in which every channel has its own filter.
mlir::FailureOr<EmittedKernel>
emitDepthwise(mlir::func::FuncOp kernel, mlir::func::FuncOp impl, ConvOp op,
              const ConvolutionGeometry &geometry, const CpuTarget &target);

} // namespace mpc

#endif // MPC_LIB_TARGET_CPU_CONTRACTIONEMITTER_H
