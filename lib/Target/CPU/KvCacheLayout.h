//===- KvCacheLayout.h - in-place layout of keys and values -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layout of keys and values that attention of few rows (decoding) reads without
// packing, for schedules and emitters.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_KVCACHELAYOUT_H
#define MPC_LIB_TARGET_CPU_KVCACHELAYOUT_H

#include "ContractionShape.h"

namespace mpc {
class AttentionOp;
} // namespace mpc

namespace mpc::cpu {

/// A key or value of all heads that is stored contiguously as `elements`
/// elements of a kernel's argument: `dimension` is the position, `batch` pairs
/// the operand's dimensions before the heads with those of the argument.
struct InPlaceRow {
  /// Returns nullopt if `tensor`, `[..., heads, positions, width]`, has another
  /// layout.
  static std::optional<InPlaceRow> of(mlir::Value tensor);

  /// Size of all heads at one position, in bytes.
  int64_t bytes() const;
  /// Returns true if prefetching whole rows is faster than each head's own
  /// reads.
  bool paysWhole() const;

  mlir::Value argument;
  int64_t dimension = 0, elements = 0, heads = 0, positions = 0;
  llvm::SmallVector<std::pair<int64_t, int64_t>> batch;
};

/// Returns true if attention reads keys and values in place: packing costs as
/// much as multiplying a few rows.
bool readsKeysInPlace(const Contraction &attention);

/// Granularity of splits of the keys, in positions: values are accumulated
/// `kValueBlock` at a time, exponentials computed two vectors at a time.
inline constexpr int64_t kValueBlock = 16;
inline int64_t stepOfParts(int64_t lanes) {
  return std::max(kValueBlock, 2 * lanes);
}

/// Returns true if all heads of a position should be read one after another.
bool readsWholeRows(AttentionOp attention);

/// Stored size of one head's key, in bytes, as far as known.
int64_t storedKeyBytes(AttentionOp attention);

/// Cycles of one head's rows at one position.
double cyclesInPlace(const Contraction &attention);

} // namespace mpc::cpu

#endif // MPC_LIB_TARGET_CPU_KVCACHELAYOUT_H
