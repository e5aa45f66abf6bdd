//===- Padding.h - padding for matrix units ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides, without changing the IR, which dimensions of a function are padded
// to the multiples that the target's matrix units need. Dimensions that must
// grow together (a model's width, a sequence's length) form a family, which is
// padded in all of its values or in none. mpc-pad-contractions applies the
// plan.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_PADDING_H
#define MPC_ANALYSIS_PADDING_H

#include "mpc/Analysis/PaddingAxes.h"
#include "mpc/Target/TargetInfo.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <array>
#include <map>
#include <vector>

namespace mpc {

/// Returns the matrix-unit type of a contraction, by operand type and compute
/// mode; nullopt for other ops and for types without a unit.
std::optional<MathType> mathTypeOf(mlir::Operation *op);
/// The same by element type only, without a compute mode.
std::optional<MathType> mathTypeOf(mlir::Type element);

/// Maximum growth of an operand if nothing else is known about a target (XLA's
/// bound for convolutions).
inline constexpr double kLargestGrowth = 1.35;

/// The plan of one function of one block.
class PaddingPlan {
public:
  PaddingPlan(mlir::func::FuncOp func, const TargetInfo &target);

  /// Returns true if nothing is padded.
  bool isEmpty() const { return chosen.empty(); }

  /// Returns the padding of one axis of an op. Extents are those of the axis: a
  /// link with a scale contains as many copies.
  DimPadding paddingOf(mlir::Operation *op, const OpAxis &axis) const;

  /// Number of families that a contraction wants padded and that stay unpadded.
  int64_t getRefused() const { return refused; }

  /// Number of price computations, as a measure of work.
  int64_t getPriced() const { return priced; }

private:
  /// A dimension of `factor` consecutive units of its family.
  struct Place {
    int family;
    int64_t factor;
  };
  struct Node {
    mutable int parent;
    mutable int64_t factor;
    int64_t extent;
  };
  /// Properties of one contraction for the bound.
  struct Contraction {
    mlir::Operation *op;
    MathType type;
    llvm::SmallVector<OpAxis> axes;
    /// For each wanted multiple the axes that determine it; the product of
    /// their extents must be a multiple.
    llvm::SmallVector<std::pair<int64_t, llvm::SmallVector<unsigned>>> wants;
    /// The axis that grows for each want, if any can.
    llvm::SmallVector<unsigned> growing;
    /// Families of the axes, once all families are merged.
    llvm::SmallVector<std::optional<Place>> places;
  };
  /// A stored value, with its dimensions that have a family.
  struct Stored {
    int64_t bytes;
    llvm::SmallVector<std::pair<Place, int64_t>> dims;
  };
  /// Padded extent of each padded family.
  using Families = std::map<int, int64_t>;
  /// Special values of `without`: no family is excluded, all families are.
  static constexpr int kNothing = -1, kEverything = -2;
  /// Drops families whose padding does not pay (PaddingPruning.cpp).
  class Choice;

  int nodeOf(mlir::Value value, unsigned dim);
  std::optional<Place> placeOf(mlir::Value value, unsigned dim) const;
  std::optional<Place> placeOf(mlir::Operation *op, const OpAxis &axis) const;
  Place find(int node) const;
  void join(const AxisLink &a, int nodeA, const AxisLink &b, int nodeB);

  /// Merges the axes of one op that must grow alike.
  void tie(const Contraction &contraction);

  void addContraction(mlir::Operation *op);
  /// Returns the padded extent of a family if those in `without` stay unpadded.
  std::optional<int64_t> extentOf(int family, int without) const;
  DimPadding pad(std::optional<Place> place, int64_t extent,
                 int without = kNothing) const;
  bool isAligned(const Contraction &contraction, int without) const;
  double flops(const Contraction &contraction, int without) const;
  double bytes(const Contraction &contraction, int without) const;
  double growth(const Contraction &contraction, const AxisLink &operand,
                int without) const;
  bool wins(const Contraction &contraction) const;
  /// Seconds of a contraction, of moving the padding elements of a stored
  /// value, and of padding a parameter in every run.
  double seconds(const Contraction &contraction, int without) const;
  double seconds(const Stored &value, int without) const;
  double seconds(llvm::ArrayRef<int> parameter, int without) const;
  /// Starts with all families that a contraction wants padded.
  void choose();

  TargetInfo target;
  std::vector<Node> nodes;
  llvm::DenseMap<std::pair<mlir::Value, unsigned>, int> places;
  std::vector<Contraction> contractions;
  std::vector<Stored> stored;
  /// Families of the dimensions of each parameter argument, or copy of one.
  std::vector<llvm::SmallVector<int>> parameters;
  Families chosen;
  int64_t refused = 0, priced = 0;
};

} // namespace mpc

#endif // MPC_ANALYSIS_PADDING_H
