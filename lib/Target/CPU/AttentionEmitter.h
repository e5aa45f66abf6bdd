//===- AttentionEmitter.h - attention kernels -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_ATTENTIONEMITTER_H
#define MPC_LIB_TARGET_CPU_ATTENTIONEMITTER_H

#include "ContractionEmitter.h"
#include "KvCacheLayout.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

namespace mpc {

class AttentionEmitter : public ContractionEmitter {
public:
  using ContractionEmitter::ContractionEmitter;

  void prepare() override;
  void emitItem(mlir::Value item) override;
  /// Reduces the split-KV partial results of one head (AttentionCodegen.cpp).
  void emitLaterItem(mlir::Value item) override;

private:
  /// A packed operand: panels of `columns`, each `[steps][columns]` of words
  /// for `unit`.
  struct Packed {
    ArithmeticUnit unit;
    int64_t depth, width, columns, panels, panelElements;
    Panel panel;
  };
  Packed makePacked(ArithmeticUnit unit, int64_t depth, int64_t width);
  /// Separates the scales of quantized keys and values with one scale per row.
  void takeScales();
  void packKey();
  void packValue();
  void emitRowBlock(mlir::Value block);
  /// Several heads of few rows, with keys and values read in place.
  void prepareInPlace();
  void emitInPlace(mlir::Value item);
  /// Computes `count` heads from `first` on, all of one batch entry, over the
  /// positions `range`, which starts at a multiple of stepOfParts.
  void emitHeads(mlir::Value first, mlir::Value count, Range range);
  mlir::Value keyHeadOf(mlir::Value head) const {
    return math.div(head, batchShape.back() / keyShape.end()[-3]);
  }
  /// Computes the scores of row `row` of the head for `count` positions (1 or
  /// the number of vector lanes) from `first` on; it is row `local` of the
  /// item.
  void emitDecodeScores(int64_t row, mlir::Value local, mlir::Value first,
                        int64_t count);
  /// Accumulates the weighted values of positions [first, last) in row `local`.
  void accumulateDecodeValues(mlir::Value local, mlir::Value first,
                              mlir::Value last);
  /// Rows of keys or values to prefetch, and those of their scales.
  struct FetchedRows {
    std::optional<InPlaceRow> numbers, scales;
  };
  /// Number of rows, in whole blocks of positions, of about `bytes` bytes.
  int64_t rowsAhead(const FetchedRows &rows, int64_t bytes,
                    int64_t block) const;
  /// Prefetches the rows of positions [begin, end), and of one position.
  void fetchRows(const FetchedRows &rows, mlir::Value begin, mlir::Value end);
  void fetchRow(const InPlaceRow &row, mlir::Value position);
  /// Split-KV for heads whose keys several items share (AttentionCodegen.cpp):
  /// each item stores its partial sums with maximum and total, and a later item
  /// reduces those of one head, in split order.
  void preparePartials();
  void storePartialSums(mlir::Value local);
  void storePartialRow(mlir::Value local, mlir::Value largest,
                       mlir::Value total);
  /// Offset in `partials` of split `part` of row `row` of all heads, and of the
  /// item's split of its row `local`.
  mlir::Value partialAt(mlir::Value row, mlir::Value part) const;
  mlir::Value ownPartialAt(mlir::Value local) const;
  /// Loop over the splits with carried values; `body` returns the next values.
  llvm::SmallVector<mlir::Value>
  overParts(mlir::ValueRange from,
            llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value,
                                                              mlir::ValueRange)>
                body);
  /// Reduces the splits of row `row` of all heads, row `local` of the item.
  void reduceSplitRow(mlir::Value row, mlir::Value local);
  /// Accumulators of `rows` rows at `base` times a panel.
  llvm::SmallVector<mlir::Value> sumsOf(RegisterBlock &block, int64_t rows,
                                        int64_t pitch, mlir::Value memory,
                                        mlir::Value base, const Packed &packed);
  /// All positions.
  Range wholeRange() { return {math.constant(0), math.constant(positions)}; }
  /// Index in scratch of the score of a position in row `local`.
  mlir::Value scoreAt(mlir::Value local, mlir::Value position) const {
    return math.add(math.mul(local, scorePitch),
                    math.sub(position, firstPosition));
  }
  void emitSoftmax(mlir::Value row, mlir::Value local, Range range);
  /// Scaled and masked scores of `lanes` positions from `column` on.
  mlir::Value maskScores(mlir::Value scores, mlir::Value row,
                         mlir::Value column, int64_t lanes, mlir::Value mask);
  mlir::Value splatted(mlir::Value scalar, int64_t lanes);
  /// Returns the scale of position `at` of the head, a scalar.
  mlir::Value scaleAt(mlir::Value scales, mlir::Value at);

  AttentionOp op = mlir::cast<AttentionOp>(contraction.op);
  llvm::ArrayRef<int64_t> queryShape = shapeOf(op.getQuery()),
                          keyShape = shapeOf(op.getKey());
  llvm::ArrayRef<int64_t> batchShape = queryShape.drop_back(2);
  int64_t length = queryShape.end()[-2], depth = queryShape.back();
  int64_t positions = keyShape.end()[-2];
  int64_t width = shapeOf(op.getValue()).back();
  Packed key, value;
  /// Keys and values as multiplied, and the scales of their rows, which are
  /// applied to scores and weights; null if there are none.
  mlir::Value keyNumbers, keyScales, valueNumbers, valueScales;
  bool readsInPlace = readsKeysInPlace(contraction);
  /// In-place mode: heads per item, positions per item and number of items per
  /// head.
  int64_t headsPerItem = blocks.getBlocksPerItem();
  int64_t partPositions = blocks.getChunk() ? blocks.getChunk() : positions;
  int64_t parts = llvm::divideCeil(positions, partPositions);
  RowSplit split{length, blocks.getRows()};
  int64_t blocksPerItem = perItem(blocks.getBlocksPerItem(), split.blocks);
  int64_t rowGroups = llvm::divideCeil(split.blocks, blocksPerItem);
  int64_t queryPitch = 0, scorePitch = 0;
  mlir::Value queryMemory, scores, inverses, tile;
  /// Scales of the item's keys, contiguous, if these are packed.
  mlir::Value keyFactors;
  FetchedRows keyRows, valueRows;
  /// The item's split of the keys, its first head, and the partial results.
  mlir::Value part, leadingHead, partials;
  int64_t partialPitch = 0;
  /// Weights of the splits in the final reduction.
  mlir::Value weights;
  /// Number of accumulator vectors in registers.
  static constexpr int64_t kSumVectors = 8;
  llvm::SmallVector<mlir::Value> head, keyHead;
  mlir::Value queryBase;
  /// First position whose score is stored.
  mlir::Value firstPosition;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CPU_ATTENTIONEMITTER_H
