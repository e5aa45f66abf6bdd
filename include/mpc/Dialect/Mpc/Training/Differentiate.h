//===- Differentiate.h - reverse-mode differentiation -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a function with a loss to the gradients of its parameters.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRAINING_DIFFERENTIATE_H
#define MPC_DIALECT_MPC_TRAINING_DIFFERENTIATE_H

#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>
#include <vector>

namespace mpc {

/// What differentiation did.
struct DifferentiationCounts {
  int64_t parameters = 0; ///< gradients appended
  int64_t vjps = 0;       ///< ops whose derivative was written
  int64_t unrolled = 0;   ///< recurrent ops taken apart first
  int64_t split = 0;      ///< recurrent ops whose gradient is one op
};

/// What is left open.
struct DifferentiationOptions {
  /// Whether recurrent ops become the product of their input and a
  /// recurrence_training, whose gradient is one op, instead of being unrolled.
  /// Those of states narrower than f32 are unrolled all the same.
  bool splitRecurrent = false;
  /// Of a function that computes its parameters' gradients itself from the
  /// cotangent of one of its results: "PARAMETER=RESULT" for each of them, the
  /// input that takes the cotangent, and the result's name, empty for the only
  /// loss. Empty differentiates up to the parameters.
  std::vector<std::string> gradients;
  std::string cotangent, output;
};

/// Appends to `function` (one block) the gradient of the sum of its results of
/// role loss with respect to each argument of role parameter: a result of role
/// output named `PARAMETER.gradient`, of the parameter's type. The cotangent of
/// each loss is an mpc.gradient_seed. Backward ops stand behind the forward
/// ones, with the location and mpc.layer of the op they differentiate.
/// Recurrent ops between a parameter and a loss are unrolled or split. A
/// parameter that the losses do not depend on has a zero gradient, with a
/// remark. A function without a loss stays as it is. Where the function has
/// gradients (DifferentiationOptions::gradients), the loss is differentiated up
/// to the result that they are computed from, its cotangent replaces the input,
/// and they get the names. Fails with a diagnostic at an op on the way from a
/// parameter to a loss that has no derivative, and where an input or result
/// that the options name is missing.
mlir::FailureOr<DifferentiationCounts>
differentiate(mlir::func::FuncOp function,
              const DifferentiationOptions &options = {});

} // namespace mpc

#endif // MPC_DIALECT_MPC_TRAINING_DIFFERENTIATE_H
