//===- Why.h - why a value has its type -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The chain of reasons for the type in which one value is stored, read off the
// precision plan, and the label that decides. The label is not guessed: the
// function is planned again with that label changed, and only a change that
// changes the value's type is named.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_WHY_H
#define MPC_ANALYSIS_WHY_H

#include "mpc/Analysis/PrecisionPlan.h"

#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// The element type that memory holds of `value` under `plan`: its storage
/// type, or where that is f32 the one narrow type in which all readers take it.
mlir::Type storedType(const PrecisionPlan &plan, mlir::Value value);

/// One sentence of an account and the op that it is about.
struct WhyStep {
  std::string text;
  /// Null where the sentence is about an argument or the whole function.
  mlir::Operation *op = nullptr;
};

/// A change of labels that was seen to change the value's type.
struct WhyFlip {
  /// The op whose label decides.
  mlir::Operation *op = nullptr;
  /// Overrides to add, `name:fc/MatMul=float32`: one, or two where no single
  /// one is enough; none where dropping one is.
  std::vector<std::string> add;
  /// The override on the command line that has to go; empty where none.
  std::string drop;
  /// The value's type then.
  mlir::Type becomes;
};

/// Why one value has its type.
struct WhyAccount {
  /// The op that makes the value, null for an argument.
  mlir::Operation *op = nullptr;
  /// What memory holds of it.
  mlir::Type type;
  /// From the op's own label to what pulls the value, in order.
  std::vector<WhyStep> steps;
  std::optional<WhyFlip> flip;
  /// Where no change was found: what keeps the type.
  std::string keeps;
  /// What the cut weighed; 0 where it had no choice.
  int64_t bytesSaved = 0, castBytes = 0;
};

/// Answers for the values of one function. Holds references to `func`,
/// `policy` and `target`, and leaves the IR as it is.
class WhyAnalysis {
public:
  /// `policy` without `sets`, the overrides of the command line.
  WhyAnalysis(mlir::func::FuncOp func, const Policy &policy,
              std::vector<std::string> sets, const FusionTarget &target,
              CastPlacement placement)
      : func(func), policy(policy), sets(std::move(sets)), target(target),
        placement(placement) {}

  /// The value that `name` stands for: an op's first result, an input or an
  /// output; null where there is none. Of several ops of one name it is the
  /// last: what came of a node that was imported as several ops.
  mlir::Value find(llvm::StringRef name) const;

  /// The known name that is nearest to `name`; empty where none resembles it.
  std::string nearestName(llvm::StringRef name) const;

  /// The account of `value`; a failure, with diagnostics, where the function
  /// cannot be planned.
  mlir::FailureOr<WhyAccount> explain(mlir::Value value) const;

private:
  friend class WhyBuilder;

  mlir::FailureOr<PrecisionPlan>
  planWith(llvm::ArrayRef<std::string> overrides) const;

  mlir::func::FuncOp func;
  const Policy &policy;
  std::vector<std::string> sets;
  FusionTarget target;
  CastPlacement placement;
};

} // namespace mpc

#endif // MPC_ANALYSIS_WHY_H
