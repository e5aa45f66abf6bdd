//===- GemmPipeline.h - loads of tiles into shared memory -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_GEMM_GEMMPIPELINE_H
#define MPC_LIB_TARGET_CUDA_GEMM_GEMMPIPELINE_H

#include "Gemm.h"

namespace mpc::cuda {

/// Loads tiles of one operand into shared memory: by cp.async if the elements
/// need no conversion and the target has it, else through registers.
class TileLoader {
public:
  /// Tiles of `rows` rows; `tile` is [stages] + GemmTiles::shapeOf.
  TileLoader(GpuKernel &kernel, const FusedGemm &problem,
             const GemmOperand &operand, const GemmTiles &tiles,
             mlir::Value tile, int64_t rows);

  /// Loads the tile at `row`, `k` into `stage`, by all threads of the block.
  mlir::LogicalResult load(mlir::ValueRange batch, mlir::Value row,
                           mlir::Value k, mlir::Value stage);
  bool isAsync() const { return async; }
  /// Returns the operand for the warp whose rows start at `row`.
  WarpOperand operandAt(mlir::Value stage, mlir::Value row) const;

private:
  /// Loads the chunk at `position` of tile row `line`.
  mlir::LogicalResult loadChunk(mlir::ValueRange batch, mlir::Value row,
                                mlir::Value k, mlir::Value stage,
                                mlir::Value line, mlir::Value position);
  /// Copies all rows, `perLine` adjacent threads per row: the addresses of a
  /// thread's chunks differ by constants.
  void copyLines(mlir::ValueRange batch, mlir::Value row, mlir::Value k,
                 mlir::Value stage, mlir::Value thread, int64_t perLine);
  /// Copies the chunk at `place` to `to` if it is inside, else zero-fills.
  void copyAsync(const OperandLocation &place, mlir::ValueRange to);
  /// Loads a chunk in the tile's element type.
  mlir::FailureOr<mlir::Value> read(const OperandLocation &place);
  IndexMath math() const { return {kernel.builder, kernel.loc}; }

  GpuKernel &kernel;
  const FusedGemm &problem;
  const GemmOperand &operand;
  /// Element type of the tile.
  mlir::Type type;
  TileLayout places;
  mlir::Value tile, memory;
  int64_t rows, depth, chunk;
  bool async = false;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_GEMM_GEMMPIPELINE_H
