//===- AttentionKernel.h - parts of attention kernels -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block computes some query rows of one head and walks over the keys in
// tiles: scores, mask, softmax and the product with the values in one pass,
// with a running maximum and total per row. Two forms differ in who multiplies:
// threads with fma, or warps on the matrix units.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONKERNEL_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONKERNEL_H

#include "Schedule.h"
#include "StridedView.h"

#include "Target/Kernel/AttentionMath.h"
#include "Target/Kernel/StoredResults.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"

namespace mpc {

/// Query, key and value of an attention or of its gradient, and how scores are
/// made of them.
struct AttentionProblem {
  explicit AttentionProblem(AttentionOp op);
  explicit AttentionProblem(AttentionGradientOp op);

  mlir::Value query, key, value;
  /// Null where there is none.
  mlir::Value mask;
  double scale;
  bool causal;
  ComputeMode compute;
};

/// The extents of one attention.
struct AttentionSizes {
  explicit AttentionSizes(const AttentionProblem &problem);

  /// Extents in front of query and of key; the last one counts heads.
  llvm::SmallVector<int64_t> queryHeads, keyHeads;
  /// All heads of the query and of the key; the query's rows; positions of key
  /// and value; extents of a key and of a value.
  int64_t heads, sharedHeads, length, positions, depth, width;

  /// Heads of the query that share one of the key.
  int64_t share() const { return queryHeads.back() / keyHeads.back(); }

  /// Heads of the query whose rows, one head's behind the other's, are those of
  /// one tile: 1, or all that share a key's.
  int64_t grouped = 1;
  /// Such groups, and the rows of one.
  int64_t groups() const { return heads / grouped; }
  int64_t groupRows() const { return length * grouped; }
};

/// The type in which products are summed and the softmax runs.
mlir::Type attentionSumType(mlir::Value query);

/// The type in which the matrix units multiply the operands; nullopt where they
/// do not.
std::optional<cuda::FragmentType>
attentionFragmentType(const AttentionProblem &problem,
                      const CudaTarget &target);

/// The attention op of a kernel, null where it has none or more than one, or
/// stores what no form can.
AttentionOp attentionOf(mlir::func::FuncOp kernel);

/// What kernels of attention and of its gradient share: tiles in shared memory,
/// and scores under the mask.
class AttentionParts {
public:
  AttentionParts(GpuKernel &kernel, const AttentionProblem &problem);

  /// One past the last position that rows before `rowEnd` look at.
  mlir::Value keyEnd(mlir::Value rowEnd);

  /// A piece of an operand that a block keeps in shared memory; behind the
  /// operand's rows and columns stand zeros.
  struct Tile {
    mlir::Value tensor;
    /// The head.
    mlir::ValueRange leading;
    mlir::Value firstRow, firstColumn;
    /// Memory whose last two dimensions are rows and columns (at least
    /// `columns`), and the indices in front of them.
    mlir::Value memory;
    llvm::SmallVector<mlir::Value> at;
    int64_t rows, columns;
    /// The type to which elements are rounded on the way; null where the
    /// memory's type is enough.
    mlir::Type rounded = {};
    /// Whether rows are those of a group of heads, of which `leading` is the
    /// first.
    bool ofGroup = false;
  };
  /// Copies a tile with all threads of the block; a barrier has to follow.
  mlir::LogicalResult fill(const Tile &tile);
  /// The same by asynchronous copies (asyncBytes), of memory that has the
  /// operand's type.
  void copyAsync(const Tile &tile);
  /// Bytes that one asynchronous copy of an operand moves; 0 where it has to be
  /// loaded element by element.
  static int64_t asyncBytes(mlir::Value tensor);

  /// `score` of a row of the group, scaled and under the mask (AttentionMath).
  /// Row and column may lie outside. Null, with a diagnostic, where the mask
  /// cannot be generated.
  mlir::Value masked(mlir::Value score, mlir::Value row, mlir::Value column);
  /// `score`, or minus infinity behind the last position and the diagonal.
  mlir::Value bounded(mlir::Value score, mlir::Value row, mlir::Value column);

  using Scores = llvm::function_ref<void(
      llvm::function_ref<void(llvm::ArrayRef<mlir::Value> at)>)>;
  /// A row's running maximum and what is summed under it, at `slot` of private
  /// arrays; the first sum is that of the weights.
  struct RunningRow {
    mlir::Value slot, largest;
    llvm::SmallVector<mlir::Value> sums;
  };
  /// Takes more scores, which `each` visits at places of `scores`: renews the
  /// maximum (`joined` over those who share the row, where given) and the sums,
  /// and hands each weight to `use`. Returns the factor of older sums.
  mlir::Value takeScores(const RunningRow &row, mlir::Value scores, Scores each,
                         llvm::function_ref<mlir::Value(mlir::Value)> joined,
                         llvm::function_ref<void(llvm::ArrayRef<mlir::Value> at,
                                                 mlir::Value weight)>
                             use);

  ElementEmitter makeEmitter();
  /// `value` exchanged with the lane whose number differs in `flip`.
  mlir::Value shuffleXor(mlir::Value value, int64_t flip);
  mlir::Value load(mlir::Value memory, mlir::ValueRange at) {
    return mlir::memref::LoadOp::create(b, kernel.loc, memory, at);
  }
  void store(mlir::Value value, mlir::Value memory, mlir::ValueRange at) {
    mlir::memref::StoreOp::create(b, kernel.loc, value, memory, at);
  }

  GpuKernel &kernel;
  AttentionProblem problem;
  AttentionSizes sizes;
  mlir::OpBuilder &b;
  IndexMath math;
  MathExpansion values;
  AttentionMath formula;
  mlir::Type sumType;
  /// The query's head at work or the first of its group, and the key's that
  /// belongs to it.
  llvm::SmallVector<mlir::Value> head, keyHead;
  mlir::Value thread;

protected:
  /// The head and the row of it that row `row` of its group is.
  std::pair<llvm::SmallVector<mlir::Value>, mlir::Value>
  placeInGroup(mlir::Value row);
  /// Sets `head` and `keyHead` to the query's head or group of this number.
  void placeHead(mlir::Value number);
  /// The indices of a head's number, shown under names.
  llvm::SmallVector<mlir::Value> headAt(mlir::Value number,
                                        llvm::ArrayRef<int64_t> extents);
  /// The most neighbours of a row of `result`, which has `width` columns, that
  /// can be stored at once.
  static int64_t storeLanes(const StoredResults &results, mlir::Value result,
                            int64_t width, int64_t most);

private:
  /// Where a chunk of a tile stands in its operand.
  llvm::SmallVector<mlir::Value> sourceOf(const Tile &tile, mlir::Value row,
                                          mlir::Value column);
  /// Rows of the operand, or of a group.
  int64_t rowsOf(const Tile &tile) const;
  /// The chunks of a tile, spread over the threads: `body(row, column)` of
  /// each, up to `atOnce` of a thread unrolled.
  void eachChunk(const Tile &tile, int64_t lanes, int64_t atOnce,
                 llvm::function_ref<void(mlir::Value, mlir::Value)> body);
  /// Whether a chunk at row and column lies inside; null where all do.
  mlir::Value isInside(const Tile &tile, mlir::Value row, mlir::Value column);
  /// The argument's memory as one dimension, and an element's place there.
  mlir::Value flatMemory(const StridedView &view);
  mlir::Value placeIn(const StridedView &view, mlir::ValueRange indices);
};

/// One kernel of an attention op while its body is written.
class AttentionKernel : public AttentionParts {
public:
  AttentionKernel(GpuKernel &kernel, AttentionOp op);

  /// Finds the block's place: rows of `rows` in one group, and columns of the
  /// value in pieces of `columns`.
  void placeBlock(int64_t rows, int64_t columns);

  using AttentionParts::store;
  /// Takes `values` of one row from `column` on through the epilogue. Row and
  /// column lie inside.
  mlir::LogicalResult store(mlir::Value values, mlir::Value row,
                            mlir::Value column, int64_t lanes);
  /// The most neighbours of a row that can be stored at once.
  int64_t storeLanes(int64_t most);

  AttentionOp op;
  StoredResults results;
  /// The block's place; of the blocks that share the keys of a tile, the
  /// tile's number and the part (AttentionSplit.h).
  mlir::Value firstRow, firstColumn, tile, part;
};

/// The body of the two forms.
mlir::LogicalResult emitAttentionByFma(AttentionKernel &attention);
mlir::LogicalResult emitAttentionByMma(AttentionKernel &attention);

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONKERNEL_H
