//===- Interpreter.h - the reference interpreter ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Executes mpc ops on tensors of doubles: the oracle for compiled code.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_REFERENCE_INTERPRETER_H
#define MPC_REFERENCE_INTERPRETER_H

#include "mpc/Reference/Tensor.h"
#include "mpc/Support/TensorCoreModel.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <functional>
#include <optional>

namespace mpc::reference {

/// Rounding of float results. Integers are exact and wrap to their width in
/// every mode.
enum class Rounding {
  /// All values are float64; casts between float types are exact.
  Float64,
  /// Storage-rounding mode: every value is rounded to its type. Contractions
  /// and reductions accumulate in their accumulate type, with a rounding after
  /// each addition, and contractions multiply in their compute mode.
  Declared,
  /// The same, but reductions add terms in reverse: compiled code may use any
  /// order of summation.
  DeclaredBackwards,
};

/// Returns true if values are rounded to their types.
inline bool roundsToTypes(Rounding rounding) {
  return rounding != Rounding::Float64;
}

/// Executes one op of the mpc dialect (not `yield`). `operands` has one tensor
/// per operand of `op`, of the operand's type. Emits an error at the op for an
/// op of another dialect, a dynamic shape, or a constant without data.
mlir::LogicalResult evaluate(mlir::Operation *op,
                             llvm::ArrayRef<const Tensor *> operands,
                             llvm::SmallVectorImpl<Tensor> &results,
                             Rounding rounding);

/// The tensor cores of a GPU: compute capability, such as 90, and instruction.
struct TensorCores {
  int capability = 0;
  TensorCoreInstruction instruction = TensorCoreInstruction::Mma;

  /// Returns those of a target "cuda:sm_90a"; nullopt without tensor cores.
  static std::optional<TensorCores> of(llvm::StringRef target);
};

struct InterpretOptions {
  Rounding rounding = Rounding::Float64;
  /// In storage-rounding mode: GPU whose tensor cores compute matmuls of the
  /// operand types that it has instructions for, with f32 accumulators, bit by
  /// bit (TensorCoreModel.h) and in ascending order of k.
  std::optional<TensorCores> tensorCores = {};
  /// Callback after each op of the function, with its results, which it may
  /// modify; ops inside a fusion precede the fusion. Called once per rank, in
  /// rank order.
  std::function<void(mlir::Operation *, llvm::MutableArrayRef<Tensor>)>
      observer;
};

/// Executes a single-block function on `arguments`, which have the argument
/// types, and returns its results. Frees a value after its last use. Emits an
/// error on failure.
mlir::FailureOr<llvm::SmallVector<Tensor>>
interpret(mlir::func::FuncOp function, llvm::ArrayRef<Tensor> arguments,
          const InterpretOptions &options = {});

/// Executes the function on several ranks at once, each with its own arguments
/// and results; collectives exchange values and must have this number of ranks.
/// `interpret` is the single-rank case.
mlir::FailureOr<llvm::SmallVector<llvm::SmallVector<Tensor>>>
interpretRanks(mlir::func::FuncOp function,
               llvm::ArrayRef<llvm::SmallVector<Tensor>> arguments,
               const InterpretOptions &options = {});

} // namespace mpc::reference

#endif // MPC_REFERENCE_INTERPRETER_H
