//===- WhyBuilder.h - makes the account of one value ------------*- C++ -*-===//
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
/// The type that an op which moves elements has.
mlir::FloatType movedType(const PrecisionPlan &plan, mlir::Operation *op);
/// The type in which `use` takes a value that the policy may narrow.
mlir::FloatType typeOfRead(const PrecisionPlan &plan, mlir::OpOperand &use);

/// Tells what the plan says of a value and of what surrounds it, then looks for
/// the label that decides: the ops that the plan names first, then by distance,
/// each flipped in a plan of its own.
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
  /// Where the label of `op` comes from.
  std::string ruleOf(mlir::Operation *op) const;
  /// How `op` computes, and which rule says so.
  void sayLabel(mlir::Operation *op);
  /// What the plan says of the value's storage.
  void sayStorage();
  /// Who reads the value, in which type, by which rule.
  void sayReaders();
  /// The op that pulls the value from afar, which no other sentence names.
  void sayPull();

  /// Whether a rule, not the cut, fixes the types of `op`.
  bool isHard(mlir::Operation *op) const;
  /// Ops whose labels may decide, the likeliest first.
  llvm::SmallVector<mlir::Operation *> candidates() const;
  /// The override of `op` that may give the value its other type; empty where
  /// `op` has no name.
  std::string opposite(mlir::Operation *op) const;
  /// The command line's override that names `op`, which another one of the same
  /// name would contradict; empty where there is none.
  std::string namedOverride(mlir::Operation *op) const;
  std::optional<WhyFlip> flip(mlir::Operation *op) const;
  std::optional<WhyFlip> flipBoth(mlir::Operation *op,
                                  mlir::Operation *other) const;
  /// The flip that these changes make, where they change the value's type.
  std::optional<WhyFlip> tryPlan(mlir::Operation *op,
                                 std::vector<std::string> add,
                                 llvm::StringRef drop) const;
  std::optional<WhyFlip> findFlip() const;
  /// Why no change of labels moves the value.
  std::string whatKeeps() const;

  const WhyAnalysis &why;
  const PrecisionPlan &plan;
  mlir::Value value;
  WhyAccount account;
};

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_WHYBUILDER_H
