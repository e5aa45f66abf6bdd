//===- GatedMatmulColumns.h - GEMMs with interleaved columns ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two GEMMs of one left operand (gate and up projection) merged into one whose
// columns alternate in blocks between both matrices, so that one tile of
// accumulators holds both elements of each pair. Shared by
// mpc-fuse-gated-matmuls, the fuser and the kernels.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_GATEDMATMULCOLUMNS_H
#define MPC_ANALYSIS_GATEDMATMULCOLUMNS_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Target/TargetInfo.h"

#include <array>
#include <optional>

namespace mpc {
class MatmulOp;

struct GatedMatmulColumns {
  /// Matches a GEMM whose columns are split into halves: reshaped to
  /// alternating blocks, `[..., n, 2, block]`, of which a slice and a reshape
  /// to `[..., n * block]` give each half, without other readers in between.
  /// nullopt otherwise, or if `hasTypes` is false.
  static std::optional<GatedMatmulColumns> of(mlir::Operation *product);

  /// Columns per block on such targets: half of a panel, or one vector store of
  /// 16-bit floats. 0: not supported.
  static int64_t blockFor(const KernelCapabilities &kernels);

  /// Returns true for a GEMM of f32 and 16-bit floats with f32 accumulators.
  static bool hasTypes(MatmulOp product);

  /// Returns the column of the GEMM that holds column `column` of a half.
  int64_t placeOf(int64_t column, int64_t half) const {
    return (column / block * 2 + half) * block + column % block;
  }

  int64_t block = 0;
  /// Operands of the epilogues.
  std::array<mlir::Value, 2> halves;
  /// The reshape, the slices and their reshapes, in topological order.
  llvm::SmallVector<mlir::Operation *, 5> views;
};

} // namespace mpc

#endif // MPC_ANALYSIS_GATEDMATMULCOLUMNS_H
