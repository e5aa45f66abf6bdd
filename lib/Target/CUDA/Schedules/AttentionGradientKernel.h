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

/// Static shared memory besides Schedule::sharedBytes, in bytes: two values,
/// 16-byte aligned.
inline constexpr int64_t kGradientStaticBytes = 32;

/// Parameters of the schedule: rows per block of each role.
struct GradientRoles {
  int64_t queryRows = 0, keyRows = 0;

  static void map(auto &schedule, auto field) {
    field("query_rows", schedule.queryRows);
    field("key_rows", schedule.keyRows);
  }
};

/// Sets grid, scratch memory and the parameters of the roles.
void placeGradientBlocks(Schedule &schedule, const GradientRoles &roles,
                         mlir::func::FuncOp kernel, AttentionGradientOp op);

/// Generates the body of one kernel.
class AttentionGradientKernel : public AttentionCodegen {
public:
  AttentionGradientKernel(GpuKernel &kernel, AttentionGradientOp op);

  /// Returns true if the kernel stores elements of this gradient.
  bool stores(AttentionResult result) const;

  /// Generates both roles, for a block to choose from at run time. Before each,
  /// sets the block's indices: `firstRow`, `head` and `keyHead` for the rows
  /// role, `firstKey` and `keyHead` for the keys role. Omits unused roles.
  void emitRoles(llvm::function_ref<void()> rows,
                 llvm::function_ref<void()> keys);

  // Statistics of a row: the shift of its scores (AttentionMath), 1 / total (0
  // for a fully masked row), and delta.

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
  GradientRoles roles;
  /// Results by AttentionResult.
  std::vector<ContractionEpilogue> results;
  /// Indices of the block (emitRoles).
  mlir::Value firstRow, firstKey;

private:
  /// Whether the keys role waits for the rows role.
  bool hasHandOver() const { return rowBlocks && keyBlocks; }
  mlir::Value takeBlockIndex();
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

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONGRADIENTKERNEL_H
