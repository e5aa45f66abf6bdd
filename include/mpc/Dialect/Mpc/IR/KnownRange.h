//===- KnownRange.h - intervals of values -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_KNOWNRANGE_H
#define MPC_DIALECT_MPC_IR_KNOWNRANGE_H

#include "mlir/IR/Value.h"

#include <algorithm>
#include <limits>

namespace mpc {

/// Smallest and largest value, before any rounding to 16 bits; infinite where
/// not known.
struct KnownRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();

  /// The largest magnitude.
  double magnitude() const { return std::max(-low, high); }
  /// Whether every value lies in [from, to].
  bool isWithin(double from, double to) const {
    return from <= low && high <= to;
  }
  /// What holds every value of both.
  KnownRange join(KnownRange other) const {
    return {std::min(low, other.low), std::max(high, other.high)};
  }
};

/// Whether integers of `range` may leave the type of `value`, where they wrap.
bool mayWrap(mlir::Value value, KnownRange range);

} // namespace mpc

#endif // MPC_DIALECT_MPC_IR_KNOWNRANGE_H
