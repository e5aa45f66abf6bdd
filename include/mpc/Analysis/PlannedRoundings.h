//===- PlannedRoundings.h - roundings of a precision plan -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_PLANNEDROUNDINGS_H
#define MPC_ANALYSIS_PLANNEDROUNDINGS_H

#include "mpc/Analysis/PrecisionPlan.h"

namespace mpc {

/// One rounding of a model's value under a plan.
struct PlannedRounding {
  mlir::Value value;
  /// The one reader that rounds its operand; null if the value is stored
  /// rounded, for all of its readers.
  mlir::OpOperand *use = nullptr;
  mlir::FloatType type;

  /// Squared error that the rounding adds to the outputs.
  double errorBy(const RoundingErrorModel &errors) const {
    return use ? errors.ofUse(*use, type) : errors.ofValue(value, type);
  }
};

/// Calls `visit` for every rounding of `plan`, a plan of `function`, in the
/// order of the values.
void forEachRounding(mlir::func::FuncOp function, const PrecisionPlan &plan,
                     llvm::function_ref<void(const PlannedRounding &)> visit);

} // namespace mpc

#endif // MPC_ANALYSIS_PLANNEDROUNDINGS_H
