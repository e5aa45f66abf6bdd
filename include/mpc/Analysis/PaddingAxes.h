//===- PaddingAxes.h - dimensions of an op that can be padded ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Describes an op by its axes: dimensions of operands and results that can be
// padded together without changing any original element, and the values of the
// padding elements afterwards.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_PADDINGAXES_H
#define MPC_ANALYSIS_PADDINGAXES_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include <array>
#include <cmath>
#include <optional>

namespace mpc {

/// Padding of one dimension: each of `groups` runs of `from` elements is
/// extended at its end to `to` elements.
struct DimPadding {
  int64_t groups = 1, from = 1, to = 1;

  bool isPadded() const { return from != to; }
  int64_t oldExtent() const { return groups * from; }
  int64_t newExtent() const { return groups * to; }
  /// Returns true if both give the dimension the same layout.
  bool operator==(const DimPadding &other) const {
    if (!isPadded() || !other.isPadded())
      return isPadded() == other.isPadded() && oldExtent() == other.oldExtent();
    return groups == other.groups && from == other.from && to == other.to;
  }
};

/// Values of padding elements, provided that the model's own values are finite:
/// a known value, finite values, or anything including infinities and NaN.
class PaddingState {
public:
  static PaddingState known(double value) { return {Kind::Known, value}; }
  static PaddingState zero() { return known(0); }
  static PaddingState finite() { return {Kind::Finite, 0}; }
  static PaddingState any() { return {Kind::Any, 0}; }

  /// Value of all padding elements, if known.
  std::optional<double> getValue() const {
    return kind == Kind::Known ? std::optional<double>(value) : std::nullopt;
  }
  /// Returns true if all padding elements are `value`.
  bool holds(double value) const { return getValue() == value; }
  bool isZero() const { return holds(0); }
  bool isFinite() const {
    return kind == Kind::Known ? std::isfinite(value) : kind == Kind::Finite;
  }
  /// Returns true if the padding elements may be added to scores, which a mask
  /// of minus infinity hides.
  bool isBelowInfinity() const {
    return kind == Kind::Known ? value < HUGE_VAL : kind == Kind::Finite;
  }

  bool operator==(const PaddingState &) const = default;

private:
  enum class Kind { Known, Finite, Any };
  PaddingState(Kind kind, double value) : kind(kind), value(value) {}

  Kind kind;
  double value;
};

/// Role of an axis in a contraction; Map for every other op. No matrix unit
/// requires multiples of a batch extent.
enum class AxisRole { Map, Batch, Rows, Columns, Depth, Keys };

/// Requirement of a contraction on the padding elements of an axis.
enum class AxisNeed {
  Nothing,
  /// Finite values.
  Finite,
  /// Finite values, and zero in one of the operands: the axis is contracted.
  Product,
};

/// One dimension of an operand or a result on an axis.
struct AxisLink {
  bool isResult = false;
  /// Index of the operand or result.
  unsigned index = 0;
  unsigned dim = 0;
  /// Number of consecutive copies of the axis in the dimension.
  int64_t scale = 1;
  /// Whether the padding elements of this operand must be zero.
  bool needsZero = false;
};

/// Dimensions of one op that must be padded alike.
struct OpAxis {
  AxisRole role = AxisRole::Map;
  int64_t extent = 1;
  llvm::SmallVector<AxisLink, 4> links;
  AxisNeed need = AxisNeed::Nothing;
  /// Share of the op's arithmetic that grows with the axis.
  double share = 1;
  /// Whether the axis grows exactly as the op's other tied axes, or not at all:
  /// the diagonal of causal attention compares positions.
  bool isTied = false;

  /// Returns the link of an operand or result, or null.
  const AxisLink *find(bool isResult, unsigned index) const;
};

/// Collects axes; skips those of extent 1.
class AxisList {
public:
  OpAxis *add(AxisRole role, int64_t extent, llvm::ArrayRef<AxisLink> links);
  llvm::SmallVector<OpAxis> axes;
};

/// Link to dimension `dim` of an operand or a result.
AxisLink operandLink(unsigned index, unsigned dim, int64_t scale = 1);
AxisLink resultLink(unsigned dim, int64_t scale = 1, unsigned index = 0);

/// Returns the state of the operands on an axis: Known if all have one value
/// and the op only moves it, zero for sums of zeros, else finite if all are.
PaddingState movedLanes(mlir::Operation *op, const OpAxis &axis,
                        llvm::ArrayRef<PaddingState> operands);

} // namespace mpc

#include "mpc/Analysis/PaddingInterface.h.inc"

namespace mpc {

/// Attaches PaddingOpInterface to the ops of mpc.
void registerPaddingModels(mlir::DialectRegistry &registry);

/// Returns the axes of `op` of extent greater than 1 that can be padded with
/// zeros, and, without links, those of a contraction that a matrix unit wants
/// padded but that cannot grow. Excludes dimensions that an op reduces,
/// normalizes or divides along.
llvm::SmallVector<OpAxis> paddableAxes(mlir::Operation *op);

/// Returns the state of a result's padding elements along an axis. `operands`
/// holds the state of each operand; ignored for an operand without the axis,
/// which repeats its own values.
PaddingState resultLanes(mlir::Operation *op, const OpAxis &axis,
                         llvm::ArrayRef<PaddingState> operands,
                         unsigned result = 0);

/// Returns true if an elementwise op is finite on padding elements, given the
/// indices in `padded` of the operands that are padded.
bool isFiniteWhenPadded(mlir::Operation *op, llvm::ArrayRef<unsigned> padded);

/// Initial value of an operand's padding elements: 1 in a divisor, else 0.
double paddingValue(mlir::Operation *op, unsigned operand);

} // namespace mpc

#endif // MPC_ANALYSIS_PADDINGAXES_H
