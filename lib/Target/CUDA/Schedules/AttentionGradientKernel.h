//===- AttentionGradientKernel.h - flash attention backward -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The gradient of attention in one launch (FlashAttention backward). With P the
// probabilities, dP = gradient * value^T (`slopes`), delta = rowsum(P * dP) and
// dS = P * (dP - delta), blocks have one of two roles:
//
// - Rows: query rows of one head. A first pass over the keys computes the rows'
// statistics, from which P and dS can be recomputed, and publishes them; a
// second pass accumulates the query gradient.
// - Keys: positions of one key head. Waits for the statistics of all rows of
// the heads that share it, loops over these rows and accumulates the key and
// value gradients. No atomic accumulation: results are deterministic.
//
// The keys role consumes what the rows role produces, in one launch: blocks
// take their roles from an atomic counter, rows first, so producers always make
// progress. The last consumer resets all counters for the next launch.
//
// Two variants, with and without tensor cores, as for attention.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONGRADIENTKERNEL_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONGRADIENTKERNEL_H

#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"

#include "AttentionKernel.h"

namespace mpc::cuda {

/// The three gradients, by result index of the op.
enum class AttentionResult : unsigned { query, key, value };

/// Returns the only attention_gradient op of a kernel; null if there is none or
/// several, or for an unsupported epilogue.
AttentionGradientOp attentionGradientOf(mlir::func::FuncOp kernel);

/// Static shared memory of both variants besides Schedule::sharedBytes, in
/// bytes: two values, 16-byte aligned.
inline constexpr int64_t kGradientStaticBytes = 32;

/// Parameters of gradient kernels: rows per block of each role, shared-memory
/// columns of queries and keys (`depth`; tensor cores) and of values.
struct AttentionGradientSchedule {
  int64_t queryRows = 0, keyRows = 0, columns = 0;
  /// Elements per vector of the FMA variant.
  int64_t lanes = 0;
  /// Tensor cores: stages of the pipeline, rows of the other operands' tiles of
  /// each role, whether a role's own rows stay in registers, byte offset of own
  /// rows in shared memory, whether the rows role has all keys in one tile and
  /// the keys role accumulates both results in one pass, and accumulator
  /// columns per pass.
  int64_t depth = 0, stages = 0, keys = 0, queries = 0, ownOffset = 0,
          sumColumns = 0;
  bool matrixUnits = false, rowsInRegisters = false, keysInRegisters = false,
       keysInOneTile = false, keysInOneWalk = false;

  static void map(auto &schedule, auto field) {
    field("query_rows", schedule.queryRows);
    field("key_rows", schedule.keyRows);
    field("columns", schedule.columns);
    field("lanes", schedule.lanes, 0);
    field("matrix_units", schedule.matrixUnits, false);
    field("depth", schedule.depth, 0);
    field("stages", schedule.stages, 0);
    field("keys", schedule.keys, 0);
    field("queries", schedule.queries, 0);
    field("rows_in_registers", schedule.rowsInRegisters, false);
    field("keys_in_registers", schedule.keysInRegisters, false);
    field("own_offset", schedule.ownOffset, 0);
    field("keys_in_one_tile", schedule.keysInOneTile, false);
    field("keys_in_one_walk", schedule.keysInOneWalk, false);
    field("sum_columns", schedule.sumColumns, 0);
  }
};

/// Sets grid and scratch memory, and stores the parameters with `rows` rows per
/// block of both roles.
void placeGradientBlocks(Schedule &schedule,
                         AttentionGradientSchedule parameters,
                         mlir::func::FuncOp kernel, AttentionGradientOp op,
                         int64_t rows);

/// Generates the body of one kernel.
class AttentionGradientKernel : public AttentionCodegen {
public:
  AttentionGradientKernel(GpuKernel &kernel, AttentionGradientOp op);

  /// Returns true if the kernel stores elements of this gradient.
  bool stores(AttentionResult result) const;

  /// Generates both roles, for a block to choose from at run time. Before each,
  /// sets the block's indices: `firstRow`, `head` and `keyHead` for the rows
  /// role, `firstKey` and `keyHead` for the keys role. Omits unused roles.
  mlir::LogicalResult emitRoles(llvm::function_ref<mlir::LogicalResult()> rows,
                                llvm::function_ref<mlir::LogicalResult()> keys);

  // Statistics of a row: three values in the accumulator type. Without tensor
  // cores: maximum score (0 for a fully masked row), 1 / total (0 for such a
  // row), and delta. The variant with tensor cores defines its own.

  /// Stores the statistics of `row` of `head`, in bounds, by one thread.
  void storeStatistics(mlir::Value row, llvm::ArrayRef<mlir::Value> three);
  /// Rows role, after all threads have stored: signals the keys role. Contains
  /// a barrier. No-op without a keys role.
  void publishStatistics();
  /// Keys role: waits for all statistics of its heads. Contains barriers; issue
  /// independent loads before.
  void waitForStatistics();
  /// Copies the statistics of `count` rows of `head` from `firstRow` on to
  /// shared memory [3][>= count], by all threads of the block; zeros out of
  /// bounds. Needs a barrier afterwards and, with `isAsync`, a wait for the
  /// asynchronous copies.
  void loadStatistics(mlir::Value firstRow, int64_t count, mlir::Value memory,
                      bool isAsync = false);

  /// Keys role: calls `body` for each query head that shares the block's key
  /// head, in order, with `head` set.
  void eachQueryHead(llvm::function_ref<void()> body);
  /// Keys role: returns the first row, a multiple of `tile`, that attends to
  /// positions from `firstKey` on.
  mlir::Value firstRowOf(mlir::Value firstKey, int64_t tile);

  /// Returns `bounded(score)`, and minus infinity for an out-of-bounds row.
  mlir::Value boundedInside(mlir::Value score, mlir::Value row,
                            mlir::Value column);

  using AttentionCodegen::store;
  /// Applies the gradient's epilogue to values of one row (of `head` for the
  /// query, of `keyHead` for key and value) from `column` on, and stores them.
  /// Row and column are in bounds. The values include the scale.
  void store(AttentionResult result, mlir::Value sums, mlir::Value row,
             mlir::Value column);
  /// Returns the maximum vector length of stores in a row.
  int64_t storeLanes(AttentionResult result);

  /// Returns the operand type of the GEMMs, to which P, dS and the output
  /// gradient are rounded.
  mlir::Type factorType() const;

  AttentionGradientOp op;
  AttentionGradientSchedule parameters;
  /// Results by AttentionResult.
  std::vector<ContractionEpilogue> results;
  /// Indices of the block (emitRoles).
  mlir::Value firstRow, firstKey;

private:
  /// Whether the keys role waits for the rows role.
  bool hasHandOver() const { return rowBlocks && keyBlocks; }
  mlir::Value takeBlockIndex();
  void onlyFirstThread(llvm::function_ref<void()> body);
  mlir::Value count(int64_t number, mlir::Value counter);
  /// Returns the index of a statistic of a row of `head`.
  mlir::Value statisticAt(mlir::Value which, mlir::Value row);

  /// Tiles per head, and blocks, of each role.
  int64_t rowTiles, keyTiles, rowBlocks, keyBlocks;
  /// Scratch memory, if the keys role waits: block counter, departed consumers,
  /// and arrived row tiles per key head; statistics [3][head][row].
  mlir::Value counters, statistics;
  /// Indices of `head` and `keyHead`.
  mlir::Value headNumber, keyHeadNumber;
};

/// Schedules of both variants; nullopt if tensor cores lack the type or the
/// tiles do not fit.
Schedule scheduleGradientFma(mlir::func::FuncOp kernel, AttentionGradientOp op);
std::optional<Schedule> scheduleGradientMma(mlir::func::FuncOp kernel,
                                            AttentionGradientOp op,
                                            const CudaTarget &target);

/// Generate the bodies of both variants; the parameter `matrix_units` selects
/// tensor cores.
mlir::LogicalResult
emitAttentionGradientByFma(AttentionGradientKernel &gradient);
mlir::LogicalResult
emitAttentionGradientByMma(AttentionGradientKernel &gradient);

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONGRADIENTKERNEL_H
