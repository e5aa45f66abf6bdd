//===- AttentionMma.h - attention on the matrix units -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For f16, bf16 and tf32. A warp owns 16 query rows: their fragments, scores,
// sums, maxima and totals stay in registers while tiles of key and value pass
// through shared memory, the next one copied while the present one is used.
// Weights go from the scores' registers straight into the second product: as
// one value in tf32 and where the results are stored in 16 bits, else as a sum
// of several.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONMMA_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONMMA_H

#include "AttentionFragments.h"
#include "AttentionSplit.h"

namespace mpc {

/// One kernel while its body is written.
class MmaAttention {
public:
  explicit MmaAttention(AttentionKernel &attention);

  mlir::LogicalResult emit();

private:
  // Tiles, the walk over them and results (AttentionMma.cpp).

  /// Brings the block's query rows into shared memory and on into registers
  /// where they fit; the tiles of the keys then take their place.
  mlir::LogicalResult loadQuery();
  /// The fragment at `step` along the depth.
  void loadQueryWords(mlir::Value slot, mlir::Value step);
  /// Starts copying the tiles of key and value that begin at `firstKey`, or
  /// fills them where nothing is copied ahead.
  mlir::LogicalResult loadTiles(mlir::Value firstKey, mlir::Value stage);
  /// Divides the sums by the totals and brings them, through shared memory,
  /// into whole rows for the epilogue.
  mlir::LogicalResult emitResults(KeyPart &part);

  // Products and what stands between them (AttentionProducts.cpp).

  /// scores = query * key tile.
  void multiplyKeys(mlir::Value stage);
  /// Scales and masks the scores of the tile that begins at `firstKey`, and
  /// cuts off those past the end or the diagonal.
  mlir::LogicalResult maskScores(mlir::Value firstKey);
  /// Turns scores into weights, and sums and totals into what they are under
  /// the new maximum.
  void softmax();
  /// sums += weights * value tile.
  void multiplyValues(mlir::Value stage);

  mlir::Value constant(double value) { return v.constant(a.sumType, value); }
  void each(int64_t count, llvm::StringRef name,
            llvm::function_ref<void(mlir::Value)> body) {
    unrolled(k, count, name, body);
  }
  /// A row's value joined over the four lanes that hold its elements.
  mlir::Value
  joined(mlir::Value value,
         llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> join);
  /// Element `e` (0 to 3) of a fragment of sums: its row, and its column in a
  /// block of eight.
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
  AttentionFragments fragments;
  mlir::Type element;
  int64_t rows, keys, depth, columns, stages, weightPieces, pieceColumns;
  /// Of an element, and elements behind each row of a tile, which move
  /// neighbouring rows to different banks.
  int64_t bytes, skew;
  bool keepsQuery;
  /// Tiles in shared memory, [stage][position][column].
  mlir::Value sharedBytes, queryTile, keyTile, valueTile;
  /// Of the lane: fragments of the query (all steps along the depth where they
  /// stay in registers), scores, sums by pieces of columns, and the running
  /// maximum and total of the rows `group` and `group + 8`.
  mlir::Value queryWords, keyWords, scores, sums, largest, total, shrink;
  mlir::Value warpRow;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONMMA_H
