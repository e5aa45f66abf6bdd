//===- KnownRanges.h - bounds that follow from the graph --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Intervals of values that hold for every input, NaN aside: from constants,
// truth values, positions, clips and bounded functions, through arithmetic.
// Nothing is known of inputs, of contractions or of large constants, but for
// one: an integer input that the model makes a mask of, 1 - input times a large
// number or as a truth value, is taken to hold zeros and ones.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_KNOWNRANGES_H
#define MPC_ANALYSIS_KNOWNRANGES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseMap.h"

#include <algorithm>
#include <limits>
#include <optional>

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
};

/// The ranges of one function's values.
class KnownRanges {
public:
  explicit KnownRanges(mlir::func::FuncOp func);

  KnownRange get(mlir::Value value) const { return ranges.lookup(value); }

private:
  KnownRange compute(mlir::Operation *op, mlir::Value result) const;

  llvm::DenseMap<mlir::Value, KnownRange> ranges;
};

/// The element that all elements of a constant have, looking through ops that
/// repeat or move them; nullopt where there is none.
std::optional<double> constantSplat(mlir::Value value);

/// `value` in `type`, to nearest, ties to even; what is too large is infinite.
double roundedTo(double value, mlir::FloatType type);

/// The integer up to which `type` holds every integer: 256 for bf16, 2048 for
/// f16, where a running sum of ones stops as well.
double exactIntegerLimit(mlir::FloatType type);

} // namespace mpc

#endif // MPC_ANALYSIS_KNOWNRANGES_H
