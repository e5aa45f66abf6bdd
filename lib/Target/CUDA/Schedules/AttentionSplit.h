//===- AttentionSplit.h - keys that several blocks share --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where there are few queries a block per head leaves most multiprocessors
// without work: keys are cut into parts, each of which a block walks over. It
// leaves its sums in the scratch buffer with the maximum under which they were
// made, and the last block of a tile joins them, in the order of the parts
// (flash-decoding: T. Dao, D. Haziza, F. Massa, G. Sizov, "Flash-Decoding for
// long-context inference", 2023).
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONSPLIT_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONSPLIT_H

#include "AttentionKernel.h"

namespace mpc {

/// Cuts the keys of a schedule whose blocks have all rows of a head, and walk
/// over tiles of `keys`, where that fills a GPU better. Adds the parameters
/// "parts" (1: none) and "part_keys".
void splitKeys(Schedule &schedule, const AttentionSizes &sizes,
               mlir::Type sumType, const CudaTarget &target);

/// The block's part, while a body is written. All threads of a block leave what
/// they have, then join.
class KeyPart {
public:
  /// The block has its place already (AttentionKernel::placeBlock).
  explicit KeyPart(AttentionKernel &attention);

  /// The first key, and one past the last before `end`. The first is a multiple
  /// of two tiles.
  mlir::Value begin() const { return first; }
  mlir::Value endBefore(mlir::Value end) const;

  /// Whether there is more than one.
  bool isShared() const { return parts > 1; }
  /// Leaves sums of a row from a column on; both count in the block's tile.
  void leave(mlir::Value sums, mlir::Value row, mlir::Value column);
  /// Leaves what belongs to a row's sums.
  void leaveRow(mlir::Value row, mlir::Value largest, mlir::Value total);
  /// Joins all parts in the last block and takes them through the epilogue.
  mlir::LogicalResult join();

private:
  /// Where a row of part number `part` begins.
  mlir::Value rowAt(mlir::Value part, mlir::Value row) const;
  mlir::Value loadAt(mlir::Value place, int64_t lanes) const;

  AttentionKernel &a;
  int64_t rows, columns, parts, partKeys;
  mlir::Value first, partials;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONSPLIT_H
