//===- GemmEmitter.h - the body of a product's kernel -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block computes one tile of the result. Tiles of both operands travel to
// shared memory some stages ahead of the warps that multiply them; afterwards
// the warps hand their sums to the epilogue through the same memory, so that
// it reads and writes whole vectors.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_GEMMEMITTER_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_GEMMEMITTER_H

#include "GemmPipeline.h"
#include "GemmSums.h"

namespace mpc {

/// One kernel while its body is written.
class GemmEmitter {
public:
  GemmEmitter(GpuKernel &kernel, const GemmProblem &problem,
              const GemmEpilogue &epilogue)
      : kernel(kernel), problem(problem), epilogue(epilogue),
        tiles(GemmTiles::of(kernel.schedule)),
        operandSums(kernel, problem, tiles) {}

  mlir::LogicalResult emit();

private:
  // The block's place and the main loop (Gemm.cpp).

  void placeBlock();
  /// Copies what the block needs of operands that tiles are made of in shared
  /// memory, from position `k` on.
  void bringHalos(TileLoader &lhs, TileLoader &rhs, mlir::Value k);
  mlir::LogicalResult multiply();

  // From the sums to the outputs (GemmResults.cpp).

  /// Takes the sums of a block that has all of k through the epilogue.
  mlir::LogicalResult finish();
  /// Joins the sums of the blocks that share a tile first.
  mlir::LogicalResult finishSplit();
  /// Hands the warp's sums over, part by part: `take` gets the shared array and
  /// the part's first row.
  mlir::LogicalResult
  handOver(llvm::function_ref<mlir::LogicalResult(mlir::Value slab,
                                                  mlir::Value firstRow)>
               take);
  /// for (round = 0; round < count; ++round) body(round), some at once.
  mlir::LogicalResult
  forRounds(int64_t count,
            llvm::function_ref<mlir::LogicalResult(mlir::Value)> body);
  /// for (item = lane; item < count; item += 32) body(item).
  mlir::LogicalResult
  forItems(int64_t count,
           llvm::function_ref<mlir::LogicalResult(mlir::Value)> body);
  /// Takes the sums of lanesRead() columns of a row of the warp's tile through
  /// the epilogue; `read` gives those from a column of the tile on.
  mlir::LogicalResult
  finishElement(mlir::Value warpTileRow, mlir::Value warpTileColumn,
                llvm::function_ref<mlir::Value(mlir::Value column)> read);
  /// Columns that are read together on their way to the epilogue, which takes
  /// as many at once as it can.
  int64_t lanesRead() const;
  /// Columns of the result in a warp's tile.
  int64_t warpColumns() const {
    return problem.pair ? tiles.warpN() / 2 : tiles.warpN();
  }
  /// Deals an array of `rows` by warpColumns() to the lanes, lanesRead()
  /// columns at a time.
  mlir::LogicalResult
  forPlaces(int64_t rows,
            llvm::function_ref<mlir::LogicalResult(mlir::Value row,
                                                   mlir::Value column)>
                body);
  mlir::Value loadSums(mlir::Value array, mlir::ValueRange at, int64_t lanes);

  IndexMath math() { return {kernel.builder, kernel.loc}; }

  GpuKernel &kernel;
  const GemmProblem &problem;
  const GemmEpilogue &epilogue;
  GemmTiles tiles;
  GemmSums operandSums;
  std::unique_ptr<GemmUnit> unit;
  mlir::Value shared;
  /// Where the block and the warp stand.
  llvm::SmallVector<mlir::Value> batch;
  mlir::Value rowBegin, columnBegin, warp, warpRow, warpColumn;
  /// Of a split product: the tile and the block's number among those that share
  /// it.
  mlir::Value tileNumber, split;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_GEMMEMITTER_H
