//===- Padding.h - which dimensions are padded ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides, without changing the IR, which dimensions of a function grow to the
// multiples that the target's matrix units want. Dimensions that go together
// (a model's width, a sequence's length) form a family, which is padded in all
// of its values or in none. mpc-pad-contractions carries it out.
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

/// The unit type that a contraction multiplies in, by operand type and compute
/// mode; nullopt for other ops and for types without a unit.
std::optional<MathType> mathTypeOf(mlir::Operation *op);
/// The same by element type alone, without a compute mode.
std::optional<MathType> mathTypeOf(mlir::Type element);

/// Growth of an operand beyond which padding is refused where nothing else is
/// known of a target (XLA's bound for convolutions).
inline constexpr double kLargestGrowth = 1.35;

/// The plan of one function of one block.
class PaddingPlan {
public:
  PaddingPlan(mlir::func::FuncOp func, const TargetInfo &target);

  /// Whether nothing is padded.
  bool isEmpty() const { return chosen.empty(); }

  /// How an op pads one of its axes. The extents are the axis's own: a link
  /// with a scale holds so many of them.
  DimPadding paddingOf(mlir::Operation *op, const OpAxis &axis) const;

  /// Families that a contraction wants padded and that stay as they are.
  int64_t getRefused() const { return refused; }

  /// How often something was priced to choose families: the work done.
  int64_t getPriced() const { return priced; }

private:
  /// A dimension is `factor` units of its family one after the other.
  struct Place {
    int family;
    int64_t factor;
  };
  struct Node {
    mutable int parent;
    mutable int64_t factor;
    int64_t extent;
  };
  /// What the bound needs to know of one contraction.
  struct Contraction {
    mlir::Operation *op;
    MathType type;
    llvm::SmallVector<OpAxis> axes;
    /// For each wanted multiple the axes that decide it; the product of their
    /// extents must be a multiple.
    llvm::SmallVector<std::pair<int64_t, llvm::SmallVector<unsigned>>> wants;
    /// The axis of each want that grows, if one can.
    llvm::SmallVector<unsigned> growing;
    /// Of each axis, once all families are joined.
    llvm::SmallVector<std::optional<Place>> places;
  };
  /// A value that lies in memory, with its dimensions that have a family.
  struct Stored {
    int64_t bytes;
    llvm::SmallVector<std::pair<Place, int64_t>> dims;
  };
  /// The new extent of each padded family.
  using Families = std::map<int, int64_t>;
  /// Instead of a family in `without`: nothing is left out, everything is.
  static constexpr int kNothing = -1, kEverything = -2;
  /// Gives up families that do not pay (PaddingChoice.cpp).
  class Choice;

  int nodeOf(mlir::Value value, unsigned dim);
  std::optional<Place> placeOf(mlir::Value value, unsigned dim) const;
  std::optional<Place> placeOf(mlir::Operation *op, const OpAxis &axis) const;
  Place find(int node) const;
  void join(const AxisLink &a, int nodeA, const AxisLink &b, int nodeB);

  /// Joins the axes of one op that must grow alike.
  void tie(const Contraction &contraction);

  void addContraction(mlir::Operation *op);
  /// The new extent of a family that is padded, where those in `without` are
  /// not.
  std::optional<int64_t> extentOf(int family, int without) const;
  DimPadding pad(std::optional<Place> place, int64_t extent,
                 int without = kNothing) const;
  bool isAligned(const Contraction &contraction, int without) const;
  double flops(const Contraction &contraction, int without) const;
  double bytes(const Contraction &contraction, int without) const;
  double growth(const Contraction &contraction, const AxisLink &operand,
                int without) const;
  bool wins(const Contraction &contraction) const;
  /// Seconds of a contraction, of moving what padding adds to a value that lies
  /// in memory, and of padding a parameter anew in every run.
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
  /// The families of the dimensions, one or more, of each argument that is a
  /// parameter or a copy of one.
  std::vector<llvm::SmallVector<int>> parameters;
  Families chosen;
  int64_t refused = 0, priced = 0;
};

} // namespace mpc

#endif // MPC_ANALYSIS_PADDING_H
