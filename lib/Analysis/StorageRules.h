//===- StorageRules.h - storage types fixed by rules ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The hard labels of cast placement, independent of the placement algorithm.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_STORAGERULES_H
#define MPC_LIB_ANALYSIS_STORAGERULES_H

#include "CastPlacementModel.h"
#include "PlanBuilder.h"

#include <string>

namespace mpc {

/// A rule that fixes the storage type of a value.
struct StorageRule {
  StorageLabel label = StorageLabel::High;
  /// One sentence.
  std::string text;
  /// The op that the rule refers to; null for the function.
  mlir::Operation *op = nullptr;
  /// Text repeated in #mpc.decision; empty if obvious.
  const char *decision = "";
};

/// "matmul 'fc/MatMul'".
std::string describeOp(mlir::Operation *op);

/// The rules of one function with planned ops.
class StorageRules {
public:
  StorageRules(const PlanBuilder &builder, const CastPlacementModel &model);

  /// The rule for `value`, or null for a free one.
  const StorageRule *find(mlir::Value value) const {
    auto it = rules.find(value);
    return it == rules.end() ? nullptr : &it->second;
  }
  bool isHigh(mlir::Value value) const {
    const StorageRule *rule = find(value);
    return rule && rule->label == StorageLabel::High;
  }

private:
  void findUnrounded(const PlanBuilder &builder);
  std::optional<StorageRule> ruleOf(const PlanBuilder &builder,
                                    const CastPlacementModel &model,
                                    mlir::Value value) const;

  llvm::DenseMap<mlir::Value, StorageRule> rules;
  /// Values that a reader needs unrounded, with the reader; and values on whose
  /// order a result depends.
  llvm::DenseMap<mlir::Value, mlir::Operation *> unrounded, ordered;
};

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_STORAGERULES_H
