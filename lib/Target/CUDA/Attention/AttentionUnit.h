//===- AttentionUnit.h - arithmetic units of attention ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The GEMMs of attention on the rows of a warp, by FMA or by mma.sync on tensor
// cores. Accumulators are private arrays [1][block of columns][row of the lane
// * width]: adjacent lanes share rows, and each has `width` adjacent columns of
// a block in all of these rows.
//
// - mma.sync: four lanes share two rows, 8 apart; blocks have 8 columns. Two
//   adjacent scores of a lane are a word of the second GEMM's left operand, so
//   probabilities stay in registers. In tf32 the fragment's columns are four
//   apart, so the rows of the right operand are permuted instead.
// - FMA: eight lanes share one to four rows, 4 apart. A lane has every eighth
//   score and 16-byte vectors of results; probabilities pass through shared
//   memory.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_ATTENTION_ATTENTIONUNIT_H
#define MPC_LIB_TARGET_CUDA_ATTENTION_ATTENTIONUNIT_H

#include "../Gemm/Mma.h"
#include "AttentionKernel.h"

namespace mpc::cuda {

class AttentionUnit {
public:
  /// Row r of a lane is kWarp / rowLanes * r rows after its first.
  AttentionUnit(AttentionCodegen &codegen, int64_t rowLanes, int64_t rows,
                int64_t scoreWidth, int64_t sumWidth)
      : rowLanes(rowLanes), rows(rows), scoreWidth(scoreWidth),
        sumWidth(sumWidth), a(codegen), k(a.kernel), b(a.b), math(a.math),
        v(a.values) {}
  virtual ~AttentionUnit() = default;
  /// Creates a unit for blocks of `rows` rows: tensor cores, which split
  /// probabilities into `weightPieces` 16-bit values, or FMA.
  static std::unique_ptr<AttentionUnit> create(AttentionCodegen &codegen,
                                               bool isMatrixUnit, int64_t rows,
                                               int64_t weightPieces = 1);

  /// Computes the lane's indices; must be called first.
  virtual void place();
  /// Returns the next tile in shared memory, of leading extents and rows
  /// `shape`, padded against bank conflicts.
  mlir::Value makeTile(llvm::ArrayRef<int64_t> shape, int64_t columns,
                       const llvm::Twine &name);
  /// Allocates shared memory for probabilities of a block (FMA).
  virtual void placeWeights(int64_t rows, int64_t keys) {}

  /// Own rows of a block in shared memory, [row][column], and their fragments
  /// in registers (tensor cores): of all columns, or of the current step.
  struct Rows {
    mlir::Value tile;
    int64_t columns;
    bool inRegisters = false;
    mlir::Value words = {};
  };
  virtual void loadWords(Rows &own) {}
  /// scores += own rows * rows of `tile` [stage][row][column].
  virtual void multiply(mlir::Value scores, const Rows &own, mlir::Value tile,
                        mlir::Value stage) = 0;
  /// sums += scores * columns of `tile` from `firstColumn` on.
  virtual void accumulate(mlir::Value sums, mlir::Value scores,
                          mlir::Value tile, mlir::Value stage,
                          mlir::Value firstColumn) = 0;

  /// Arrays of scores, of accumulators [column / piece] + as above, and of one
  /// element per row.
  mlir::Value makeScores(int64_t columns, llvm::StringRef name);
  mlir::Value makeSums(int64_t columns, int64_t piece);
  mlir::Value makeStatistics(double value, llvm::StringRef name);

  /// Row in the block's tile, and column of element `e` of block `j` of an
  /// array with blocks of `width`.
  mlir::Value rowOf(mlir::Value row);
  mlir::Value columnOf(mlir::Value j, mlir::Value e, int64_t width);
  int64_t scoreBlocks(mlir::Value scores) const;
  void eachRow(llvm::function_ref<void(mlir::Value row)> body);
  /// Scales and masks scores and, if `cuts` (null: never), applies `bounded`.
  /// `placeOf` returns query row and key position of a row and column.
  using Score = llvm::function_ref<mlir::Value(
      mlir::Value score, mlir::Value row, mlir::Value position)>;
  void mask(mlir::Value scores, mlir::Value cuts, Score bounded,
            llvm::function_ref<std::pair<mlir::Value, mlir::Value>(
                mlir::Value row, mlir::Value column)>
                placeOf);
  /// Combines a row's value over its lanes: the maximum, or the sum.
  mlir::Value reduced(mlir::Value value, bool isMaximum);

  /// Online softmax step: converts scores to weights, or passes these to `use`,
  /// and adds them to the first of `totals`, after rescaling these statistics
  /// and `sums` (null: none) to the new maximum.
  void softmax(mlir::Value scores, mlir::Value largest,
               llvm::ArrayRef<mlir::Value> totals, mlir::Value sums,
               llvm::function_ref<void(llvm::ArrayRef<mlir::Value> at,
                                       mlir::Value row, mlir::Value weight)>
                   use = nullptr);

  /// Stages accumulators through shared memory `tile` and calls `store` with
  /// `lanes` columns each of whole rows in bounds: rows before `length` and
  /// `width` columns. `factor` returns what a row is multiplied with, or null.
  void storeRows(mlir::Value sums, mlir::Value tile, mlir::Value firstRow,
                 int64_t length, int64_t width, int64_t lanes,
                 llvm::function_ref<mlir::Value(mlir::Value row)> factor,
                 llvm::function_ref<void(mlir::Value values, mlir::Value row,
                                         mlir::Value column)>
                     store);

  /// Whether the lane is the first of its rows.
  mlir::Value isFirstLane() { return math.less(scorePair, scoreWidth); }

  int64_t warpRows() const { return rows * (kWarp / rowLanes); }

  const int64_t rowLanes, rows, scoreWidth, sumWidth;
  /// Tensor cores: tile rows whose fragments are loaded at once.
  int64_t fragmentRows = 64;
  /// First row of the warp.
  mlir::Value warpRow;
  /// Dynamic shared memory, byte offset of the next tile, and type of tiles.
  mlir::Value shared;
  int64_t sharedOffset = 0;
  mlir::Type tileType;

protected:
  mlir::Value lane() {
    return mlir::gpu::LaneIdOp::create(b, k.loc, mlir::IntegerAttr());
  }

  AttentionCodegen &a;
  GpuKernel &k;
  mlir::OpBuilder &b;
  IndexMath &math;
  MathExpansion &v;
  /// First row of the lane, and first column in blocks of scores and sums.
  mlir::Value group, scorePair, sumPair;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_ATTENTION_ATTENTIONUNIT_H
