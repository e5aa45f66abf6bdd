//===- Differentiate.h - reverse-mode differentiation -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adds the gradients of a loss with respect to the parameters.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRAINING_DIFFERENTIATE_H
#define MPC_DIALECT_MPC_TRAINING_DIFFERENTIATE_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>
#include <vector>

namespace mpc {

/// Statistics of a differentiation.
struct DifferentiationCounts {
  int64_t parameters = 0; ///< gradients appended
  int64_t vjps = 0;       ///< differentiated ops
  int64_t unrolled = 0;   ///< recurrent ops unrolled first
  int64_t split = 0;      ///< recurrent ops with a single gradient op
};

/// Options of differentiate().
struct DifferentiationOptions {
  /// Whether recurrent ops are split into an input GEMM and a
  /// recurrence_training, whose gradient is one op, instead of being unrolled.
  /// States below f32 are unrolled in any case.
  bool splitRecurrent = false;
  /// For a function with its own backward pass from the cotangent of a result:
  /// "PARAMETER=RESULT" per gradient, the input for the cotangent, and the
  /// result's name, empty for the only loss. If empty, differentiates up to the
  /// parameters.
  std::vector<std::string> gradients;
  std::string cotangent, output;
};

/// Appends to `function` (one block) the gradient of the sum of its loss
/// results with respect to each parameter: a result of role output named
/// `PARAMETER.gradient`, of the parameter's type. The cotangent of each loss is
/// an mpc.gradient_seed. Backward ops follow the forward ops, with the location
/// and mpc.layer of the op that they differentiate. Recurrent ops between a
/// parameter and a loss are unrolled or split. A parameter that no loss depends
/// on has a zero gradient, with a remark. A function without a loss is
/// unchanged. For a function with its own backward pass
/// (DifferentiationOptions::gradients), differentiates the loss up to the
/// result that it starts from, replaces the input by that cotangent, and
/// renames the gradients. Emits an error at an op between a parameter and a
/// loss without a derivative, and for a missing input or result named in the
/// options.
mlir::FailureOr<DifferentiationCounts>
differentiate(mlir::func::FuncOp function,
              const DifferentiationOptions &options = {});

} // namespace mpc

#endif // MPC_DIALECT_MPC_TRAINING_DIFFERENTIATE_H
