//===- GroupOps.h - which ops share a kernel --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The grouping of mpc-group-ops: takes the steps that the rules allow, the one
// that saves most time first. What places casts or pads asks it as well, before
// there are kernels.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_FUSION_GROUPOPS_H
#define MPC_ANALYSIS_FUSION_GROUPOPS_H

#include "mpc/Analysis/Fusion/FusionGraph.h"
#include "mpc/Target/TargetInfo.h"

namespace mpc {

/// How ops come into a kernel, in the order in which equals go.
enum class FusionStep {
  /// Index maps and casts through which a contraction loads an operand.
  Operand,
  /// Elementwise ops that read the kernel's results.
  Epilogue,
  /// What computes other operands of the epilogue.
  EpilogueOperand,
  /// Movement behind the results: the kernel stores elsewhere.
  Store,
  /// What stands before a norm, softmax or reduction.
  Prologue,
  /// Two loops.
  Loop,
  /// A lone conversion and the loop that makes its input.
  Cast,
  /// A loop that computes an operand of a contraction.
  OperandLoop,
  /// A norm whose rows are the first operand of a product.
  OperandNorm,
};

llvm::StringRef nameOf(FusionStep step);

/// What one fusion changes.
struct FusionSaving {
  /// Bytes that are neither written nor read any more.
  int64_t bytes = 0;
  /// Time by which a contraction that loads another operand takes longer.
  double extraSeconds = 0;
  /// Kernels that are no longer launched.
  int64_t launches = 0;
  /// Time saved; negative where the fusion costs more than it saves.
  double seconds = 0;
};

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
  /// Operands of loops that were weighed against what makes them.
  int64_t operands = 0;
};

/// Decides which ops of `block` share a group. Returns every decision in order.
std::vector<FusionDecision> groupOps(FusionGraph &graph, mlir::Block &block,
                                     const TargetInfo &target,
                                     FusionWork *work = nullptr);

} // namespace mpc

#endif // MPC_ANALYSIS_FUSION_GROUPOPS_H
