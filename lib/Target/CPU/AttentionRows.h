//===- AttentionRows.h - keys and values where they lie ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is known of keys and values that attention of few rows reads in place,
// as a decoder's one token does: for schedules and emitters.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_ATTENTIONROWS_H
#define MPC_LIB_TARGET_CPU_ATTENTIONROWS_H

#include "ContractionShape.h"

namespace mpc {

/// Where a key or value of all heads lies in one run of `elements` of a
/// kernel's argument: `dimension` counts positions, `batch` are dimensions of
/// the operand before the heads and where they stand in the argument.
struct StoredRow {
  /// Nothing where `tensor`, `[..., heads, positions, width]`, lies otherwise.
  static std::optional<StoredRow> of(mlir::Value tensor);

  /// Of all heads at one position.
  int64_t bytes() const;
  /// Whether asking for it whole is faster than what heads read by themselves.
  bool paysWhole() const;

  mlir::Value argument;
  int64_t dimension = 0, elements = 0, heads = 0, positions = 0;
  llvm::SmallVector<std::pair<int64_t, int64_t>> batch;
};

/// Whether attention reads keys and values where they lie: to pack them costs
/// as much as to multiply some rows by them.
bool readsKeysInPlace(const Contraction &attention);

/// Positions that whole parts of the keys are multiples of, where vectors have
/// so many lanes: values are weighed `kValueBlock` at a time, exponentials made
/// two vectors at a time.
inline constexpr int64_t kValueBlock = 16;
inline int64_t stepOfParts(int64_t lanes) {
  return std::max(kValueBlock, 2 * lanes);
}

/// Whether all heads of a position are better read one after the other.
bool readsWholeRows(AttentionOp attention);

/// Bytes of a key of one head where it lies, as far as that is known.
int64_t storedKeyBytes(AttentionOp attention);

/// Cycles of one head's rows at one position.
double cyclesInPlace(const Contraction &attention);

} // namespace mpc

#endif // MPC_LIB_TARGET_CPU_ATTENTIONROWS_H
