//===- GemmOperandSums.h - operand sums of GEMM (bias gradient) -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A GEMM that also stores the sums of one operand over k: a weight gradient
// fused with the bias gradient. The blocks of the first row (column) of tiles
// accumulate the operand's tiles in shared memory, in f32 without rounding to
// the unit's type.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_GEMM_GEMMOPERANDSUMS_H
#define MPC_LIB_TARGET_CUDA_GEMM_GEMMOPERANDSUMS_H

#include "Gemm.h"

namespace mpc::cuda {

/// Operand sums of one kernel; no-op for a problem without any.
class GemmOperandSums {
public:
  GemmOperandSums(GpuKernel &kernel, const FusedGemm &problem,
                  const GemmTiles &tiles);

  /// Returns true if a block has enough threads: one per row if rows extend
  /// along k.
  static bool fits(const FusedGemm &problem, const GemmTiles &tiles);

  /// Shared memory for the reduction over threads, and scratch buffer for the
  /// split-K reduction over blocks, in bytes.
  static int64_t sharedBytes(const FusedGemm &problem, const GemmTiles &tiles);
  static int64_t scratchBytes(const FusedGemm &problem, const GemmTiles &tiles);

  /// Clears the accumulators, for the block's tile at `rowBegin`,
  /// `columnBegin`.
  void prepare(mlir::Value rowBegin, mlir::Value columnBegin);
  /// Accumulates one stage of the block's tiles.
  void accumulate(const WarpOperand &lhs, const WarpOperand &rhs);
  /// Stores the sums. Overwrites the tiles in `shared`; needs a barrier before
  /// the next write there.
  void finish(mlir::Value shared);
  /// Split-K: stores the partial sums of block `split`, at byte `offset` of the
  /// scratch buffer.
  void leave(mlir::Value shared, mlir::Value split, int64_t offset);
  /// Reduces the partial sums of all blocks, in order, and stores the result.
  void addUp(int64_t offset);

private:
  /// Distribution of a tile of `rows` by `depth` over threads: `groups` of
  /// `lanes` adjacent rows, times `parts` positions along k.
  struct Shares {
    Shares(const FusedGemm &problem, const GemmTiles &tiles);
    int64_t rows, depth, lanes, groups, parts;
  };

  /// Runs `body` for threads below `count`, in summing blocks.
  void byThreads(int64_t count, llvm::function_ref<void(mlir::Value)> body);
  /// Distributes the rows of the tile over the threads of these blocks.
  void byRows(llvm::function_ref<void(mlir::Value)> body);
  /// Reduces over threads: `take` gets the sum of each row of the tile.
  void join(mlir::Value shared,
            llvm::function_ref<void(mlir::Value sum, mlir::Value row)> take);
  void store(mlir::Value sum, mlir::Value row);
  mlir::Value partials(int64_t offset);
  IndexMath math() { return {kernel.builder, kernel.loc}; }

  GpuKernel &kernel;
  const FusedGemm &problem;
  GemmTiles tiles;
  Shares shares;
  /// Accumulators of the thread; first row of the block; whether the block sums
  /// (null: always).
  mlir::Value sums, begin, isSumming;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_GEMM_GEMMOPERANDSUMS_H
