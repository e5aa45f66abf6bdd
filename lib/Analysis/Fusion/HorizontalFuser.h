//===- HorizontalFuser.h - horizontal fusion of kernels ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Horizontal fusion rules, one .cpp file per kind of target kernel.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_FUSION_HORIZONTALFUSER_H
#define MPC_LIB_ANALYSIS_FUSION_HORIZONTALFUSER_H

#include "FusionRules.h"

namespace mpc {
class CastOp;
class MatmulOp;
class ReduceSumOp;

/// Returns the axes of a sum or mean; empty for other ops.
llvm::ArrayRef<int64_t> summedAxes(mlir::Operation *op);

class HorizontalFuser {
public:
  HorizontalFuser(FusionGraph &graph, mlir::Block &block,
                  const TargetInfo &target)
      : graph(graph), target(target), rules(graph, block, target),
        ops(rules.operations()) {}

  /// Fuses a widening cast into the kernel that reads it, so that the producer
  /// of its input stores 16 bits.
  void widenAtReaders();

  void fuseRowReductions();
  /// Row reductions, functions of the rows that use them, and reductions of
  /// those: norm gradients, expert routing. Rows are read once and buffered.
  void fuseRowScalars();
  /// The same for maxima only, by which a KV cache scales its rows.
  void fuseRowMaxima();
  void fuseColumnSums();
  void fuseFilterBiasGradients();
  void fuseSlices();
  void fuseMatmulBiasGradients();
  void fuseImageMeans();
  void fuseConcats();
  void fuseEqualSums();
  void fuseSums();
  void fuseLoops();

private:
  using JoinsOp = bool(mlir::Operation *);
  using JoinsShape = bool(llvm::ArrayRef<int64_t>);
  /// Merges row reductions along the last dimension by ops that satisfy
  /// `joins`, with functions of the rows that use them, if the row shape
  /// satisfies `joinsShape`.
  void joinRowsOf(JoinsOp *joins, JoinsShape *joinsShape);
  bool isFull(FusionGroup *group, FusionGroup *joining) const {
    return rules.isFull(group, joining);
  }
  void takeWidening(FusionGroup *group, CastOp wide);
  void takeNarrowing(FusionGroup *group, mlir::Value value);
  bool takesSum(MatmulOp product, ReduceSumOp sum) const;
  void loadThroughMovement(FusionGroup *group);
  llvm::SmallVector<FusionGroup *> rowsOfSum(mlir::Operation *sum) const;

  double secondsAnew(FusionGroup *maker, FusionGroup *reader) const;
  std::optional<llvm::SmallVector<FusionGroup *>>
  viewsBetween(FusionGroup *maker, FusionGroup *reader) const;
  bool readsLoop(FusionGroup *reader, FusionGroup *maker) const;
  llvm::SmallVector<FusionGroup *> loopsBeside(FusionGroup *group) const;

  FusionGraph &graph;
  const TargetInfo &target;
  FusionRules rules;
  llvm::ArrayRef<mlir::Operation *> ops;
};

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_FUSION_HORIZONTALFUSER_H
