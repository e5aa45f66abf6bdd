//===- StorageRules.h - values whose storage a rule fixes -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The hard labels of placement, the same for every way to place.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_STORAGERULES_H
#define MPC_LIB_ANALYSIS_STORAGERULES_H

#include "PlacementModel.h"
#include "PlanBuilder.h"

#include <string>

namespace mpc {

/// A rule that fixes how a value is stored.
struct StorageRule {
  StorageLabel label = StorageLabel::High;
  /// One sentence.
  std::string text;
  /// The op that the rule speaks of; null for the function.
  mlir::Operation *op = nullptr;
  /// What #mpc.decision repeats; empty where it goes without saying.
  const char *decision = "";
};

/// "matmul 'fc/MatMul'".
std::string describeOp(mlir::Operation *op);

/// The rules of one function whose ops have their types.
class StorageRules {
public:
  StorageRules(const PlanBuilder &builder, const PlacementModel &model);

  /// The rule about `value`, or null for a free one.
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
                                    const PlacementModel &model,
                                    mlir::Value value) const;

  llvm::DenseMap<mlir::Value, StorageRule> rules;
  /// Values that some reader needs exactly as they were computed, and the
  /// reader; and those from which something is computed whose order decides.
  llvm::DenseMap<mlir::Value, mlir::Operation *> unrounded, ordered;
};

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_STORAGERULES_H
