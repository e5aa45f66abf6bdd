//===- KernelJoiner.h - kernels that run as one -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What may be joined to what; one file for each kind of kernel that takes.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_FUSION_KERNELJOINER_H
#define MPC_LIB_ANALYSIS_FUSION_KERNELJOINER_H

#include "GroupRules.h"

namespace mpc {

/// The axes of a sum or mean; empty for other ops.
llvm::ArrayRef<int64_t> summedAxes(mlir::Operation *op);

class KernelJoiner {
public:
  KernelJoiner(FusionGraph &graph, mlir::Block &block, const TargetInfo &target)
      : graph(graph), target(target), rules(graph, block, target),
        ops(rules.operations()) {}

  /// Gives a widening cast to the kernel that reads it: the one that makes its
  /// input then stores 16 bits.
  void widenAtReaders();

  // JoinRows.cpp, JoinColumns.cpp.
  void joinRows();
  /// Numbers of rows, what is made of the rows with them, and numbers of that:
  /// the gradient of a norm, the routing of experts. Rows are read once and
  /// kept.
  void joinRowNumbers();
  /// The same of maxima alone, by which a cache scales its rows.
  void joinRowMaxima();
  void joinColumns();
  // JoinFilters.cpp, JoinProducts.cpp.
  void joinFilters();
  void joinSlices();
  void joinProducts();
  // JoinPools.cpp, JoinConcats.cpp.
  void joinPools();
  void joinConcats();
  // JoinSums.cpp.
  void joinEqualSums();
  void joinSums();
  // JoinLoops.cpp.
  void joinLoops();

private:
  using JoinsOp = bool(mlir::Operation *);
  using JoinsShape = bool(llvm::ArrayRef<int64_t>);
  /// Joins numbers of rows along the last dimension, by ops of which `joins`
  /// holds, with what is made of the rows with them, where `joinsShape` holds
  /// of the shape of these rows.
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
  GroupRules rules;
  llvm::ArrayRef<mlir::Operation *> ops;
};

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_FUSION_KERNELJOINER_H
