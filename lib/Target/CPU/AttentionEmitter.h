//===- AttentionEmitter.h - attention kernels -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_ATTENTIONEMITTER_H
#define MPC_LIB_TARGET_CPU_ATTENTIONEMITTER_H

#include "ContractionEmitter.h"

namespace mpc {

class AttentionEmitter : public ContractionEmitter {
public:
  using ContractionEmitter::ContractionEmitter;

  void prepare() override;
  void emitItem(mlir::Value item) override;

private:
  /// A packed operand: panels of `columns`, each `[steps][columns]` of what
  /// `unit` multiplies.
  struct Packed {
    DotUnit unit;
    int64_t depth, width, columns, panels, panelElements;
    Panel panel;
  };
  Packed makePacked(DotUnit unit, int64_t depth, int64_t width);
  /// Takes scales out of keys and values that have one for each row.
  void takeScales();
  void packKey();
  void packValue();
  void emitRowBlock(mlir::Value block);
  /// Some heads of few rows, whose keys and values are read where they lie
  /// (AttentionInPlace.cpp).
  void prepareInPlace();
  void emitInPlace(mlir::Value item);
  /// `count` heads from `first` on, all of one entry of the batch, over the
  /// positions `range`, which begins at a multiple of two vectors.
  void emitHeads(mlir::Value first, mlir::Value count, Range range);
  mlir::Value keyHeadOf(mlir::Value head) const {
    return math.div(head, batchShape.back() / keyShape.end()[-3]);
  }
  /// Scores of row `row` of the head for `count` positions, 1 or as many as a
  /// vector has lanes, from `first` on; they are row `local` of the item's.
  void scoreInPlace(int64_t row, mlir::Value local, mlir::Value first,
                    int64_t count);
  /// Adds the values of positions [first, last) to the sums of row `local`.
  void weighInPlace(mlir::Value local, mlir::Value first, mlir::Value last);
  /// Where a key or value of all heads lies in one run of `elements` of memory:
  /// `dimension` counts positions, `batch` are dimensions of the operand before
  /// the heads and where they stand. No memory where it does not.
  struct StoredRow {
    mlir::Value memory;
    int64_t dimension = 0, elements = 0;
    llvm::SmallVector<std::pair<int64_t, int64_t>> batch;
  };
  StoredRow storedRow(mlir::Value tensor) const;
  /// Whether fetching it whole is faster than what heads read by themselves.
  bool pays(const StoredRow &row) const;
  /// Asks for what the row of `position` has of the key heads `heads`.
  void fetchRow(const StoredRow &row, Range heads, mlir::Value position);
  /// The sums of `rows` rows at `base` times a panel.
  llvm::SmallVector<mlir::Value> sumsOf(SumBlock &block, int64_t rows,
                                        int64_t pitch, mlir::Value memory,
                                        mlir::Value base, const Packed &packed);
  /// All positions.
  Range wholeRange() { return {math.constant(0), math.constant(positions)}; }
  /// Where the score of a position stands in the scratch of row `local`.
  mlir::Value scoreAt(mlir::Value local, mlir::Value position) const {
    return math.add(math.mul(local, scorePitch),
                    math.sub(position, firstPosition));
  }
  void emitSoftmax(mlir::Value row, mlir::Value local, Range range);
  /// Scaled and masked scores of `lanes` positions from `column` on.
  mlir::Value maskScores(mlir::Value scores, mlir::Value row,
                         mlir::Value column, int64_t lanes, mlir::Value mask);
  mlir::Value splatted(mlir::Value scalar, int64_t lanes);
  /// The scale of position `at` of the head, a scalar.
  mlir::Value scaleAt(mlir::Value scales, mlir::Value at);

  static llvm::ArrayRef<int64_t> shapeOf(mlir::Value tensor) {
    return mlir::cast<mlir::RankedTensorType>(tensor.getType()).getShape();
  }

  AttentionOp op = mlir::cast<AttentionOp>(contraction.op);
  llvm::ArrayRef<int64_t> queryShape = shapeOf(op.getQuery()),
                          keyShape = shapeOf(op.getKey());
  llvm::ArrayRef<int64_t> batchShape = queryShape.drop_back(2);
  int64_t length = queryShape.end()[-2], depth = queryShape.back();
  int64_t positions = keyShape.end()[-2];
  int64_t width = shapeOf(op.getValue()).back();
  Packed key, value;
  /// Keys and values as they are multiplied, and what their rows are to be
  /// multiplied by, which meets scores and weights: null where nothing is.
  mlir::Value keyNumbers, keyScales, valueNumbers, valueScales;
  /// Packing a key or value costs as much as multiplying some rows by it.
  static constexpr int64_t kMostRowsInPlace = 4;
  bool readsInPlace = length <= kMostRowsInPlace && depth % lanes == 0 &&
                      width % lanes == 0 && depth > 0 && width > 0;
  /// Heads of one item that is read in place.
  int64_t headsPerItem = 1;
  RowSplit split{length, blocks.getRows()};
  int64_t blocksPerItem = perItem(blocks.getBlocksPerItem(), split.blocks);
  int64_t rowGroups = llvm::divideCeil(split.blocks, blocksPerItem);
  int64_t queryPitch = 0, scorePitch = 0;
  mlir::Value queryMemory, scores, inverses, tile;
  /// Scales of the item's keys, one after another, where these are packed.
  mlir::Value keyFactors;
  StoredRow keyRow, valueRow;
  /// Whether rows of all heads of a call are read one after the other.
  bool readsRows = false;
  llvm::SmallVector<mlir::Value> head, keyHead;
  mlir::Value queryBase;
  /// The first position whose score is kept.
  mlir::Value firstPosition;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CPU_ATTENTIONEMITTER_H
