//===- ReverseMode.h - reverse-mode differentiation -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reverse mode in the interpreter: builds the derivative of each op
// (VjpOpInterface) and executes it in float64 at once, so that the cotangent of
// every single use can be observed.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TUNING_REVERSEMODE_H
#define MPC_TUNING_REVERSEMODE_H

#include "mpc/Reference/Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include "llvm/ADT/DenseMap.h"

#include <functional>
#include <memory>
#include <optional>

namespace mpc {

/// The values of a function in one forward run.
class ForwardValues {
public:
  using Observer =
      std::function<void(mlir::Operation *, llvm::ArrayRef<reference::Tensor>)>;
  /// Interprets `function`, which has one block, in float64. Reports failures.
  /// `observer` receives the results of each op.
  static mlir::FailureOr<ForwardValues>
  run(mlir::func::FuncOp function, llvm::ArrayRef<reference::Tensor> arguments,
      const Observer &observer = {});

  /// Returns an argument, a result or a constant; constants are read on demand.
  /// Null if a constant cannot be read.
  const reference::Tensor *get(mlir::Value value);

  /// Returns the results of `function`, which was run; reports a constant among
  /// them that cannot be read.
  mlir::FailureOr<llvm::SmallVector<reference::Tensor>>
  results(mlir::func::FuncOp function);

  /// Memory of the values, in bytes.
  int64_t bytes() const;

private:
  llvm::DenseMap<mlir::Value, std::shared_ptr<const reference::Tensor>> values;
};

/// Backward pass over one function, repeatable. Derivatives are built once.
class ReverseModePass {
public:
  /// `function` has one block of mpc ops with static shapes and must not change
  /// during the lifetime.
  explicit ReverseModePass(mlir::func::FuncOp function);
  ~ReverseModePass();

  /// Receives the cotangent of one use: of a float value, or of a float
  /// constant read by a GEMM.
  using UseVisitor =
      std::function<void(mlir::OpOperand &, const reference::Tensor &)>;
  /// Receives the sum of cotangents of all uses of a float value.
  using ValueVisitor =
      std::function<void(mlir::Value, const reference::Tensor &)>;

  /// Runs backward from the function's results with cotangents `seeds`
  /// (nullopt: zero). Operands of an op without a derivative get no cotangent
  /// from it. Reports a derivative that cannot be executed.
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

#endif // MPC_TUNING_REVERSEMODE_H
