//===- GreedyFusion.h - greedy operator fusion ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Greedy fusion of mpc-select-fusion-groups: applies the allowed fusion that
// saves the most time first. Cast placement and padding also run it, before
// kernels exist.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_FUSION_GREEDYFUSION_H
#define MPC_ANALYSIS_FUSION_GREEDYFUSION_H

#include "mpc/Analysis/Fusion/FusionGraph.h"
#include "mpc/Target/TargetInfo.h"

namespace mpc {

/// Kinds of fusion, in the order that breaks ties.
enum class FusionStep {
  /// Index maps and casts applied while a contraction loads an operand.
  Operand,
  /// Elementwise consumers of the kernel's results.
  Epilogue,
  /// Producers of other operands of the epilogue.
  EpilogueOperand,
  /// Data movement after the results, folded into the store.
  Store,
  /// Producers of a norm, softmax or reduction.
  Prologue,
  /// Two elementwise loops.
  Loop,
  /// A lone conversion and the loop that produces its input.
  Cast,
  /// A loop that computes an operand of a contraction.
  OperandLoop,
  /// A norm whose rows are the first operand of a GEMM.
  OperandNorm,
};

llvm::StringRef nameOf(FusionStep step);

/// Effect of one fusion.
struct FusionSaving {
  /// Bytes no longer written or read.
  int64_t bytes = 0;
  /// Additional time of a contraction that loads another operand, in seconds.
  double extraSeconds = 0;
  /// Kernel launches saved.
  int64_t launches = 0;
  /// Time saved, in seconds; negative if the fusion costs more than it saves.
  double seconds = 0;
};

/// Outcome of one fusion candidate.
struct FusionDecision {
  enum class Verdict { Taken, CostsMore, Cycle };

  FusionStep step;
  Verdict verdict;
  /// Anchor of the kernel, and the op that is fused into it.
  mlir::Operation *into, *from;
  FusionSaving saving;
};

/// Counters of the work done.
struct FusionWork {
  /// Candidates pushed onto the queue.
  int64_t steps = 0;
  /// Group borders traversed to compute a price.
  int64_t borders = 0;
  /// Operands of loops compared with their producers.
  int64_t operands = 0;
};

/// Decides which ops of `block` share a group. Returns all decisions in order.
std::vector<FusionDecision> selectFusionGroups(FusionGraph &graph,
                                               mlir::Block &block,
                                               const TargetInfo &target,
                                               FusionWork *work = nullptr);

/// Unit attribute of a function whose ops become one kernel each, to test that
/// fusion does not change bits.
inline constexpr llvm::StringLiteral kUnfusedAttr = "mpc.unfused";

/// Forms only the groups that selectFusionGroups() starts with: ops without a
/// kernel of their own share that of their reader.
void selectSingleOps(FusionGraph &graph, mlir::Block &block,
                     const TargetInfo &target);

} // namespace mpc

#endif // MPC_ANALYSIS_FUSION_GREEDYFUSION_H
