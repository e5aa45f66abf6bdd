//===- FusionRules.h - fusion rules -----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Defines which fusions a kernel supports; GreedyFusion.h orders them.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_FUSION_FUSIONRULES_H
#define MPC_LIB_ANALYSIS_FUSION_FUSIONRULES_H

#include "FusionCost.h"

namespace mpc {

/// A fusion that the rules allow.
struct FusionCandidate {
  FusionStep step;
  /// The group that grows, and the group merged into it.
  FusionGroup *into = nullptr, *from = nullptr;
  /// Value between the two groups: the fused operand, or the first movement op
  /// after a result.
  mlir::Value operand;
  FusionSaving saving;
};

/// Returns true if `anchor` is a GEMM: no element of its first operand is
/// loaded for several positions of a window.
bool isProduct(mlir::Operation *anchor);

/// Assigns kind and anchor to every single-op group, and forms the groups that
/// are decided before any other grows.
void formInitialGroups(FusionGraph &graph, mlir::Block &block,
                       const TargetInfo &target);

class FusionRules {
public:
  FusionRules(FusionGraph &graph, mlir::Block &block, const TargetInfo &target);

  /// Returns the fusions by which `group` can grow now; only those with group
  /// `only`, if given. Among its readers considers only `onlyReader`, if given:
  /// there may be thousands.
  llvm::SmallVector<FusionCandidate>
  candidatesOf(FusionGroup *group, FusionGroup *only = nullptr,
               FusionGroup *onlyReader = nullptr) const;

  /// Returns true if the group is a loop over many operands. Callers that query
  /// candidates after each change of an operand should pass the changed group.
  bool isWide(FusionGroup *group) const;

  /// Applies a fusion. Returns false if a path between the two groups passes
  /// through a third.
  bool apply(const FusionCandidate &candidate);

  /// Returns the fusions by which the kernel of `group` computes its operands
  /// while loading.
  llvm::SmallVector<FusionCandidate> operandsOf(FusionGroup *group) const;

  /// Returns true if `joining` makes the kernel of `group` too large. Always
  /// accepts a cast that its readers do not fuse: its placement relies on that
  /// (fusesResultCast).
  bool isFull(FusionGroup *group, FusionGroup *joining) const;

  /// Returns true if the cast narrows a function argument, which no earlier
  /// kernel can do.
  bool convertsInput(mlir::Operation *cast) const;

  llvm::ArrayRef<mlir::Operation *> operations() const { return ops; }
  const FusionCost &getCost() const { return cost; }
  /// Number of loop operands considered, as a measure of work.
  int64_t getWeighed() const { return weighed; }

private:
  bool isFree(FusionGroup *group) const;
  bool isRepeatedScalar(mlir::Value value) const;
  bool takesOperands(FusionGroup *group) const;
  bool endsOtherKernel(mlir::Operation *op, FusionGroup *group) const;
  bool isForReduction(mlir::Operation *op, FusionGroup *group) const;
  bool convertsMovement(mlir::Operation *cast) const;
  bool ridesOnOperand(mlir::Operation *producer, mlir::Operation *anchor,
                      mlir::Value operand, unsigned index) const;
  bool mayRunConcurrently(mlir::Operation *op, mlir::Value operand,
                          FusionGroup *group, FusionGroup *source) const;
  mlir::Value reshapeToJoin(mlir::Value operand, FusionGroup *group) const;
  bool storesElsewhere(FusionGroup *group) const;
  bool mayStoreThrough(mlir::Operation *transpose, FusionGroup *group) const;
  FusionGroup *readerBehind(mlir::Operation *reshape) const;
  llvm::SmallVector<mlir::Operation *> storeChain(FusionGroup *group) const;

  using Candidates = llvm::SmallVector<FusionCandidate>;
  void addOperands(FusionGroup *group, FusionGroup *only,
                   Candidates &candidates) const;
  void addOperandLoops(FusionGroup *group, FusionGroup *only,
                       Candidates &candidates) const;
  void addOperandNorms(FusionGroup *group, FusionGroup *only,
                       Candidates &candidates) const;
  void addEpilogue(FusionGroup *group, FusionGroup *only,
                   FusionGroup *onlyReader, Candidates &candidates) const;
  void addStore(FusionGroup *group, FusionGroup *only,
                Candidates &candidates) const;
  void addPrologue(FusionGroup *group, FusionGroup *only,
                   Candidates &candidates) const;
  void addLoops(FusionGroup *group, FusionGroup *only,
                Candidates &candidates) const;

  bool mergeThrough(FusionGroup *group, mlir::Value operand,
                    FusionGroup *source);
  bool fuseNorm(FusionGroup *group, mlir::Value operand, FusionGroup *norm);
  bool fuseStore(FusionGroup *group);

  FusionGraph &graph;
  llvm::SmallVector<mlir::Operation *> ops;
  FusionCost cost;
  /// Number of live values of each group, at a version of the group.
  struct LiveValues {
    int64_t version = -1;
    size_t count = 0;
  };
  mutable std::vector<LiveValues> live;
  mutable int64_t weighed = 0;
  const KernelCapabilities &kernels;
};

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_FUSION_FUSIONRULES_H
