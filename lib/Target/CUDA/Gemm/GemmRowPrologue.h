//===- GemmRowPrologue.h - row prologue of GEMM (norm, softmax) -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fuses a norm or softmax along k into the GEMM that consumes it as its
// left-hand side. Before its first step a block computes the rows of its tile,
// with the program of a row kernel (RowReductionPlan.h), and holds them in
// shared memory as the tiles of all steps: each element is loaded, normalized
// and rounded once per block.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_GEMM_GEMMROWPROLOGUE_H
#define MPC_LIB_TARGET_CUDA_GEMM_GEMMROWPROLOGUE_H

#include "../Rows/RowReductionPlan.h"

namespace mpc::cuda {

struct GemmTiles;

class GemmRowPrologue {
public:
  /// Returns true if `operand` depends on a row-wise op.
  static bool make(mlir::Value operand);
  /// Analyzes `operand` of `kernel`, `rows` rows of `depth` elements; null if
  /// it is not of the row form or in another order. Results of the kernel that
  /// do not depend on `product` are stored along with the rows.
  static std::unique_ptr<GemmRowPrologue> of(mlir::func::FuncOp kernel,
                                             mlir::Operation *product,
                                             mlir::Value operand, int64_t rows,
                                             int64_t depth);

  /// Indices of these results.
  llvm::ArrayRef<unsigned> outputs() const { return stored; }

  /// Thread groups that compute the rows of a block.
  tile::ThreadMappingAttr team(const GemmTiles &tiles) const;
  /// Computes the rows from `rowBegin` on, for all of k, into `tile`:
  /// [steps][rows of a tile][pitch]. Needs a barrier before `tile` is read.
  /// Blocks with `columnBegin` 0 store results.
  mlir::LogicalResult emit(GpuKernel &kernel, const GemmTiles &tiles,
                           mlir::Value rowBegin, mlir::Value columnBegin,
                           mlir::Value tile) const;

  /// Bytes that a block reads for its rows, and sequential rounds of rows.
  double bytes(const GemmTiles &tiles) const;
  int64_t rounds(const GemmTiles &tiles) const {
    return team(tiles).getRounds();
  }

private:
  int64_t rowsOf(const GemmTiles &tiles) const;
  RowThreadMapping geometry(const GemmTiles &tiles) const;
  /// Clears the padding of k in the last step, and rows past the end.
  void clearEnds(GpuKernel &kernel, const GemmTiles &tiles,
                 mlir::Value tile) const;

  /// Plan of a kernel whose first result is the operand.
  std::unique_ptr<RowReductionPlan> plan;
  llvm::SmallVector<unsigned> stored;
  int64_t count = 0, depth = 0;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_GEMM_GEMMROWPROLOGUE_H
