//===- FusionCost.h - the time that a fusion saves --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A model: bytes that stay out of memory at the target's bandwidth, launches,
// less what is read more often.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_FUSION_FUSIONCOST_H
#define MPC_LIB_ANALYSIS_FUSION_FUSIONCOST_H

#include "mpc/Analysis/Fusion/GroupOps.h"

namespace mpc {

class FusionCost {
public:
  FusionCost(const TargetInfo &target, const FusionGraph &graph);

  /// What is saved where both groups become one kernel.
  FusionSaving ofMerge(FusionGroup *into, FusionGroup *from) const;

  /// The same where `from` makes what the anchor of `into` multiplies as its
  /// operand `index`, so that the inputs of `from` are loaded once per block of
  /// its result.
  FusionSaving ofOperand(FusionGroup *into, FusionGroup *from,
                         unsigned index) const;

  /// The same where `from` makes whole rows for the product of `into`: each
  /// block of its result makes those that it multiplies.
  FusionSaving ofRows(FusionGroup *into, FusionGroup *from) const;

  /// Whole rows of the left side that a block of `product` has room for, as
  /// many as a large block has at most; 0: not even those of the smallest.
  int64_t rowsOfBlock(MatmulOp product) const;

  /// What joining them saves where the kernel of `into` then stores elements
  /// that lie apart.
  FusionSaving ofScatter(FusionGroup *into, FusionGroup *from) const;

  /// How often a contraction goes over its operand number `index`.
  static double operandPasses(mlir::Operation *contraction, unsigned index);

  /// Borders that were walked: the work done.
  int64_t getBorders() const { return made; }

private:
  /// What lies at the border of a group, at a version of it.
  struct Border {
    int64_t version = 0, viewVersion = 0;
    /// Values of the group that something outside reads.
    llvm::SmallVector<mlir::Value, 1> results;
    /// Values outside the group that its ops read, and behind each what is in
    /// memory.
    llvm::SmallVector<std::pair<mlir::Value, mlir::Value>, 2> inputs;
    /// What is in memory of these.
    llvm::SmallDenseSet<mlir::Value> sources;
    /// All that the group reads, at once or behind views.
    llvm::SmallDenseSet<mlir::Value> reads;
  };
  Border makeBorder(FusionGroup *group) const;
  const Border &borderOf(FusionGroup *group) const;
  int64_t bytesBetween(FusionGroup *maker, FusionGroup *reader) const;

  double contractionSeconds(mlir::Operation *op,
                            llvm::ArrayRef<double> operandBytes) const;

  const FusionGraph &graph;
  TargetInfo target;
  double bytesPerSecond, launchSeconds;
  /// By group: a border is asked for by each reader of the group.
  mutable std::vector<std::unique_ptr<Border>> borders;
  mutable int64_t made = 0;
};

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_FUSION_FUSIONCOST_H
