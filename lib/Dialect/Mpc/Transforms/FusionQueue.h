//===- FusionQueue.h - which fusion goes first ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Takes the steps that the rules allow, the one that saves most time first.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_FUSIONQUEUE_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_FUSIONQUEUE_H

#include "FuseRules.h"

namespace mpc {

/// What became of one step.
struct FusionDecision {
  enum class Verdict { Taken, CostsMore, Cycle };

  FusionStep step;
  Verdict verdict;
  /// The op that leads the kernel, and the one that joins it.
  mlir::Operation *into, *from;
  FusionSaving saving;
};

/// Decides which ops of `block` share a group. Returns every decision in order.
std::vector<FusionDecision> groupOps(FusionGraph &graph, mlir::Block &block,
                                     const TargetInfo &target);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_FUSIONQUEUE_H
