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

/// Counts of what the queue did.
struct FusionWork {
  /// Steps that were put into the queue.
  int64_t steps = 0;
  /// Groups whose border was walked for a price.
  int64_t borders = 0;
};

/// Decides which ops of `block` share a group. Returns every decision in order.
std::vector<FusionDecision> groupOps(FusionGraph &graph, mlir::Block &block,
                                     const TargetInfo &target,
                                     FusionWork *work = nullptr);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_FUSIONQUEUE_H
