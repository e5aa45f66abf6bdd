//===- FusionGraph.h - groups of ops without cycles -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The ops of one block in groups. A merge that would make two groups wait for
// each other is refused.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_FUSION_FUSIONGRAPH_H
#define MPC_ANALYSIS_FUSION_FUSIONGRAPH_H

#include "mpc/Analysis/Fusion/ContractedDag.h"
#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include <memory>
#include <vector>

namespace mpc {

/// Ops that become one kernel, or a single op that stays outside kernels.
struct FusionGroup {
  /// In block order.
  llvm::SmallVector<mlir::Operation *> ops;
  FusionKind kind = FusionKind::elementwise;
  /// The op that gives the kernel its form; null for plain loops.
  mlir::Operation *anchor = nullptr;
  /// Shape of every result of the group, and of the loops around it.
  llvm::ArrayRef<int64_t> shape;
  /// A constant or a view: never merged.
  bool isLoose = false;
  /// Complete from the start: the updates of the state, and the checks of the
  /// gradients. Results have shapes of their own.
  bool isJoint = false;
  /// Counts the merges, so that what was said about the group before is known
  /// to be old.
  int64_t version = 0;
  /// Where the last of its ops stood in the block. No two groups have the same.
  int64_t last = 0;
  /// Where its first op stood before any merge: an index into tables.
  int64_t number = 0;
};

class FusionGraph {
public:
  /// One group per op of `block` but its terminator.
  explicit FusionGraph(mlir::Block &block);

  /// The group of `op`; null for ops outside the block and for the terminator.
  FusionGroup *groupOf(mlir::Operation *op) const;
  /// The group that computes `value`; null for a block argument.
  FusionGroup *groupOf(mlir::Value value) const;

  /// Moves the ops of `from` into `into`, unless another group lies between
  /// them.
  bool merge(FusionGroup *into, FusionGroup *from);

  /// Whether a merge of the two was refused, and the group that lay between
  /// them is none of the two yet.
  bool isApart(FusionGroup *into, FusionGroup *from) const;

  /// Moves one op into a group that alone reads it. What the op reads must be
  /// read through memory from then on.
  void move(mlir::Operation *op, FusionGroup *into);

  /// Whether `value` is made and read inside one group, so that it never
  /// reaches memory.
  bool isInternal(mlir::Value value) const;

  /// Whether no op outside `inside` reads a result of `op`.
  bool isReadOnlyBy(mlir::Operation *op, FusionGroup *inside) const;

  /// Whether no op outside `inside` reads a result of `group`. The function's
  /// return counts as outside.
  bool isReadOnlyBy(FusionGroup *group, FusionGroup *inside) const;

  /// The groups that read `value`, behind views too; null stands for the
  /// function's return.
  llvm::SmallVector<FusionGroup *> readersOf(mlir::Value value) const;

  /// Whether no group but these two reads `value`, behind views too. The
  /// function's return counts as another.
  bool isReadOnlyBy(mlir::Value value, FusionGroup *a, FusionGroup *b) const;

  /// Values of the group that something outside reads, in block order.
  llvm::SmallVector<mlir::Value> resultsOf(FusionGroup *group) const;

  /// Where `op` stood in the block.
  int64_t positionOf(mlir::Operation *op) const { return position.lookup(op); }

  /// All groups, each behind those whose results it reads, and of those that
  /// may go next the one first whose last op stood first.
  llvm::SmallVector<FusionGroup *> inOrder() const;

  /// Counts the groups from which FusionGroup::number is taken.
  int64_t getNumGroups() const { return storage.size(); }

  /// Writes the groups into attributes of their ops, for a later pass.
  void writeMarks() const;

  /// Groups the ops of `block` as they are marked; a diagnostic where an op is
  /// unmarked that needs a kernel, or where marked groups wait for each other.
  llvm::LogicalResult readMarks(mlir::Block &block);

  /// Takes the marks off an op.
  static void eraseMarks(mlir::Operation *op);

  /// Makes a view an op like others, which a kernel computes.
  void closeView(FusionGroup *group);

  /// Grows with every view that becomes part of a kernel: values behind it are
  /// read through it from then on.
  int64_t getViewVersion() const { return viewVersion; }

  /// Groups that were looked at to keep them free of cycles: the work done.
  int64_t getVisited() const { return dag.getVisited(); }

private:
  llvm::DenseMap<mlir::Operation *, int64_t> position;
  /// By position, the group of each op.
  std::vector<FusionGroup *> groups;
  /// By position, the group that each op had at first.
  std::vector<std::unique_ptr<FusionGroup>> storage;
  /// A node for each op, by position.
  ContractedDag dag;
  /// The op of another group that lay between the two of a merge.
  llvm::DenseMap<std::pair<FusionGroup *, FusionGroup *>, int64_t> between;
  int64_t viewVersion = 0;
};

} // namespace mpc

#endif // MPC_ANALYSIS_FUSION_FUSIONGRAPH_H
