//===- GemmPipeline.h - tiles on their way to shared memory -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_GEMMPIPELINE_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_GEMMPIPELINE_H

#include "Gemm.h"

namespace mpc {

/// Brings tiles of one operand to shared memory: by asynchronous copies where
/// the argument's memory holds what is multiplied and the target has them, else
/// through registers.
class TileLoader {
public:
  /// Tiles of `rows` rows; `tile` has the stages in front of
  /// GemmTiles::shapeOf.
  TileLoader(GpuKernel &kernel, const GemmProblem &problem,
             const GemmOperand &operand, const GemmTiles &tiles,
             mlir::Value tile, int64_t rows);

  /// Keeps the operand's halo in `memory`: copies what the block at `row` and
  /// `k` needs; the caller waits for it.
  void bringHalo(mlir::Value memory, mlir::Value row, mlir::Value k);
  /// The block's threads load the tile at `row`, `k` to `stage`.
  mlir::LogicalResult load(mlir::ValueRange batch, mlir::Value row,
                           mlir::Value k, mlir::Value stage);
  bool isAsync() const { return async; }
  /// The operand as the warp whose rows begin at `row` reads it.
  WarpOperand operandAt(mlir::Value stage, mlir::Value row) const;

private:
  /// The chunk at `position` of line `line` of the tile.
  mlir::LogicalResult loadChunk(mlir::ValueRange batch, mlir::Value row,
                                mlir::Value k, mlir::Value stage,
                                mlir::Value line, mlir::Value position);
  /// Copies all lines, `perLine` neighbouring threads one: the addresses of a
  /// thread's chunks are one but for constants.
  void copyLines(mlir::ValueRange batch, mlir::Value row, mlir::Value k,
                 mlir::Value stage, mlir::Value thread, int64_t perLine);
  /// Copies the chunk of `source`, whose elements lie in `memory`, to `to`
  /// where it is inside.
  void copyAsync(const GemmOperand &source, mlir::Value memory,
                 mlir::ValueRange batch, mlir::Value atRow, mlir::Value atDepth,
                 mlir::Value inside, mlir::ValueRange to);
  /// The same for the part, of [first, limit), that has the chunk.
  void copyPart(size_t first, size_t limit, mlir::ValueRange batch,
                mlir::Value atRow, mlir::Value atDepth, mlir::Value inside,
                mlir::ValueRange to);
  /// Where the parts before begin.
  int64_t beginOf(size_t part) const;
  /// `inside` (null: always) and what else must hold for a place of the tile
  /// not to lie behind the operand's end.
  mlir::Value withinOperand(mlir::Value inside, mlir::Value atRow,
                            mlir::Value atDepth);
  /// A chunk from `row` and `k` on made of the halo's elements.
  mlir::Value chunkOfHalo(mlir::ValueRange batch, mlir::Value row,
                          mlir::Value k);
  /// The chunk as it is stored in shared memory.
  mlir::FailureOr<mlir::Value> read(const OperandPlace &place);
  /// Elements of type `element` as those of tiles.
  mlir::Value narrowed(mlir::Value value, mlir::Type element);
  IndexMath math() const { return {kernel.builder, kernel.loc}; }

  GpuKernel &kernel;
  const GemmProblem &problem;
  const GemmOperand &operand;
  TilePlaces places;
  mlir::Value tile, memory;
  /// The part of the image in shared memory, and where in the image it begins.
  mlir::Value halo, haloBegin;
  llvm::SmallVector<mlir::Value> partMemory;
  int64_t rows, depth, chunk;
  bool async = false;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_GEMMPIPELINE_H
