//===- Interpreter.h - the reference interpreter ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Executes mpc ops on tensors of doubles: the oracle that compiled code is
// judged by.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_REFERENCE_INTERPRETER_H
#define MPC_REFERENCE_INTERPRETER_H

#include "mpc/Reference/Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <functional>

namespace mpc::reference {

/// How float results are rounded. Integers are exact and wrap to their width in
/// both modes.
enum class Rounding {
  /// Everything in float64; casts between float types change nothing.
  Float64,
  /// Every value is rounded to its type. Contractions and reductions accumulate
  /// in their accumulate type, rounding after each addition, and contractions
  /// multiply in their compute mode.
  Declared,
  /// The same, but reductions add up from their last term on: sums have no
  /// order that compiled code must keep.
  DeclaredBackwards,
};

/// Whether values are rounded to their types.
inline bool roundsToTypes(Rounding rounding) {
  return rounding != Rounding::Float64;
}

/// Executes one op of the mpc dialect (not `yield`). `operands` has one entry
/// per operand of `op`, in order, with the operand's type. Fails with a
/// diagnostic at the op where it cannot be executed: an op of another dialect,
/// a dynamic shape, or a constant without data.
mlir::LogicalResult evaluate(mlir::Operation *op,
                             llvm::ArrayRef<const Tensor *> operands,
                             llvm::SmallVectorImpl<Tensor> &results,
                             Rounding rounding);

struct InterpretOptions {
  Rounding rounding = Rounding::Float64;
  /// Called after each op of the function, with its results, which it may
  /// change; ops inside a fusion come before the fusion. Of several ranks, for
  /// each in their order.
  std::function<void(mlir::Operation *, llvm::MutableArrayRef<Tensor>)>
      observer;
};

/// Executes a function of one block on `arguments`, which have the argument
/// types, and returns its results. A value is freed after its last use. Fails
/// with a diagnostic.
mlir::FailureOr<llvm::SmallVector<Tensor>>
interpret(mlir::func::FuncOp function, llvm::ArrayRef<Tensor> arguments,
          const InterpretOptions &options = {});

/// The same on several ranks at once, each with arguments and results of its
/// own; ops of communication move values among them and must be of as many
/// ranks. `interpret` is the case of one.
mlir::FailureOr<llvm::SmallVector<llvm::SmallVector<Tensor>>>
interpretRanks(mlir::func::FuncOp function,
               llvm::ArrayRef<llvm::SmallVector<Tensor>> arguments,
               const InterpretOptions &options = {});

} // namespace mpc::reference

#endif // MPC_REFERENCE_INTERPRETER_H
