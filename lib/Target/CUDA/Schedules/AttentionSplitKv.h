//===- AttentionSplitKv.h - split-KV attention (flash-decoding) -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For few queries, one block per head leaves most multiprocessors idle. The
// keys are split into parts, one block each, which store their accumulators and
// running maxima in the scratch buffer; the last-arriving block of a tile
// reduces them in the order of parts (flash-decoding: T. Dao, D. Haziza, F.
// Massa, G. Sizov, "Flash-Decoding for long-context inference", 2023).
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONSPLITKV_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONSPLITKV_H

#include "AttentionKernel.h"

namespace mpc::cuda {

/// Splits the keys of a schedule whose blocks have all rows of a head, at
/// multiples of `keys`, if that improves utilization. Sets `parts` (1: no
/// split) and `partKeys`, and stores the parameters.
void splitKv(Schedule &schedule, AttentionSchedule parameters,
             const AttentionSizes &sizes, mlir::Type sumType,
             const CudaTarget &target);

/// The block's part of the keys. All threads of a block store their partial
/// results, then reduce.
class SplitKvPart {
public:
  /// The block's indices must be set (AttentionKernel::placeBlock).
  explicit SplitKvPart(AttentionKernel &attention);

  /// First key (a multiple of two tiles), and one past the last before `end`.
  mlir::Value begin() const { return first; }
  mlir::Value endBefore(mlir::Value end) const;

  /// Whether there are several parts.
  bool isShared() const { return parts > 1; }
  /// Stores accumulators of a row from a column on, relative to the block's
  /// tile.
  void leave(mlir::Value sums, mlir::Value row, mlir::Value column);
  /// Stores maximum and total of a row.
  void storePartialRow(mlir::Value row, mlir::Value largest, mlir::Value total);
  /// Reduces all parts in the last-arriving block and applies the epilogue.
  mlir::LogicalResult join();

private:
  /// Returns the offset of a row of part number `part`.
  mlir::Value rowAt(mlir::Value part, mlir::Value row) const;
  mlir::Value loadAt(mlir::Value place, int64_t lanes) const;

  AttentionKernel &a;
  int64_t rows, columns, parts, partKeys;
  mlir::Value first, partials;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONSPLITKV_H
