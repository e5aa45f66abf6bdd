//===- AttentionGradientKernel.h - parts of its kernels ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The gradient of attention in one launch. With P the probabilities, D =
// gradient * value^T and delta = rowsum(P * D), blocks have one of two roles:
//
// - Rows: some query rows of one head. A first walk over the keys finds the
//   rows' statistics, from which any P and P * (D - delta) can be made anew,
//   and publishes them; a second one sums the query's gradient.
// - Keys: some positions of one key head. Waits for the statistics of all rows
//   of the heads that share it, walks over these rows and sums the gradients of
//   key and value. Nothing is added atomically: sums have one order.
//
// A block that waits must never keep those off the device that it waits for, so
// roles go by tickets: the first to run take the rows. The last block that has
// ceased to wait leaves all counters at zero for the next launch.
//
// Two forms differ in who multiplies, as for attention itself.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONGRADIENTKERNEL_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONGRADIENTKERNEL_H

#include "AttentionKernel.h"

namespace mpc {

/// The three gradients, by the number of the op's result.
enum class AttentionResult : unsigned { query, key, value };

/// The attention_gradient op of a kernel; null where it has none or more than
/// one, or stores what no form can.
AttentionGradientOp attentionGradientOf(mlir::func::FuncOp kernel);

/// Static shared memory of both forms, beside Schedule::sharedBytes: two
/// numbers that are aligned to 16 bytes.
inline constexpr int64_t kGradientStaticBytes = 32;

/// Sets the grid, the scratch memory and the parameters `query_rows` and
/// `key_rows`: the rows of a block in either role.
void placeGradientBlocks(Schedule &schedule, mlir::func::FuncOp kernel,
                         AttentionGradientOp op, int64_t queryRows,
                         int64_t keyRows);

/// One kernel while its body is written.
class AttentionGradientKernel : public AttentionParts {
public:
  AttentionGradientKernel(GpuKernel &kernel, AttentionGradientOp op);

  /// Whether the kernel stores elements of this gradient.
  bool stores(AttentionResult result) const;

  /// Writes both roles, each of which a block may have. When a role is written
  /// the block's place is set: `firstRow` with `head` and `keyHead` of the rows
  /// role, `firstKey` with `keyHead` of the keys role. A role that nothing
  /// needs is left out.
  mlir::LogicalResult emitRoles(llvm::function_ref<mlir::LogicalResult()> rows,
                                llvm::function_ref<mlir::LogicalResult()> keys);

  // Statistics of a row. Three numbers in the type of sums, whose meaning is
  // the form's own; that of fma: the maximum score (0 for a row that keeps
  // nothing), 1 / total (0 for such a row), and delta.

  /// Stores what one thread knows about row `row` of `head`, which lies inside.
  void storeStatistics(mlir::Value row, llvm::ArrayRef<mlir::Value> three);
  /// Rows role, once all threads have stored: tells the keys role. Holds a
  /// barrier. Nothing where there is no such role.
  void publishStatistics();
  /// Keys role: waits until all statistics of its heads are published. Holds
  /// barriers; what else the block loads first comes before.
  void awaitStatistics();
  /// Copies the statistics of `count` rows of `head` from `firstRow` on to
  /// shared memory [3][>= count] of the type of sums, with all threads of the
  /// block; zeros for rows that lie outside. A barrier has to follow, and with
  /// `isAsync`, by asynchronous copies, the wait for these.
  void loadStatistics(mlir::Value firstRow, int64_t count, mlir::Value memory,
                      bool isAsync = false);

  /// Keys role: `body` for each head of the query that shares the block's key
  /// head, in order; `head` is set.
  void eachQueryHead(llvm::function_ref<void()> body);
  /// Keys role: the first row, a multiple of `tile`, that looks at positions
  /// from `firstKey` on.
  mlir::Value firstRowOf(mlir::Value firstKey, int64_t tile);

  /// `score` as `bounded` leaves it, and minus infinity for a row that lies
  /// outside.
  mlir::Value boundedInside(mlir::Value score, mlir::Value row,
                            mlir::Value column);

  using AttentionParts::store;
  /// Takes values of one row (of `head` for the query, of `keyHead` for key and
  /// value) from `column` on through the gradient's epilogue. Row and column
  /// lie inside. The scale is part of the values.
  mlir::LogicalResult store(AttentionResult result, mlir::Value sums,
                            mlir::Value row, mlir::Value column, int64_t lanes);
  /// The most neighbours of a row that can be stored at once.
  int64_t storeLanes(AttentionResult result, int64_t most);

  /// The element type in which factors are multiplied: that of the operands, to
  /// which P, P * (D - delta) and the gradient are rounded.
  mlir::Type factorType() const;

  AttentionGradientOp op;
  /// By AttentionResult.
  std::vector<StoredResults> results;
  /// The block's place (emitRoles).
  mlir::Value firstRow, firstKey;

private:
  /// Whether one role waits for the other.
  bool hasHandOver() const { return rowBlocks && keyBlocks; }
  mlir::Value drawTicket();
  void onlyFirstThread(llvm::function_ref<void()> body);
  mlir::Value count(int64_t number, mlir::Value counter);
  /// The place of a statistic of a row of `head`.
  mlir::Value statisticAt(mlir::Value which, mlir::Value row);

  /// Tiles of one head, and blocks, in either role.
  int64_t rowTiles, keyTiles, rowBlocks, keyBlocks;
  /// In scratch memory, where there is a hand-over: the tickets drawn, the
  /// blocks that have ceased to wait, and per key head the row tiles that are
  /// published; statistics [3][head][row].
  mlir::Value counters, statistics;
  /// Numbers of `head` and `keyHead`.
  mlir::Value headNumber, keyHeadNumber;
};

/// The schedules of both forms; nullopt where the matrix units do not multiply
/// the type or the tiles do not fit.
Schedule scheduleGradientFma(mlir::func::FuncOp kernel, AttentionGradientOp op);
std::optional<Schedule> scheduleGradientMma(mlir::func::FuncOp kernel,
                                            AttentionGradientOp op,
                                            const CudaTarget &target);

/// The bodies of both forms. `matrix_units` among the parameters says that it
/// is the latter.
mlir::LogicalResult
emitAttentionGradientByFma(AttentionGradientKernel &gradient);
mlir::LogicalResult
emitAttentionGradientByMma(AttentionGradientKernel &gradient);

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONGRADIENTKERNEL_H
