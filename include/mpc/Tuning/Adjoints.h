//===- Adjoints.h - cotangents of every value -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reverse mode in the interpreter: the derivatives of the ops
// (VjpOpInterface), each executed in float64 as soon as it is written, so that
// what flows back through every single use can be looked at.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TUNING_ADJOINTS_H
#define MPC_TUNING_ADJOINTS_H

#include "mpc/Reference/Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include "llvm/ADT/DenseMap.h"

#include <functional>
#include <memory>
#include <optional>

namespace mpc {

/// The values of a function in one run.
class ForwardValues {
public:
  using Observer =
      std::function<void(mlir::Operation *, llvm::ArrayRef<reference::Tensor>)>;
  /// Interprets `function`, which has one block, in float64. Fails with a
  /// diagnostic. `observer` sees the results of each op.
  static mlir::FailureOr<ForwardValues>
  run(mlir::func::FuncOp function, llvm::ArrayRef<reference::Tensor> arguments,
      const Observer &observer = {});

  /// An argument, a result or a constant; constants are read when asked for.
  /// Null where a constant cannot be read.
  const reference::Tensor *get(mlir::Value value);

  /// What `function`, which was run, returns; fails with a diagnostic where a
  /// constant among that cannot be read.
  mlir::FailureOr<llvm::SmallVector<reference::Tensor>>
  results(mlir::func::FuncOp function);

  /// Memory that the values take.
  int64_t bytes() const;

private:
  llvm::DenseMap<mlir::Value, std::shared_ptr<const reference::Tensor>> values;
};

/// Walks one function backwards, as often as one likes. Derivatives are written
/// once.
class AdjointWalk {
public:
  /// `function` has one block of mpc ops with static shapes and must not change
  /// while this lives.
  explicit AdjointWalk(mlir::func::FuncOp function);
  ~AdjointWalk();

  /// Receives what flows back through one use: of a float value, and of a float
  /// constant where a product reads it.
  using UseVisitor =
      std::function<void(mlir::OpOperand &, const reference::Tensor &)>;
  /// Receives the sum of that over all uses of a float result or argument.
  using ValueVisitor =
      std::function<void(mlir::Value, const reference::Tensor &)>;

  /// Walks from the function's results, `seeds` being their cotangents (none
  /// where nothing flows). What an op without a derivative reads gets nothing
  /// from it. Fails with a diagnostic where a derivative cannot be executed.
  mlir::LogicalResult
  run(ForwardValues &forward,
      llvm::ArrayRef<std::optional<reference::Tensor>> seeds,
      const UseVisitor &onUse, const ValueVisitor &onValue);

private:
  /// The derivative of one op as a function of its operands and the cotangents
  /// of its float results.
  struct Derivative;
  Derivative *derivativeOf(mlir::Operation *op);

  mlir::func::FuncOp function;
  llvm::DenseMap<mlir::Operation *, std::unique_ptr<Derivative>> derivatives;
};

} // namespace mpc

#endif // MPC_TUNING_ADJOINTS_H
