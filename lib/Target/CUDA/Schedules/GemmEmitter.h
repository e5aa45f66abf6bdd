//===- GemmEmitter.h - codegen of a GEMM kernel -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block computes one tile of the result. Tiles of both operands are
// prefetched into shared memory several stages ahead of the warps that multiply
// them. Accumulators are then staged through shared memory, so that the
// epilogue accesses whole vectors.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_GEMMEMITTER_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_GEMMEMITTER_H

#include "GemmOperandSums.h"
#include "GemmPipeline.h"

namespace mpc {

/// Generates the body of one kernel.
class GemmEmitter {
public:
  GemmEmitter(GpuKernel &kernel, const FusedGemm &problem,
              const GemmEpilogue &epilogue)
      : kernel(kernel), problem(problem), epilogue(epilogue),
        tiles(GemmTiles::of(kernel.schedule)),
        operandSums(kernel, problem, tiles) {}

  mlir::LogicalResult emit();

private:
  // Block indices and main loop (Gemm.cpp).

  void placeBlock();
  /// Copies the regions of images (halos) that the block needs to shared
  /// memory, from position `k` on.
  void bringHalos(TileLoader &lhs, TileLoader &rhs, mlir::Value k);
  mlir::LogicalResult multiply();

  // Epilogue (GemmEpilogueStaging.cpp).

  /// Epilogue of a block that has reduced all of k.
  mlir::LogicalResult finish();
  /// Split-K: reduces over the blocks of a tile first.
  mlir::LogicalResult finishSplit();
  /// Stages the warp's accumulators in shared memory, slice by slice: `take`
  /// gets the shared array and the slice's first row.
  mlir::LogicalResult
  handOver(llvm::function_ref<mlir::LogicalResult(mlir::Value slab,
                                                  mlir::Value firstRow)>
               take);
  /// for (round = 0; round < count; ++round) body(round), partly unrolled.
  mlir::LogicalResult
  forRounds(int64_t count,
            llvm::function_ref<mlir::LogicalResult(mlir::Value)> body);
  /// for (item = lane; item < count; item += 32) body(item).
  mlir::LogicalResult
  forItems(int64_t count,
           llvm::function_ref<mlir::LogicalResult(mlir::Value)> body);
  /// Applies the epilogue to lanesRead() columns of a row of the warp's tile;
  /// `read` returns the accumulators from a column of the tile on.
  mlir::LogicalResult
  finishElement(mlir::Value warpTileRow, mlir::Value warpTileColumn,
                llvm::function_ref<mlir::Value(mlir::Value column)> read);
  /// Columns that are read together for the epilogue, which may split them.
  int64_t lanesRead() const;
  /// Columns of the result in a warp's tile.
  int64_t warpColumns() const {
    return problem.pair ? tiles.warpN() / 2 : tiles.warpN();
  }
  /// Distributes an array of `rows` by warpColumns() over the lanes,
  /// lanesRead() columns at a time.
  mlir::LogicalResult
  forPlaces(int64_t rows,
            llvm::function_ref<mlir::LogicalResult(mlir::Value row,
                                                   mlir::Value column)>
                body);
  mlir::Value loadSums(mlir::Value array, mlir::ValueRange at, int64_t lanes);

  IndexMath math() { return {kernel.builder, kernel.loc}; }

  GpuKernel &kernel;
  const FusedGemm &problem;
  const GemmEpilogue &epilogue;
  GemmTiles tiles;
  GemmOperandSums operandSums;
  std::unique_ptr<GemmUnit> unit;
  mlir::Value shared;
  /// Tile indices of block and warp.
  llvm::SmallVector<mlir::Value> batch;
  mlir::Value rowBegin, columnBegin, warp, warpRow, warpColumn;
  /// With split-K: the tile, and the block's index within it.
  mlir::Value tileNumber, split;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_GEMMEMITTER_H
