//===- PaddingAxes.h - which dimensions of an op can grow -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Describes an op by its axes: dimensions of operands and results that can be
// padded together without changing any element that was there before, and says
// what then stands in the padded places.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_PADDINGAXES_H
#define MPC_ANALYSIS_PADDINGAXES_H

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

namespace mpc {

/// How one dimension grows: `groups` runs of `from` elements become runs of
/// `to`, the new places behind the old ones of each run.
struct DimPadding {
  int64_t groups = 1, from = 1, to = 1;

  bool isPadded() const { return from != to; }
  int64_t oldExtent() const { return groups * from; }
  int64_t newExtent() const { return groups * to; }
  /// Whether both give one dimension the same places.
  bool operator==(const DimPadding &other) const {
    if (!isPadded() || !other.isPadded())
      return isPadded() == other.isPadded() && oldExtent() == other.oldExtent();
    return groups == other.groups && from == other.from && to == other.to;
  }
};

/// What stands in padded places, as long as the model's own values are finite.
enum class LaneState {
  Zero,   ///< zeros
  Finite, ///< some finite values
  Any,    ///< perhaps infinities or NaN
};

/// What an axis is to a contraction; Map for every other op.
enum class AxisRole { Map, Batch, Rows, Columns, Depth, Keys };

/// One dimension of an operand or a result on an axis.
struct AxisLink {
  bool isResult = false;
  /// Number of the operand or result.
  unsigned index = 0;
  unsigned dim = 0;
  /// The dimension holds the axis this many times, one after the other.
  int64_t scale = 1;
};

/// Dimensions of one op that must be padded alike.
struct OpAxis {
  AxisRole role = AxisRole::Map;
  int64_t extent = 1;
  llvm::SmallVector<AxisLink, 4> links;

  /// The link of an operand or result, or null.
  const AxisLink *find(bool isResult, unsigned index) const;
};

/// The axes of `op` with more than one place that can be padded with zeros.
/// Dimensions that an op reduces, normalises or divides along are on none.
llvm::SmallVector<OpAxis> paddableAxes(mlir::Operation *op);

/// What stands in the padded places of a result along an axis. `operands` holds
/// the state of each operand there; an operand without the axis repeats its
/// values and counts as Finite.
LaneState resultLanes(mlir::Operation *op, const OpAxis &axis,
                      llvm::ArrayRef<LaneState> operands);

/// What padded places of a constant operand hold: 1 for a divisor, else 0.
double paddingValue(mlir::Operation *op, unsigned operand);

} // namespace mpc

#endif // MPC_ANALYSIS_PADDINGAXES_H
