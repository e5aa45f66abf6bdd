//===- GroupRules.h - which ops may share a kernel ---------------*- C++
//-*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The steps by which groups grow. Rules say what a kernel can take; which step
// goes first is the queue's choice (GroupOps.h).
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_FUSION_GROUPRULES_H
#define MPC_LIB_ANALYSIS_FUSION_GROUPRULES_H

#include "FusionCost.h"

namespace mpc {

/// One step that the rules allow.
struct FusionCandidate {
  FusionStep step;
  /// The group that grows, and the one that joins it.
  FusionGroup *into = nullptr, *from = nullptr;
  /// What lies between the two, where they meet in it: the operand that is
  /// taken, or the first movement behind a result.
  mlir::Value operand;
  FusionSaving saving;
};

/// Whether `anchor` multiplies matrices: no element of its first operand is
/// loaded for several positions of a window.
bool isProduct(mlir::Operation *anchor);

class GroupRules {
public:
  GroupRules(FusionGraph &graph, mlir::Block &block, const TargetInfo &target);

  /// Gives every group of one op its kind and anchor.
  void classify();

  /// The steps by which `group` can grow now; those that take `only`, where it
  /// is given. Of what reads the group only `onlyReader` is looked at, where
  /// that is given: there may be thousands.
  llvm::SmallVector<FusionCandidate>
  candidatesOf(FusionGroup *group, FusionGroup *only = nullptr,
               FusionGroup *onlyReader = nullptr) const;

  /// Whether the group is a loop over many operands. Whoever asks for its steps
  /// after each change of one operand does well to name what changed.
  bool isWide(FusionGroup *group) const;

  /// Takes a step. False where a third kernel lies between the two groups.
  bool apply(const FusionCandidate &candidate);

  /// The steps by which the kernel of `group` loads its operands through what
  /// makes them.
  llvm::SmallVector<FusionCandidate> operandsOf(FusionGroup *group) const;

  /// Whether `joining` makes the kernel of `group` too large. A cast fits that
  /// its readers do not do themselves: its placement counts on it
  /// (absorbsResultCast).
  bool isFull(FusionGroup *group, FusionGroup *joining) const;

  /// Whether the cast narrows an argument of the function, which no kernel
  /// before it can do.
  bool convertsInput(mlir::Operation *cast) const;

  llvm::ArrayRef<mlir::Operation *> operations() const { return ops; }
  const FusionCost &getCost() const { return cost; }
  /// Operands that were weighed for loops: the work done.
  int64_t getWeighed() const { return weighed; }

private:
  bool isFree(FusionGroup *group) const;
  bool isRepeatedScalar(mlir::Value value) const;
  bool repeatsCode(FusionGroup *group, FusionGroup *joining) const;
  bool takesOperands(FusionGroup *group) const;
  bool endsOtherKernel(mlir::Operation *op, FusionGroup *group) const;
  bool isForReduction(mlir::Operation *op, FusionGroup *group) const;
  bool convertsMovement(mlir::Operation *cast) const;
  bool ridesOnOperand(mlir::Operation *producer, mlir::Operation *anchor,
                      mlir::Value operand, unsigned index) const;
  bool mayJoin(mlir::Operation *op, mlir::Value operand, FusionGroup *group,
               FusionGroup *source) const;
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
  bool takeNorm(FusionGroup *group, mlir::Value operand, FusionGroup *norm);
  bool takeStore(FusionGroup *group);

  // Kernels of several tensors (GroupState.cpp, GroupAttention.cpp).
  void joinUpdates();
  void joinChecks();
  void joinInto(llvm::ArrayRef<mlir::Operation *> members, FusionKind kind);
  void joinAttentionGradients();
  void joinHalves();
  void joinPanels();
  void joinScaledRows();
  void takeReader(FusionGroup *group, mlir::Operation *op);

  FusionGraph &graph;
  mlir::Block &block;
  llvm::SmallVector<mlir::Operation *> ops;
  FusionCost cost;
  /// Values of each group that are alive at once, at a version of the group.
  struct LiveValues {
    int64_t version = -1;
    size_t count = 0;
  };
  mutable std::vector<LiveValues> live;
  mutable int64_t weighed = 0;
  const KernelModel &kernels;
};

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_FUSION_GROUPRULES_H
