//===- FuseRules.h - which ops may share a kernel ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The steps by which groups grow. Rules say what a kernel can take; which step
// goes first is the queue's choice (FusionQueue.h).
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_FUSERULES_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_FUSERULES_H

#include "FusionCost.h"

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
};

llvm::StringRef nameOf(FusionStep step);

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

class FuseRules {
public:
  FuseRules(FusionGraph &graph, mlir::Block &block, const TargetInfo &target);

  /// Gives every group of one op its kind and anchor.
  void classify();

  /// The steps by which `group` can grow now; those that take `only`, where it
  /// is given. Of what reads the group only `onlyReader` is looked at, where
  /// that is given: there may be thousands.
  llvm::SmallVector<FusionCandidate>
  candidatesOf(FusionGroup *group, FusionGroup *only = nullptr,
               FusionGroup *onlyReader = nullptr) const;

  /// Takes a step. False where a third kernel lies between the two groups.
  bool apply(const FusionCandidate &candidate);

  /// Once nothing grows any more: widening casts go to their readers, and every
  /// loop gets its kind.
  void finish();

  llvm::ArrayRef<mlir::Operation *> operations() const { return ops; }
  const FusionCost &getCost() const { return cost; }

private:
  bool isFree(FusionGroup *group) const;
  bool isRepeatedScalar(mlir::Value value) const;
  bool takesOperands(FusionGroup *group) const;
  bool isFull(FusionGroup *group, FusionGroup *joining) const;
  bool endsOtherKernel(mlir::Operation *op, FusionGroup *group) const;
  bool isForReduction(mlir::Operation *op, FusionGroup *group) const;
  bool convertsMovement(mlir::Operation *cast) const;
  bool convertsInput(mlir::Operation *cast) const;
  bool ridesOnOperand(mlir::Operation *producer, mlir::Operation *anchor,
                      mlir::Value operand) const;
  bool mayJoin(mlir::Operation *op, mlir::Value operand, FusionGroup *group,
               FusionGroup *source) const;
  mlir::Value reshapeToJoin(mlir::Value operand, FusionGroup *group) const;
  llvm::SmallVector<mlir::Operation *> storeChain(FusionGroup *group) const;
  void takeWidening(FusionGroup *group, CastOp wide);
  void takeNarrowing(FusionGroup *group, mlir::Value value);
  bool takesSum(MatmulOp product, ReduceSumOp sum) const;

  using Candidates = llvm::SmallVector<FusionCandidate>;
  void addOperands(FusionGroup *group, FusionGroup *only,
                   Candidates &candidates) const;
  void addEpilogue(FusionGroup *group, FusionGroup *only,
                   FusionGroup *onlyReader, Candidates &candidates) const;
  void addStore(FusionGroup *group, FusionGroup *only,
                Candidates &candidates) const;
  void addPrologue(FusionGroup *group, FusionGroup *only,
                   Candidates &candidates) const;
  void addLoops(FusionGroup *group, FusionGroup *only,
                Candidates &candidates) const;

  // Kernels of several tensors (FuseUpdates.cpp, FuseAttention.cpp) and of
  // several kernels (FuseJoin*.cpp).
  void joinUpdates();
  void joinAttentionGradients();
  void takeReader(FusionGroup *group, mlir::Operation *op);
  void joinChecks();
  void joinRows();
  void joinRowSums();
  void joinColumns();
  llvm::SmallVector<FusionGroup *> rowsOfSum(mlir::Operation *sum) const;
  void joinFilters();
  void joinSlices();
  void joinEqualSums();
  void joinProducts();
  void loadThroughMovement(FusionGroup *group);
  void joinSums();
  void joinInto(llvm::ArrayRef<mlir::Operation *> members, FusionKind kind);
  bool mergeThrough(FusionGroup *group, mlir::Value operand,
                    FusionGroup *source);
  bool takeStore(FusionGroup *group);
  void widenAtReaders();

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
  const KernelModel &kernels;
};

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_FUSERULES_H
