//===- KnownRange.h - value intervals ---------------------------*- C++ -*-===//
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

/// Interval of values, before rounding to 16 bits; infinite bounds if unknown.
struct KnownRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();

  /// Maximum magnitude.
  double magnitude() const { return std::max(-low, high); }
  /// Returns true if every value is in [from, to].
  bool isWithin(double from, double to) const {
    return from <= low && high <= to;
  }
  /// Smallest interval that contains both.
  KnownRange join(KnownRange other) const {
    return {std::min(low, other.low), std::max(high, other.high)};
  }
};

/// Returns true if integers of `range` may wrap in the type of `value`.
bool mayWrap(mlir::Value value, KnownRange range);

} // namespace mpc

#endif // MPC_DIALECT_MPC_IR_KNOWNRANGE_H
