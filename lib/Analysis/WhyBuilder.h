//===- WhyBuilder.h - builds the explanation of a value's type --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_WHYBUILDER_H
#define MPC_LIB_ANALYSIS_WHYBUILDER_H

#include "mpc/Analysis/Why.h"

namespace mpc {

/// The role of `op`; Untouched where the plan has none.
OpPlan::Role roleOf(const PrecisionPlan &plan, mlir::Operation *op);
/// The type of an op that moves elements.
mlir::FloatType movedType(const PrecisionPlan &plan, mlir::Operation *op);
/// The type in which `use` reads a value that the policy may narrow.
mlir::FloatType typeOfRead(const PrecisionPlan &plan, mlir::OpOperand &use);

/// Describes the plan of a value and its surroundings, then looks for the label
/// that decides: first the ops that the plan names, then by distance, each
/// changed in a separate plan.
class WhyBuilder {
public:
  WhyBuilder(const WhyAnalysis &why, const PrecisionPlan &plan,
             mlir::Value value);

  WhyAccount build();

private:
  void say(const llvm::Twine &text, mlir::Operation *op) {
    account.steps.push_back({text.str(), op});
  }
  /// "'fc/MatMul' (matmul)".
  std::string named(mlir::Operation *op) const;
  /// The origin of the label of `op`.
  std::string ruleOf(mlir::Operation *op) const;
  /// Adds how `op` computes, and by which rule.
  void describeLabel(mlir::Operation *op);
  /// Adds the plan's reason for the value's storage.
  void describeStorage();
  /// Adds the readers of the value, with type and rule.
  void describeReaders();
  /// Adds the distant op that pulls the value, if not named yet.
  void describePull();

  /// Returns true if a rule, not the cut, fixes the types of `op`.
  bool isHard(mlir::Operation *op) const;
  /// Ops whose labels may decide, most likely first.
  llvm::SmallVector<mlir::Operation *> candidates() const;
  /// Returns the override of `op` that may give the value its other type; empty
  /// if `op` has no name.
  std::string opposite(mlir::Operation *op) const;
  /// Returns the command-line override that names `op`, which another one of
  /// the same name would contradict; empty if there is none.
  std::string namedOverride(mlir::Operation *op) const;
  std::optional<WhyFlip> flip(mlir::Operation *op) const;
  std::optional<WhyFlip> flipBoth(mlir::Operation *op,
                                  mlir::Operation *other) const;
  /// Returns the flip of these changes if they change the value's type.
  std::optional<WhyFlip> tryPlan(mlir::Operation *op,
                                 std::vector<std::string> add,
                                 llvm::StringRef drop) const;
  std::optional<WhyFlip> findFlip() const;
  /// Why no change of labels affects the value.
  std::string whyFixed() const;

  const WhyAnalysis &why;
  const PrecisionPlan &plan;
  mlir::Value value;
  WhyAccount account;
};

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_WHYBUILDER_H
