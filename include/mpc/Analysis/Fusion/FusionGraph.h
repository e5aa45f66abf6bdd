//===- FusionGraph.h - acyclic graph of fusion groups -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Partition of the ops of one block into fusion groups. A merge that would
// create a cycle between groups is refused.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_FUSION_FUSIONGRAPH_H
#define MPC_ANALYSIS_FUSION_FUSIONGRAPH_H

#include "mpc/Analysis/Fusion/ContractedDag.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include <memory>
#include <vector>

namespace mpc {

/// Ops compiled into one kernel, or a single op outside of kernels.
struct FusionGroup {
  /// In block order.
  llvm::SmallVector<mlir::Operation *> ops;
  FusionKind kind = FusionKind::elementwise;
  /// Op that determines the kind of kernel; null for elementwise loops.
  mlir::Operation *anchor = nullptr;
  /// Shape of every result of the group, and of its loop nest.
  llvm::ArrayRef<int64_t> shape;
  /// A constant or a view: never merged.
  bool isLoose = false;
  /// Complete from the start: state updates and gradient checks. Results have
  /// shapes of their own.
  bool isJoint = false;
  /// Number of merges, to invalidate what was derived from an earlier version.
  int64_t version = 0;
  /// Position of its last op in the block; unique among groups.
  int64_t last = 0;
  /// Position of its first op before any merge, as an index into tables.
  int64_t number = 0;
};

class FusionGraph {
public:
  /// Creates one group per op of `block` except its terminator.
  explicit FusionGraph(mlir::Block &block);

  /// The group of `op`; null for ops outside the block and for the terminator.
  FusionGroup *groupOf(mlir::Operation *op) const;
  /// The group that defines `value`; null for a block argument.
  FusionGroup *groupOf(mlir::Value value) const;

  /// Moves the ops of `from` into `into`. Returns false if a path between them
  /// passes through another group.
  bool merge(FusionGroup *into, FusionGroup *from);

  /// Returns true if a merge of the two was refused and the group between them
  /// has since joined neither.
  bool isApart(FusionGroup *into, FusionGroup *from) const;

  /// Moves one op into the only group that reads it. The group must then read
  /// the op's operands from memory.
  void move(mlir::Operation *op, FusionGroup *into);

  /// Returns true if `value` is defined and read inside one group only, so that
  /// it never reaches memory.
  bool isInternal(mlir::Value value) const;

  /// Returns true if no op outside `inside` reads a result of `op`.
  bool isReadOnlyBy(mlir::Operation *op, FusionGroup *inside) const;

  /// Returns true if no op outside `inside` reads a result of `group`. The
  /// function's return counts as outside.
  bool isReadOnlyBy(FusionGroup *group, FusionGroup *inside) const;

  /// Returns the groups that read `value`, directly or through views; null is
  /// the function's return.
  llvm::SmallVector<FusionGroup *> readersOf(mlir::Value value) const;

  /// Returns true if only these two groups read `value`, directly or through
  /// views. The function's return counts as another reader.
  bool isReadOnlyBy(mlir::Value value, FusionGroup *a, FusionGroup *b) const;

  /// Returns the values of the group that are read outside it, in block order.
  llvm::SmallVector<mlir::Value> resultsOf(FusionGroup *group) const;

  /// Position of `op` in the block.
  int64_t positionOf(mlir::Operation *op) const { return position.lookup(op); }

  /// Returns the groups in topological order; ties are broken by the position
  /// of each group's last op.
  llvm::SmallVector<FusionGroup *> inOrder() const;

  /// Number of group indices in use (FusionGroup::number).
  int64_t getNumGroups() const { return storage.size(); }

  /// Writes the groups into attributes of their ops, for a later pass.
  void writeMarks() const;

  /// Restores the groups of `block` from these attributes. Reports an op that
  /// needs a kernel and has no group, and a cycle between groups.
  llvm::LogicalResult readMarks(mlir::Block &block);

  /// Removes the attributes from an op.
  static void eraseMarks(mlir::Operation *op);

  /// Turns a view into an op that a kernel computes.
  void closeView(FusionGroup *group);

  /// Incremented when a view becomes part of a kernel, which then reads the
  /// view's operand through it.
  int64_t getViewVersion() const { return viewVersion; }

  /// Number of groups visited to detect cycles, as a measure of work.
  int64_t getVisited() const { return dag.getVisited(); }

private:
  llvm::DenseMap<mlir::Operation *, int64_t> position;
  /// By position, the group of each op.
  std::vector<FusionGroup *> groups;
  /// By position, the initial group of each op.
  std::vector<std::unique_ptr<FusionGroup>> storage;
  /// One node per op, by position.
  ContractedDag dag;
  /// Op of the group on the path between the two groups of a refused merge.
  llvm::DenseMap<std::pair<FusionGroup *, FusionGroup *>, int64_t> between;
  int64_t viewVersion = 0;
};

} // namespace mpc

#endif // MPC_ANALYSIS_FUSION_FUSIONGRAPH_H
