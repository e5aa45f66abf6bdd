//===- AttentionGradientMma.h - attention gradient by mma.sync --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For f16, bf16 and tf32. Both roles work alike: a warp has 16 fixed ("own")
// rows of two operands (query and output gradient, or key and value), while
// tiles of the other two are double-buffered in shared memory. The first pair
// gives scores, the second dP (`slopes`). P and dS are computed in registers
// and are the left operands of GEMMs with the same tiles, transposed. The keys
// role has scores and dP transposed, so that its operands' rows are own rows as
// well.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONGRADIENTMMA_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONGRADIENTMMA_H

#include "AttentionGradientKernel.h"
#include "Mma.h"

#include <array>

namespace mpc {
class AttentionGradientOp;
} // namespace mpc

namespace mpc::cuda {

/// Own rows per warp, and columns of an accumulator block.
inline constexpr int64_t kGradientWarpRows = 16, kGradientSumBlock = 8;
/// Padding of each row of a result's tile against bank conflicts, in f32
/// elements.
inline constexpr int64_t kGradientResultSkew = 8;

/// Returns the output gradient without conversions that rounding to the
/// factors' type makes redundant.
mlir::Value gradientFactor(AttentionGradientOp op);

/// Generates the body of one kernel.
class MmaGradient {
public:
  explicit MmaGradient(AttentionGradientKernel &gradient);

  mlir::LogicalResult emit();

private:
  /// An operand of the GEMMs; the first pair gives scores, the second dP.
  struct Operand {
    mlir::Value tensor;
    /// Columns of the tile: the operand's, padded.
    int64_t columns;
    llvm::StringRef name;
    /// Shared-memory tile; with a leading stage if the block loops over it.
    mlir::Value tile;
    /// The lane's fragments of own rows: of all steps along the columns if they
    /// stay in registers, else of one step.
    mlir::Value words;
  };
  using Side = std::array<Operand, 2>;
  /// Accumulators of `count` columns of dQ, dK or dV from column `first` on; a
  /// gradient with too many columns for the registers takes several passes over
  /// the keys or queries.
  struct Sum {
    AttentionResult result;
    int64_t first, count;
    /// Accumulators by pieces of columns whose fragments are loaded at once,
    /// [piece][1][block][4].
    mlir::Value fragments;
  };

  // Roles, tiles and results.

  mlir::LogicalResult emitRows();
  mlir::LogicalResult emitKeys();
  /// Splits the stored gradients into column ranges whose accumulators fit into
  /// registers.
  llvm::SmallVector<Sum> sumsOf(llvm::ArrayRef<AttentionResult> results);
  /// Accumulates all in one pass, or each in a separate pass, and stores them.
  mlir::LogicalResult sum(llvm::MutableArrayRef<Sum> sums);
  mlir::LogicalResult sumEach(llvm::MutableArrayRef<Sum> sums);
  /// Lays out shared memory and registers for a role.
  void takeRole(bool ofQuery);
  Side querySide() const;
  Side keySide() const;
  /// Loads the block's own rows into shared memory and, if they fit, registers.
  mlir::LogicalResult loadOwn();
  /// Loads the fragment of own rows at `step` along the columns.
  void loadOwnWords(const Operand &operand, mlir::Value slot, mlir::Value step);
  /// Starts copying the others' tiles at `first`.
  mlir::LogicalResult loadOthers(mlir::Value first, mlir::Value stage);
  /// Loops over the others' rows [begin, end) in double-buffered tiles: calls
  /// `body` with the first row and the stage of each. `begin` is a multiple of
  /// a tile's rows.
  mlir::LogicalResult
  walk(mlir::Value begin, mlir::Value end,
       llvm::function_ref<mlir::LogicalResult(mlir::Value, mlir::Value)> body);
  /// The same for all rows that the role needs.
  mlir::LogicalResult walkOthers(
      llvm::function_ref<mlir::LogicalResult(mlir::Value, mlir::Value)> body);
  /// Stages results through shared memory as whole rows for the epilogue.
  mlir::LogicalResult emitResults(llvm::ArrayRef<Sum> sums);
  mlir::LogicalResult emitResult(const Sum &sum);

  // GEMMs and softmax.

  /// Computes masked scores, and dP, of own rows and the tile at `first`.
  mlir::LogicalResult emitScores(mlir::Value first, mlir::Value stage,
                                 bool withSlopes);
  /// sums = own rows * rows of the tile, for the first or second operands.
  void multiply(mlir::Value sums, size_t which, mlir::Value stage);
  mlir::LogicalResult maskScores(mlir::Value first);
  /// Returns whether the tile at `first` is cut by the end or the diagonal for
  /// this warp; null if no tile is.
  mlir::Value cutsOff(mlir::Value first);
  /// Updates the running statistics with a tile's scores and dP.
  void updateStatistics();
  /// Computes shift, 1 / total and delta of the lane's rows; one lane per row
  /// stores them.
  void finishStatistics();
  /// Converts scores to P, and dP to dS = P * (dP - delta).
  void makeFactors(mlir::Value stage, bool withSlopes);
  /// Returns cleared accumulators for `count` columns.
  mlir::Value makeSums(int64_t count);
  /// sum += factors * tile.
  void accumulate(const Sum &sum, mlir::Value stage);

  // Reductions over a row's four lanes.
  mlir::Value
  joined(mlir::Value value,
         llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> join);
  mlir::Value summed(mlir::Value value);

  bool addsMask() const;
  mlir::Value constant(double value) { return v.constant(g.sumType, value); }
  void each(int64_t count, llvm::StringRef name,
            llvm::function_ref<void(mlir::Value)> body) {
    unrolled(k, count, name, body);
  }
  /// First own row of the block.
  mlir::Value ownFirst() { return isQuery ? g.firstRow : g.firstKey; }
  /// Returns the block's row of half `half` (0 or 1) of an accumulator
  /// fragment.
  mlir::Value rowOf(mlir::Value half) {
    return math.add(warpRow, math.add(fragments.group, math.mul(half, 8)));
  }
  /// Number of instructions along an operand's columns.
  int64_t stepsOf(const Operand &operand) {
    return operand.columns / mma.depth();
  }
  static int64_t pieceOf(int64_t extent) { return extent % 32 ? 16 : 32; }

  GpuKernel &k;
  AttentionGradientKernel &g;
  mlir::OpBuilder &b;
  IndexMath &math;
  MathExpansion &v;
  WarpMma mma;
  AccumulatorFragments fragments;
  int64_t rows, depth, columns;
  /// Whether tiles are loaded by cp.async.
  bool isAsync;
  /// Padding of each row of a tile against bank conflicts, in elements.
  int64_t skew;

  // Current role: whether own rows are the query's, whether they stay in
  // registers, whether one tile holds all others, and its rows.
  bool isQuery = true, keepsOwn = true, inOneTile = false;
  int64_t others = 0;
  Side own, other;
  mlir::Value sharedBytes, warpRow;
  /// Keys role: statistics of a tile's rows, [stage][3][row].
  mlir::Value rowStatistics;
  /// Per lane: scores and dP [1][blocks of others][4].
  mlir::Value scores, slopes, otherWords;
  /// Rows role, for rows `group` and `group + 8`: running maximum, total and
  /// sum of P * dP, later replaced by the three statistics.
  mlir::Value largest, total, mean;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONGRADIENTMMA_H
