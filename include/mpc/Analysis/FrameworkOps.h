//===- FrameworkOps.h - mapping to the framework's ops ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Policies that imitate a framework assign types to that framework's ops. One
// of them may have been imported as several ops (linear: matmul and add); this
// analysis finds such groups, by the attribute mpc.source or by structure.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_FRAMEWORKOPS_H
#define MPC_ANALYSIS_FRAMEWORKOPS_H

#include "mpc/Policy/Policy.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <deque>

namespace mpc {

/// Ops that implement one op of the framework.
struct FrameworkOpGroup {
  /// The framework's name of the op; empty where it has none.
  std::string op;
  /// The group's ops in program order, without constants.
  llvm::SmallVector<mlir::Operation *, 2> members;

  bool contains(mlir::Operation *candidate) const {
    return llvm::is_contained(members, candidate);
  }
  /// Returns true if `operand` of a member is defined outside the group.
  bool isExternal(mlir::OpOperand &operand) const {
    mlir::Operation *producer = operand.get().getDefiningOp();
    return !producer || !contains(producer);
  }
  /// Returns true if `value` of a member is read outside the group.
  bool isResult(mlir::Value value) const {
    return value.use_empty() ||
           llvm::any_of(value.getUsers(),
                        [&](mlir::Operation *user) { return !contains(user); });
  }
};

/// The groups of one function. Every op of its body except constants and the
/// terminator is in exactly one. Invalid once the IR changes.
class FrameworkOps {
public:
  /// `policy` maps op kinds to the framework's ops and selects the framework's
  /// structural rules. `standsAlone`, if given, excludes ops from groups.
  FrameworkOps(mlir::func::FuncOp func, const Policy &policy,
               llvm::function_ref<bool(mlir::Operation *)> standsAlone = {});

  /// Groups in the order of their last member.
  llvm::ArrayRef<const FrameworkOpGroup *> getGroups() const { return ordered; }
  /// The group of `op`; null for constants and the terminator.
  const FrameworkOpGroup *getGroup(mlir::Operation *op) const {
    return groupOf.lookup(op);
  }

private:
  FrameworkOpGroup &makeGroup(llvm::StringRef op);
  void add(FrameworkOpGroup &group, mlir::Operation *op);
  /// Returns the bias add that is the only reader of a contraction.
  mlir::Operation *biasAddOf(mlir::Operation *op) const;

  std::deque<FrameworkOpGroup> groups;
  llvm::SmallVector<const FrameworkOpGroup *> ordered;
  llvm::DenseMap<mlir::Operation *, FrameworkOpGroup *> groupOf;
};

/// Returns the framework's op for `op` without an mpc.source: the policy's name
/// for its kind, specialized by spatial rank and mode as torch's names are
/// (conv3d, reflection_pad2d). Empty if the policy has none.
std::string systemOpOf(mlir::Operation *op, const Policy &policy);

} // namespace mpc

#endif // MPC_ANALYSIS_FRAMEWORKOPS_H
