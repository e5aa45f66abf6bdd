//===- AttentionGradientMma.h - it on the matrix units ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For f16, bf16 and tf32. Both roles do the same: a warp owns 16 rows of two
// operands (query and gradient, or key and value) while tiles of the other two
// pass through shared memory, the next ones copied while the present ones are
// used. The first of each multiplied give scores, the second slopes. Made into
// factors these go straight from their registers into products with the same
// tiles read the other way round. The keys role has scores and slopes
// transposed, so that there, too, the factors' rows are its own.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONGRADIENTMMA_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONGRADIENTMMA_H

#include "AttentionFragments.h"
#include "AttentionGradientKernel.h"

#include <array>

namespace mpc {

/// Rows that a warp owns, and columns of a block of sums.
inline constexpr int64_t kGradientWarpRows = 16, kGradientSumBlock = 8;
/// Sums behind each row of a result's tile, which move neighbouring rows to
/// different banks.
inline constexpr int64_t kGradientResultSkew = 8;

/// The gradient as it is multiplied: without conversions that the rounding to
/// the factors' type undoes.
mlir::Value gradientFactor(AttentionGradientOp op);

/// One kernel while its body is written.
class MmaGradient {
public:
  explicit MmaGradient(AttentionGradientKernel &gradient);

  mlir::LogicalResult emit();

private:
  /// An operand of the products; of the two on each side the first makes
  /// scores, the second slopes.
  struct Operand {
    mlir::Value tensor;
    /// Of a tile: the operand's, rounded up.
    int64_t columns;
    llvm::StringRef name;
    /// In shared memory; one that the block walks over has a stage in front.
    mlir::Value tile;
    /// The lane's fragments of own rows: of all steps along the columns where
    /// they stay in registers, else of one.
    mlir::Value words;
  };
  using Side = std::array<Operand, 2>;
  /// Columns of a gradient that are summed in one walk.
  struct Sum {
    AttentionResult result;
    int64_t first, count;
    /// By pieces of columns whose factors are loaded at once,
    /// [piece][1][block][4].
    mlir::Value fragments;
  };

  // Roles, tiles and results (AttentionGradientMma.cpp).

  mlir::LogicalResult emitRows();
  mlir::LogicalResult emitKeys();
  /// What is to be summed for those of the gradients that are stored, in pieces
  /// of columns that fit into registers.
  llvm::SmallVector<Sum> sumsOf(llvm::ArrayRef<AttentionResult> results);
  /// Sums all in one walk, or each in one of its own, and stores them.
  mlir::LogicalResult sum(llvm::MutableArrayRef<Sum> sums);
  mlir::LogicalResult sumEach(llvm::MutableArrayRef<Sum> sums);
  /// Lays out shared memory and registers for a role.
  void takeRole(bool ofQuery);
  Side querySide() const;
  Side keySide() const;
  /// Brings the block's own rows into shared memory and on into registers where
  /// they fit.
  mlir::LogicalResult loadOwn();
  /// The fragment of own rows at `step` along the columns.
  void loadOwnWords(const Operand &operand, mlir::Value slot, mlir::Value step);
  /// Starts copying the tiles of the others that begin at `first`.
  mlir::LogicalResult loadOthers(mlir::Value first, mlir::Value stage);
  /// Takes the tiles of the others' rows [begin, end) through shared memory:
  /// `body` gets the first row of each and the stage where it stands. `begin`
  /// is a multiple of a tile's rows.
  mlir::LogicalResult
  walk(mlir::Value begin, mlir::Value end,
       llvm::function_ref<mlir::LogicalResult(mlir::Value, mlir::Value)> body);
  /// The walk over all that the role looks at.
  mlir::LogicalResult walkOthers(
      llvm::function_ref<mlir::LogicalResult(mlir::Value, mlir::Value)> body);
  /// Brings sums, through shared memory, into whole rows for the epilogue.
  mlir::LogicalResult emitResults(llvm::ArrayRef<Sum> sums);
  mlir::LogicalResult emitResult(const Sum &sum);

  // Products and what stands between them (AttentionGradientProducts.cpp).

  /// Scores, under the mask, and slopes of the own rows with the tile's, which
  /// begin at `first`.
  mlir::LogicalResult emitScores(mlir::Value first, mlir::Value stage,
                                 bool withSlopes);
  /// sums = own rows * rows of the tile, of the first or second operands.
  void multiply(mlir::Value sums, size_t which, mlir::Value stage);
  mlir::LogicalResult maskScores(mlir::Value first);
  /// Whether the tile at `first` has something to cut off for this warp: tiles
  /// at the end or on the diagonal; null where none has.
  mlir::Value cutsOff(mlir::Value first);
  /// Takes a tile's scores and slopes into the running statistics.
  void updateStatistics();
  /// Shift, 1 / total and delta of the lane's rows, which one lane of each row
  /// stores.
  void finishStatistics();
  /// Turns scores into P, and slopes into P * (D - delta).
  void makeFactors(mlir::Value stage, bool withSlopes);
  /// Zeros for sums of `count` columns.
  mlir::Value makeSums(int64_t count);
  /// sum += factors * tile.
  void accumulate(const Sum &sum, mlir::Value stage);

  // Of a row's four lanes.
  mlir::Value
  joined(mlir::Value value,
         llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> join);
  mlir::Value summed(mlir::Value value);

  /// What is subtracted from scores under this maximum; in the exponent's unit
  /// where the scale is folded.

  bool addsMask() const;
  mlir::Value constant(double value) { return v.constant(g.sumType, value); }
  void each(int64_t count, llvm::StringRef name,
            llvm::function_ref<void(mlir::Value)> body) {
    unrolled(k, count, name, body);
  }
  /// The block's first own row.
  mlir::Value ownFirst() { return isQuery ? g.firstRow : g.firstKey; }
  /// The block's row of half `half` (0 or 1) of a fragment of sums.
  mlir::Value rowOf(mlir::Value half) {
    return math.add(warpRow, math.add(fragments.group, math.mul(half, 8)));
  }
  /// Steps of an instruction's depth along an operand's columns.
  int64_t stepsOf(const Operand &operand) {
    return operand.columns / mma.depth();
  }
  static int64_t pieceOf(int64_t extent) { return extent % 32 ? 16 : 32; }

  GpuKernel &k;
  AttentionGradientKernel &g;
  mlir::OpBuilder &b;
  IndexMath &math;
  MathExpansion &v;
  cuda::FragmentType type;
  WarpMma mma;
  AttentionFragments fragments;
  int64_t rows, depth, columns;
  /// Whether tiles arrive by asynchronous copies.
  bool isAsync;
  /// Elements behind each row of a tile, which move neighbouring rows to
  /// different banks.
  int64_t skew;
  /// Of a score in the exponent of two.

  // The role at work: whether it owns rows of the query, whether own rows stay
  // in registers, whether one tile holds all others, and the rows of that.
  bool isQuery = true, keepsOwn = true, inOneTile = false;
  int64_t others = 0;
  Side own, other;
  mlir::Value sharedBytes, warpRow;
  /// Keys role: the statistics of a tile's rows, [stage][3][row].
  mlir::Value rowStatistics;
  /// Of the lane: scores and slopes [1][blocks of others][4].
  mlir::Value scores, slopes, otherWords;
  /// Rows role, of rows `group` and `group + 8`: the running maximum, total and
  /// sum of P * D, in whose places the three statistics then stand.
  mlir::Value largest, total, mean;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONGRADIENTMMA_H
