//===- AttentionKernel.h - common code of attention kernels -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// FlashAttention: a block computes query rows of one head and loops over tiles
// of keys, with scores, mask, online softmax (running maximum and total per
// row) and the GEMM with the values in one pass. Two variants: fma, and tensor
// cores.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONKERNEL_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONKERNEL_H

#include "Schedule.h"
#include "StridedView.h"

#include "Target/Kernel/AttentionMath.h"
#include "Target/Kernel/ContractionEpilogue.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"

namespace mpc {
class AttentionGradientOp;
} // namespace mpc

namespace mpc::cuda {

/// Operands and score formula of an attention or its gradient.
struct AttentionProblem {
  explicit AttentionProblem(AttentionOp op);
  explicit AttentionProblem(AttentionGradientOp op);

  mlir::Value query, key, value;
  /// Null if there is none.
  mlir::Value mask;
  double scale;
  bool causal;
  ComputeMode compute;
};

/// Extents of one attention.
struct AttentionSizes {
  explicit AttentionSizes(const AttentionProblem &problem);

  /// Leading extents of query and key; the last one is the number of heads.
  llvm::SmallVector<int64_t> queryHeads, keyHeads;
  /// Total heads of query and key, query rows, key positions, extents of a key
  /// and of a value.
  int64_t heads, sharedHeads, length, positions, depth, width;

  /// Query heads per key head (grouped-query attention).
  int64_t share() const { return queryHeads.back() / keyHeads.back(); }

  /// Query heads whose rows, concatenated, form one tile: 1, or all that share
  /// a key head.
  int64_t grouped = 1;
  /// Number of such groups, and rows per group.
  int64_t groups() const { return heads / grouped; }
  int64_t groupRows() const { return length * grouped; }
};

/// Parameters of attention kernels: shared-memory tiles of query rows, keys
/// and columns of keys (`depth`) and values; query heads per tile; number of
/// parts of the keys (split-KV) and keys per part.
struct AttentionSchedule {
  int64_t rows = 0, keys = 0, depth = 0, columns = 0, grouped = 1, parts = 1,
          partKeys = 0;
  /// Elements per vector of the FMA variant.
  int64_t lanes = 0;
  /// Tensor cores: value columns whose fragments are loaded at once, stages of
  /// the pipeline, whether the query is copied asynchronously and stays in
  /// registers, 16-bit pieces per weight.
  int64_t pieceColumns = 0, stages = 0, weightPieces = 0;
  bool matrixUnits = false, asyncQuery = false, queryInRegisters = false;

  static void map(auto &schedule, auto field) {
    field("rows", schedule.rows);
    field("keys", schedule.keys);
    field("depth", schedule.depth);
    field("columns", schedule.columns);
    field("grouped", schedule.grouped, 1);
    field("parts", schedule.parts);
    field("part_keys", schedule.partKeys);
    field("lanes", schedule.lanes, 0);
    field("matrix_units", schedule.matrixUnits, false);
    field("piece_columns", schedule.pieceColumns, 0);
    field("stages", schedule.stages, 0);
    field("async_query", schedule.asyncQuery, false);
    field("query_in_registers", schedule.queryInRegisters, false);
    field("weight_pieces", schedule.weightPieces, 0);
  }
};

/// Returns the type of accumulators and softmax.
mlir::Type attentionSumType(mlir::Value query);

/// Returns the only attention op of a kernel; null if there is none or several,
/// or for an unsupported epilogue.
AttentionOp attentionOf(mlir::func::FuncOp kernel);

/// Code shared by attention and its gradient: shared-memory tiles, masked
/// scores.
class AttentionCodegen {
public:
  AttentionCodegen(GpuKernel &kernel, const AttentionProblem &problem);

  /// Returns one past the last position that rows before `rowEnd` attend to.
  mlir::Value keyEnd(mlir::Value rowEnd);

  /// A tile of an operand in shared memory, zero-padded out of bounds.
  struct Tile {
    mlir::Value tensor;
    /// Index of the head.
    mlir::ValueRange leading;
    mlir::Value firstRow, firstColumn;
    /// Memref whose last two dimensions are rows and columns (at least
    /// `columns`), and its leading indices.
    mlir::Value memory;
    llvm::SmallVector<mlir::Value> at;
    int64_t rows, columns;
    /// Type to round elements to; null: only the memory's type.
    mlir::Type rounded = {};
    /// Whether rows are those of a group of heads, of which `leading` is the
    /// first.
    bool ofGroup = false;
  };
  /// Loads a tile with all threads of the block; needs a barrier afterwards.
  mlir::LogicalResult fill(const Tile &tile);
  /// The same with cp.async (asyncBytes), to memory of the operand's type.
  void copyAsync(const Tile &tile);
  /// Returns the bytes per cp.async of an operand; 0 if unsupported.
  static int64_t asyncBytes(mlir::Value tensor);

  /// Scales and masks the `score` of a row of the group (AttentionMath). Row
  /// and column may be out of bounds. Returns null, after a diagnostic, for an
  /// unsupported mask.
  mlir::Value masked(mlir::Value score, mlir::Value row, mlir::Value column);
  /// Returns `score`, or minus infinity past the last position or the diagonal.
  mlir::Value bounded(mlir::Value score, mlir::Value row, mlir::Value column);

  using Scores = llvm::function_ref<void(
      llvm::function_ref<void(llvm::ArrayRef<mlir::Value> at)>)>;
  /// A row's running maximum and the accumulators scaled by it, at `slot` of
  /// private arrays; the first accumulator is the total of the weights.
  struct OnlineSoftmaxRow {
    mlir::Value slot, largest;
    llvm::SmallVector<mlir::Value> sums;
  };
  /// Online softmax step for the scores that `each` visits: updates the maximum
  /// (reduced with `joined` over the row's threads, if given), rescales the
  /// accumulators, and passes each weight to `use`. Returns the rescaling
  /// factor.
  mlir::Value
  updateOnlineSoftmax(const OnlineSoftmaxRow &row, mlir::Value scores,
                      Scores each,
                      llvm::function_ref<mlir::Value(mlir::Value)> joined,
                      llvm::function_ref<void(llvm::ArrayRef<mlir::Value> at,
                                              mlir::Value weight)>
                          use);

  ElementEmitter makeEmitter();
  /// Warp shuffle of `value` with lane xor `flip`.
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
  /// Current query head, or first of its group, and its key head.
  llvm::SmallVector<mlir::Value> head, keyHead;
  mlir::Value thread;

protected:
  /// Maps row `row` of a group to a head and a row of it.
  std::pair<llvm::SmallVector<mlir::Value>, mlir::Value>
  placeInGroup(mlir::Value row);
  /// Sets `head` and `keyHead` for a query head or group by its index.
  void placeHead(mlir::Value number);
  /// Returns the named indices of a head.
  llvm::SmallVector<mlir::Value> headAt(mlir::Value number,
                                        llvm::ArrayRef<int64_t> extents);
  /// Returns the maximum vector length of stores in a row of `result`, which
  /// has `width` columns.
  static int64_t storeLanes(const ContractionEpilogue &results,
                            mlir::Value result, int64_t width, int64_t most);

private:
  /// Returns the operand indices of a chunk of a tile.
  llvm::SmallVector<mlir::Value> sourceOf(const Tile &tile, mlir::Value row,
                                          mlir::Value column);
  /// Returns the rows of the operand, or of a group.
  int64_t rowsOf(const Tile &tile) const;
  /// Distributes the chunks of a tile over threads: calls `body(row, column)`
  /// for each, up to `atOnce` per thread unrolled.
  void eachChunk(const Tile &tile, int64_t lanes, int64_t atOnce,
                 llvm::function_ref<void(mlir::Value, mlir::Value)> body);
  /// Returns whether a chunk is in bounds; null: always.
  mlir::Value isInside(const Tile &tile, mlir::Value row, mlir::Value column);
  /// Flattened memory of the argument, and an element's offset in it.
  mlir::Value flatMemory(const StridedView &view);
  mlir::Value placeIn(const StridedView &view, mlir::ValueRange indices);
};

/// Generates the body of one attention kernel.
class AttentionKernel : public AttentionCodegen {
public:
  AttentionKernel(GpuKernel &kernel, AttentionOp op);

  /// Computes the block's indices: tiles of `rows` rows of one group, and of
  /// `columns` value columns.
  void placeBlock(int64_t rows, int64_t columns);

  using AttentionCodegen::store;
  /// Applies the epilogue to `values` of one row from `column` on, and stores
  /// them. Row and column are in bounds.
  mlir::LogicalResult store(mlir::Value values, mlir::Value row,
                            mlir::Value column, int64_t lanes);
  /// Returns the maximum vector length of stores in a row.
  int64_t storeLanes(int64_t most);

  AttentionOp op;
  AttentionSchedule parameters;
  ContractionEpilogue results;
  /// Indices of the block; with split-KV also tile and part
  /// (AttentionSplitKv.h).
  mlir::Value firstRow, firstColumn, tile, part;
};

/// Generate the bodies of the two variants.
mlir::LogicalResult emitAttentionByFma(AttentionKernel &attention);
mlir::LogicalResult emitAttentionByMma(AttentionKernel &attention);

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONKERNEL_H
