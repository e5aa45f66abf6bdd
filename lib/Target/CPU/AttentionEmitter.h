//===- AttentionEmitter.h - attention kernels -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_ATTENTIONEMITTER_H
#define MPC_LIB_TARGET_CPU_ATTENTIONEMITTER_H

#include "AttentionRows.h"
#include "ContractionEmitter.h"

#include "mpc/Dialect/Mpc/IR/Shapes.h"

namespace mpc {

class AttentionEmitter : public ContractionEmitter {
public:
  using ContractionEmitter::ContractionEmitter;

  void prepare() override;
  void emitItem(mlir::Value item) override;
  /// Joins the parts of one head (AttentionParts.cpp).
  void emitLaterItem(mlir::Value item) override;

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
  /// positions `range`, which begins at a multiple of stepOfParts.
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
  /// Rows of keys or values that are asked for ahead, and those of their
  /// scales.
  struct FetchedRows {
    std::optional<StoredRow> numbers, scales;
  };
  /// In how many of them, whole blocks of positions, lie about so many bytes.
  int64_t rowsAhead(const FetchedRows &rows, int64_t bytes,
                    int64_t block) const;
  /// Asks for those of positions [begin, end), and for one.
  void fetchRows(const FetchedRows &rows, mlir::Value begin, mlir::Value end);
  void fetchRow(const StoredRow &row, mlir::Value position);
  /// Heads whose keys several items share (AttentionParts.cpp): each leaves the
  /// sums of its part and what belongs to them, and a later item joins those of
  /// one head, in the order of the parts.
  void preparePartials();
  void leaveSums(mlir::Value local);
  void leaveRow(mlir::Value local, mlir::Value largest, mlir::Value total);
  /// Where part `part` of row `row` of all heads begins in `partials`, and the
  /// item's part of its row `local`.
  mlir::Value partialAt(mlir::Value row, mlir::Value part) const;
  mlir::Value ownPartialAt(mlir::Value local) const;
  /// Calls `body` with each part and what was carried, and gives what it makes
  /// of the last one.
  llvm::SmallVector<mlir::Value>
  overParts(mlir::ValueRange from,
            llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value,
                                                              mlir::ValueRange)>
                body);
  /// Joins the parts of row `row` of all heads, row `local` of the item's.
  void joinRow(mlir::Value row, mlir::Value local);
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
  bool readsInPlace = readsKeysInPlace(contraction);
  /// Of what is read in place: heads of one item, its positions and how many
  /// items share a head.
  int64_t headsPerItem = blocks.getBlocksPerItem();
  int64_t partPositions = blocks.getChunk() ? blocks.getChunk() : positions;
  int64_t parts = llvm::divideCeil(positions, partPositions);
  RowSplit split{length, blocks.getRows()};
  int64_t blocksPerItem = perItem(blocks.getBlocksPerItem(), split.blocks);
  int64_t rowGroups = llvm::divideCeil(split.blocks, blocksPerItem);
  int64_t queryPitch = 0, scorePitch = 0;
  mlir::Value queryMemory, scores, inverses, tile;
  /// Scales of the item's keys, one after another, where these are packed.
  mlir::Value keyFactors;
  FetchedRows keyRows, valueRows;
  /// The item's part of the keys, its first head, and what all items left.
  mlir::Value part, leadingHead, partials;
  int64_t partialPitch = 0;
  /// By which the joined sums of parts are multiplied.
  mlir::Value weights;
  /// Sums of so many vectors stay in registers.
  static constexpr int64_t kSumVectors = 8;
  llvm::SmallVector<mlir::Value> head, keyHead;
  mlir::Value queryBase;
  /// The first position whose score is kept.
  mlir::Value firstPosition;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CPU_ATTENTIONEMITTER_H
