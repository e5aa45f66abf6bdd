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

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONUNIT_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONUNIT_H

#include "AttentionKernel.h"
#include "Mma.h"

namespace mpc::cuda {

class AttentionUnit {
public:
  /// Row r of a lane is kWarp / rowLanes * r rows after its first.
  AttentionUnit(AttentionCodegen &codegen, int64_t rowLanes, int64_t rows,
                int64_t scoreWidth, int64_t sumWidth)
      : a(codegen), k(a.kernel), b(a.b), math(a.math), v(a.values),
        rowLanes(rowLanes), rows(rows), scoreWidth(scoreWidth),
        sumWidth(sumWidth) {}
  virtual ~AttentionUnit() = default;
  /// Creates a unit for warps of `warpRows` rows: the tensor cores `unit`,
  /// which split probabilities into `weightPieces` 16-bit values, else FMA with
  /// probabilities in the shared memory `weights` [row][key].
  static std::unique_ptr<AttentionUnit> create(AttentionCodegen &codegen,
                                               int64_t warpRows,
                                               const MatrixUnit *unit,
                                               int64_t weightPieces);

  /// Computes the lane's indices; must be called first.
  virtual void place();

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
                          int64_t firstColumn = 0) = 0;

  /// Arrays of scores, of accumulators [column / piece] + as above, and of one
  /// element per row.
  mlir::Value makeScores(int64_t columns, llvm::StringRef name);
  mlir::Value makeSums(int64_t columns, int64_t piece);
  mlir::Value makeStatistics(double value, llvm::StringRef name);
  /// Sets all elements of a private array.
  void fill(mlir::Value array, double value);

  /// Row in the block's tile, and column of element `e` of block `j` of an
  /// array with blocks of `width`.
  mlir::Value rowOf(mlir::Value row);
  mlir::Value columnOf(mlir::Value j, mlir::Value e, int64_t width);
  void eachRow(llvm::function_ref<void(mlir::Value row)> body);
  void eachScore(mlir::Value scores,
                 llvm::function_ref<void(llvm::ArrayRef<mlir::Value> at,
                                         mlir::Value row, mlir::Value column)>
                     body);
  /// Combines a row's value over its lanes: the maximum, or the sum.
  mlir::Value reduced(mlir::Value value, bool isMaximum);

  /// Online softmax step: converts scores to weights and adds them to `total`,
  /// after rescaling `total` and `sums` to the new maximum.
  void softmax(mlir::Value scores, mlir::Value largest, mlir::Value total,
               mlir::Value sums);

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

  /// First row of the warp.
  mlir::Value warpRow;
  /// FMA: probabilities in shared memory, [row][key].
  mlir::Value weights;

protected:
  mlir::Value lane() {
    return mlir::gpu::LaneIdOp::create(b, k.loc, mlir::IntegerAttr());
  }

  AttentionCodegen &a;
  GpuKernel &k;
  mlir::OpBuilder &b;
  IndexMath &math;
  MathExpansion &v;
  int64_t rowLanes, rows, scoreWidth, sumWidth;
  /// First row of the lane, and first column in blocks of scores and sums.
  mlir::Value group, scorePair, sumPair;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONUNIT_H
