//===- StepFunction.h - signature of a training step ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads and appends roles of a function's arguments and results. Passes that
// build a step only append, so that the indices in mpc.alias stay valid.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_STEPFUNCTION_H
#define MPC_DIALECT_MPC_IR_STEPFUNCTION_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <memory>
#include <optional>

namespace mpc {

/// Argument attribute: the whole shape of a tensor sharded over ranks. A shard
/// is one row of ceil(n / ranks) of its n elements, as in mpc.reduce_scatter;
/// an initial value is the whole tensor's.
inline constexpr llvm::StringLiteral kShardAttr = "mpc.shard";

/// A view of a single-block function; cheap to copy, owns nothing.
class StepFunction {
  struct Tables;

public:
  /// RAII batch update: while alive, queries read tables, and changes through
  /// `step` are written to the function's type and attributes at the end, all
  /// at once, since each single change is linear in the number of arguments.
  /// Result indices stay valid until then.
  class Ports {
  public:
    explicit Ports(const StepFunction &step);
    ~Ports();
    Ports(const Ports &) = delete;
    Ports &operator=(const Ports &) = delete;

  private:
    const StepFunction &step;
  };

  explicit StepFunction(mlir::func::FuncOp function) : function(function) {}

  mlir::func::FuncOp getFunction() const { return function; }
  mlir::Block &body() const { return getFunction().getBody().front(); }
  mlir::func::ReturnOp terminator() const;
  /// Returns a builder before the terminator.
  mlir::OpBuilder atEnd() const;

  /// Returns the role of an argument or result, or null.
  RoleAttr argumentRole(unsigned index) const;
  RoleAttr resultRole(unsigned index) const;
  /// Returns its mpc.name, or an empty string.
  llvm::StringRef argumentName(unsigned index) const;
  llvm::StringRef resultName(unsigned index) const;

  /// Returns the arguments of a role, in order.
  llvm::SmallVector<mlir::BlockArgument> arguments(RoleKind kind) const;
  /// Returns the indices of the results of a role, in order.
  llvm::SmallVector<unsigned> results(RoleKind kind) const;
  /// Returns the argument with this role and name, or null.
  mlir::BlockArgument findArgument(RoleKind kind, llvm::StringRef name) const;
  /// Returns the index of the result with this role and name, or nullopt.
  std::optional<unsigned> findResult(RoleKind kind, llvm::StringRef name) const;
  /// Returns the argument with this field of the loss-scale state, or null.
  mlir::BlockArgument findField(llvm::StringRef field) const;
  /// Returns the result that updates the argument, or nullopt.
  std::optional<unsigned> updateOf(mlir::BlockArgument argument) const;

  /// Returns the value that a result returns.
  mlir::Value result(unsigned index) const;
  void setResult(unsigned index, mlir::Value value) const;

  /// Appends an argument with an optional initial value; `field` is for
  /// loss_scale_state.
  mlir::BlockArgument appendArgument(mlir::Type type, RoleKind kind,
                                     llvm::StringRef name,
                                     mlir::ElementsAttr initial = {},
                                     llvm::StringRef field = {}) const;
  /// Appends a result and returns its index.
  unsigned appendResult(mlir::Value value, RoleKind kind,
                        llvm::StringRef name) const;
  /// Appends the result that updates `argument` in place, or changes the value
  /// of the existing one: same role, field and name.
  unsigned setUpdate(mlir::BlockArgument argument, mlir::Value value) const;
  /// Returns the function's random state, `[2]` i64: a seed and a step. Appends
  /// one that counts steps if the function has none.
  mlir::BlockArgument randomState() const;
  /// Erases a result.
  void eraseResult(unsigned index) const;

private:
  mlir::DictionaryAttr argumentAttributes(unsigned index) const;
  /// Null for an erased result that still has an index.
  mlir::DictionaryAttr resultAttributes(unsigned index) const;
  unsigned numResults() const;
  unsigned append(mlir::Value value, mlir::DictionaryAttr attributes) const;

  /// Ops are references: reading requires a non-const handle.
  mutable mlir::func::FuncOp function;
  /// Tables while a Ports object is alive.
  mutable std::shared_ptr<Tables> tables;
};

/// Returns a rank-0 tensor that holds `value`.
mlir::ElementsAttr scalarOf(mlir::Type elementType, double value);

} // namespace mpc

#endif // MPC_DIALECT_MPC_IR_STEPFUNCTION_H
