//===- AttentionMma.h - flash attention on tensor cores ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For f16, bf16 and tf32. A warp has 16 query rows: their fragments, scores,
// accumulators, maxima and totals stay in registers while tiles of key and
// value are double-buffered in shared memory. Weights are used from the scores'
// registers as the left operand of the second GEMM: as one value in tf32 or for
// 16-bit results, else split into several 16-bit values.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONMMA_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONMMA_H

#include "AccumulatorFragments.h"
#include "AttentionSplitKv.h"

namespace mpc {

/// Generates the body of one kernel.
class MmaAttention {
public:
  explicit MmaAttention(AttentionKernel &attention);

  mlir::LogicalResult emit();

private:
  // Tile loads, loop over keys and results (AttentionMma.cpp).

  /// Loads the block's query rows into shared memory and, if they fit, into
  /// registers; key tiles then reuse the memory.
  mlir::LogicalResult loadQuery();
  /// Loads the fragment at `step` along the depth.
  void loadQueryWords(mlir::Value slot, mlir::Value step);
  /// Starts copying the key and value tiles at `firstKey`, or loads them
  /// synchronously if there is no double buffering.
  mlir::LogicalResult loadTiles(mlir::Value firstKey, mlir::Value stage);
  /// Normalizes the accumulators and stages them through shared memory as whole
  /// rows for the epilogue.
  mlir::LogicalResult emitResults(SplitKvPart &part);

  // GEMMs and softmax (AttentionProducts.cpp).

  /// scores = query * key tile.
  void multiplyKeys(mlir::Value stage);
  /// Scales and masks the scores of the tile at `firstKey`, including the end
  /// and the diagonal.
  mlir::LogicalResult maskScores(mlir::Value firstKey);
  /// Online softmax step: converts scores to weights, rescales accumulators and
  /// totals to the new maximum.
  void softmax();
  /// sums += weights * value tile.
  void multiplyValues(mlir::Value stage);

  mlir::Value constant(double value) { return v.constant(a.sumType, value); }
  void each(int64_t count, llvm::StringRef name,
            llvm::function_ref<void(mlir::Value)> body) {
    unrolled(k, count, name, body);
  }
  /// Reduces a row's value over the four lanes that share it.
  mlir::Value
  joined(mlir::Value value,
         llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> join);
  /// Row, and column in an 8-column block, of element `e` (0 to 3) of an
  /// accumulator fragment.
  mlir::Value rowOf(mlir::Value e) {
    return math.add(warpRow,
                    math.add(fragments.group, math.mul(math.div(e, 2), 8)));
  }
  mlir::Value columnOf(mlir::Value e) {
    return math.add(fragments.pair, math.rem(e, 2));
  }

  GpuKernel &k;
  AttentionKernel &a;
  mlir::OpBuilder &b;
  IndexMath &math;
  MathExpansion &v;
  cuda::FragmentType type;
  WarpMma mma;
  AccumulatorFragments fragments;
  mlir::Type element;
  int64_t rows, keys, depth, columns, stages, weightPieces, pieceColumns;
  /// Bytes per element, and padding of a tile's rows against bank conflicts, in
  /// elements.
  int64_t bytes, skew;
  bool keepsQuery;
  /// Shared-memory tiles, [stage][position][column].
  mlir::Value sharedBytes, queryTile, keyTile, valueTile;
  /// Per lane: query fragments (all steps along the depth if they stay in
  /// registers), scores, accumulators by pieces of columns, and running maximum
  /// and total of the rows `group` and `group + 8`.
  mlir::Value queryWords, keyWords, scores, sums, largest, total, shrink;
  mlir::Value warpRow;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONMMA_H
