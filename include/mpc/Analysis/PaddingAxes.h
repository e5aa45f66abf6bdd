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

#include <array>
#include <cmath>
#include <optional>

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

/// What stands in padded places, as long as the model's own values are finite:
/// one known value, some finite values, or anything, infinities and NaN
/// included.
class LaneState {
public:
  static LaneState known(double value) { return {Kind::Known, value}; }
  static LaneState zero() { return known(0); }
  static LaneState finite() { return {Kind::Finite, 0}; }
  static LaneState any() { return {Kind::Any, 0}; }

  /// The value of all places, where it is known.
  std::optional<double> getValue() const {
    return kind == Kind::Known ? std::optional<double>(value) : std::nullopt;
  }
  /// Whether all places hold `value`.
  bool holds(double value) const { return getValue() == value; }
  bool isZero() const { return holds(0); }
  bool isFinite() const {
    return kind == Kind::Known ? std::isfinite(value) : kind == Kind::Finite;
  }
  /// Whether the places may be added to scores, which minus infinity hides.
  bool isBelowInfinity() const {
    return kind == Kind::Known ? value < HUGE_VAL : kind == Kind::Finite;
  }

  bool operator==(const LaneState &) const = default;

private:
  enum class Kind { Known, Finite, Any };
  LaneState(Kind kind, double value) : kind(kind), value(value) {}

  Kind kind;
  double value;
};

/// What an axis is to a contraction; Map for every other op. No unit asks for
/// a length of batches.
enum class AxisRole { Map, Batch, Rows, Columns, Depth, Keys };

/// What a contraction needs in the padded places of an axis.
enum class AxisNeed {
  Nothing,
  /// Finite values.
  Finite,
  /// Finite values, and zero in one of the operands: the axis is summed over.
  Product,
};

/// One dimension of an operand or a result on an axis.
struct AxisLink {
  bool isResult = false;
  /// Number of the operand or result.
  unsigned index = 0;
  unsigned dim = 0;
  /// The dimension holds the axis this many times, one after the other.
  int64_t scale = 1;
  /// Whether the padded places of this operand must be zero.
  bool needsZero = false;
};

/// Dimensions of one op that must be padded alike.
struct OpAxis {
  AxisRole role = AxisRole::Map;
  int64_t extent = 1;
  llvm::SmallVector<AxisLink, 4> links;
  AxisNeed need = AxisNeed::Nothing;
  /// The part of the op's arithmetic that grows with the axis.
  double share = 1;
  /// Whether it grows exactly as the op's other axes of which this holds, or
  /// not at all: the diagonal of causal attention compares positions.
  bool isTied = false;

  /// The link of an operand or result, or null.
  const AxisLink *find(bool isResult, unsigned index) const;
};

/// Collects axes; those of one place are left out.
class AxisList {
public:
  OpAxis *add(AxisRole role, int64_t extent, llvm::ArrayRef<AxisLink> links);
  llvm::SmallVector<OpAxis> axes;
};

/// Dimension `dim` of an operand or a result.
AxisLink operandLink(unsigned index, unsigned dim, int64_t scale = 1);
AxisLink resultLink(unsigned dim, int64_t scale = 1, unsigned index = 0);

/// The state of the operands on an axis: Known where all hold one value and the
/// op only moves them, zero for sums of zeros, else finite where all are.
LaneState movedLanes(mlir::Operation *op, const OpAxis &axis,
                     llvm::ArrayRef<LaneState> operands);

} // namespace mpc

#include "mpc/Analysis/PaddingInterface.h.inc"

namespace mpc {

/// Attaches PaddingOpInterface to the ops of mpc.
void registerPaddingModels(mlir::DialectRegistry &registry);

/// The axes of `op` with more than one place that can be padded with zeros, and
/// those of a contraction that a unit would want longer but that cannot grow,
/// without links. Dimensions that an op reduces, normalises or divides along
/// are on none.
llvm::SmallVector<OpAxis> paddableAxes(mlir::Operation *op);

/// What stands in the padded places of a result along an axis. `operands` holds
/// the state of each operand there; the entry of an operand without the axis,
/// which repeats its own values, is not read.
LaneState resultLanes(mlir::Operation *op, const OpAxis &axis,
                      llvm::ArrayRef<LaneState> operands, unsigned result = 0);

/// Whether an elementwise op is finite in places along which the operands
/// numbered in `padded` hold what padding puts there.
bool isFiniteWhenPadded(mlir::Operation *op, llvm::ArrayRef<unsigned> padded);

/// What padded places of an operand hold at first: 1 in a divisor, else 0.
double paddingValue(mlir::Operation *op, unsigned operand);

} // namespace mpc

#endif // MPC_ANALYSIS_PADDINGAXES_H
