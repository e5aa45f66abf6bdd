//===- StepFunction.h - the interface of a training step --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Roles of a function's arguments and results, read and appended. Passes that
// build a step only append, so that the numbers in mpc.alias stay right.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_STEPFUNCTION_H
#define MPC_DIALECT_MPC_IR_STEPFUNCTION_H

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <memory>
#include <optional>

namespace mpc {

/// On an argument that holds a rank's piece of a tensor: the tensor's shape.
/// The piece is one row of ceil(n / ranks) of its n elements, that of
/// mpc.reduce_scatter; an initial value is the whole tensor's.
inline constexpr llvm::StringLiteral kShardAttr = "mpc.shard";

/// A view of a function of one block; cheap to make, owns nothing.
class StepFunction {
  struct Tables;

public:
  /// While it lives, questions about roles and names look at tables, and what
  /// is appended or removed through `step` is written into the
  /// function's type and attributes in the end, all at once: each such change
  /// by itself takes time and memory in the number of arguments. Results keep
  /// their numbers until then.
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
  /// A builder in front of the terminator.
  mlir::OpBuilder atEnd() const;

  /// What an argument or a result is for; null without a role.
  RoleAttr argumentRole(unsigned index) const;
  RoleAttr resultRole(unsigned index) const;
  /// Its mpc.name; empty without one.
  llvm::StringRef argumentName(unsigned index) const;
  llvm::StringRef resultName(unsigned index) const;

  /// The arguments of a role, in order.
  llvm::SmallVector<mlir::BlockArgument> arguments(RoleKind kind) const;
  /// The numbers of the results of a role, in order.
  llvm::SmallVector<unsigned> results(RoleKind kind) const;
  /// The argument of this role and name; null where there is none.
  mlir::BlockArgument findArgument(RoleKind kind, llvm::StringRef name) const;
  /// The number of the result of this role and name.
  std::optional<unsigned> findResult(RoleKind kind, llvm::StringRef name) const;
  /// The argument that carries this field of the loss scale's state; null
  /// where there is none.
  mlir::BlockArgument findField(llvm::StringRef field) const;
  /// The result that replaces the argument.
  std::optional<unsigned> updateOf(mlir::BlockArgument argument) const;

  /// The value that a result returns.
  mlir::Value result(unsigned index) const;
  void setResult(unsigned index, mlir::Value value) const;

  /// Appends an argument. `initial`, where there, is the value it begins with;
  /// `field` goes with loss_scale_state.
  mlir::BlockArgument appendArgument(mlir::Type type, RoleKind kind,
                                     llvm::StringRef name,
                                     mlir::ElementsAttr initial = {},
                                     llvm::StringRef field = {}) const;
  /// Appends a result and gives its number.
  unsigned appendResult(mlir::Value value, RoleKind kind,
                        llvm::StringRef name) const;
  /// Appends the result that replaces `argument` in place, or gives the one
  /// that does already another value: same role, field and name.
  unsigned setUpdate(mlir::BlockArgument argument, mlir::Value value) const;
  /// Removes a result.
  void eraseResult(unsigned index) const;

private:
  mlir::DictionaryAttr argumentAttributes(unsigned index) const;
  /// Null for a result that was removed and still has its number.
  mlir::DictionaryAttr resultAttributes(unsigned index) const;
  unsigned numResults() const;
  unsigned append(mlir::Value value, mlir::DictionaryAttr attributes) const;

  /// An op is a reference: reading through it asks for one that is not const.
  mutable mlir::func::FuncOp function;
  /// Where Ports live.
  mutable std::shared_ptr<Tables> tables;
};

/// A tensor of no dimensions that holds `value`.
mlir::ElementsAttr scalarOf(mlir::Type elementType, double value);

} // namespace mpc

#endif // MPC_DIALECT_MPC_IR_STEPFUNCTION_H
