//===- Why.h - explains the type of a value ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Explains the storage type of one value from the precision plan, and finds the
// label that decides it. The label is verified: the function is planned again
// with that label changed, and only a change that affects the value's type is
// reported.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_WHY_H
#define MPC_ANALYSIS_WHY_H

#include "mpc/Analysis/PrecisionPlan.h"

#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// Returns the element type in which `value` is stored under `plan`: its
/// storage type, or, if that is f32, the one narrow type in which all readers
/// take it.
mlir::Type storedType(const PrecisionPlan &plan, mlir::Value value);

/// One sentence of an explanation and the op that it is about.
struct WhyStep {
  std::string text;
  /// Null if the sentence is about an argument or the whole function.
  mlir::Operation *op = nullptr;
};

/// A change of labels that was verified to change the value's type.
struct WhyFlip {
  /// The op whose label decides.
  mlir::Operation *op = nullptr;
  /// Overrides to add, `name:fc/MatMul=float32`: one, or two if one is not
  /// enough; none if removing an override is.
  std::vector<std::string> add;
  /// The override on the command line to remove; empty if none.
  std::string drop;
  /// The value's type after the change.
  mlir::Type becomes;
};

/// Why one value has its type.
struct WhyAccount {
  /// The op that defines the value, null for an argument.
  mlir::Operation *op = nullptr;
  /// Type in which it is stored.
  mlir::Type type;
  /// In order, from the op's own label to the ops that pull the value.
  std::vector<WhyStep> steps;
  std::optional<WhyFlip> flip;
  /// What fixes the type, if no change was found.
  std::string keeps;
  /// Costs that the minimum cut weighed; 0 if it had no choice.
  int64_t bytesSaved = 0, castBytes = 0;
};

/// Explains the values of one function. Holds references to `func`, `policy`
/// and `target`; does not change the IR.
class WhyAnalysis {
public:
  /// `policy` without `sets`, the overrides of the command line.
  WhyAnalysis(mlir::func::FuncOp func, const Policy &policy,
              std::vector<std::string> sets, const CastFusionTarget &target,
              CastPlacement placement)
      : func(func), policy(policy), sets(std::move(sets)), target(target),
        placement(placement) {}

  /// Returns the value called `name`: an op's first result, an input or an
  /// output; null if there is none. Among several ops of one name, the last:
  /// the result of a node that was imported as several ops.
  mlir::Value find(llvm::StringRef name) const;

  /// Returns the known names that are most similar to `name`.
  std::vector<std::string> nearestNames(llvm::StringRef name) const;

  /// Explains `value`; reports a function that cannot be planned.
  mlir::FailureOr<WhyAccount> explain(mlir::Value value) const;

private:
  friend class WhyBuilder;

  mlir::FailureOr<PrecisionPlan>
  planWith(llvm::ArrayRef<std::string> overrides) const;

  mlir::func::FuncOp func;
  const Policy &policy;
  std::vector<std::string> sets;
  CastFusionTarget target;
  CastPlacement placement;
};

} // namespace mpc

#endif // MPC_ANALYSIS_WHY_H
