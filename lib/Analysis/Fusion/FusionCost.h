//===- FusionCost.h - cost model of fusion ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Time saved: memory traffic at the target's bandwidth plus launches, minus
// repeated reads.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_FUSION_FUSIONCOST_H
#define MPC_LIB_ANALYSIS_FUSION_FUSIONCOST_H

#include "mpc/Analysis/Fusion/GreedyFusion.h"

namespace mpc {
class MatmulOp;

class FusionCost {
public:
  FusionCost(const TargetInfo &target, const FusionGraph &graph);

  /// Savings if both groups become one kernel.
  FusionSaving ofMerge(FusionGroup *into, FusionGroup *from) const;

  /// The same if `from` computes operand `index` of the anchor of `into`: its
  /// inputs are loaded once per tile of the result.
  FusionSaving ofOperand(FusionGroup *into, FusionGroup *from,
                         unsigned index) const;

  /// The same if `from` computes whole rows for the GEMM of `into`: each block
  /// recomputes the rows that it multiplies.
  FusionSaving ofRows(FusionGroup *into, FusionGroup *from) const;

  /// Number of whole left-side rows that a block of `product` can buffer, at
  /// most those of a large tile; 0: fewer than the smallest tile.
  int64_t rowsOfBlock(MatmulOp product) const;

  /// Savings of fusion if the kernel of `into` then stores scattered elements.
  FusionSaving ofScatter(FusionGroup *into, FusionGroup *from) const;

  /// Number of times that a contraction reads operand `index`.
  static double operandPasses(mlir::Operation *contraction, unsigned index);

  /// Borders computed, as a measure of work.
  int64_t getBorders() const { return made; }

private:
  /// Values at the border of a group, at a version of it.
  struct Border {
    int64_t version = 0, viewVersion = 0;
    /// Values of the group that are read outside it.
    llvm::SmallVector<mlir::Value, 1> results;
    /// Values outside the group that its ops read, each with the stored value
    /// it is a view of.
    llvm::SmallVector<std::pair<mlir::Value, mlir::Value>, 2> inputs;
    /// The stored values among these.
    llvm::SmallDenseSet<mlir::Value> sources;
    /// Everything that the group reads, directly or through views.
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
  /// Cache by group: each reader of the group needs its border.
  mutable std::vector<std::unique_ptr<Border>> borders;
  mutable int64_t made = 0;
};

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_FUSION_FUSIONCOST_H
