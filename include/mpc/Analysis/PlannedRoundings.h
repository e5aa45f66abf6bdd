//===- PlannedRoundings.h - where a plan rounds values ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_PLANNEDROUNDINGS_H
#define MPC_ANALYSIS_PLANNEDROUNDINGS_H

#include "mpc/Analysis/PrecisionPlan.h"

namespace mpc {

/// One place at which a plan rounds a value of the model.
struct PlannedRounding {
  mlir::Value value;
  /// The one reader that rounds what it reads; null where the value is stored
  /// rounded, for all of its readers.
  mlir::OpOperand *use = nullptr;
  mlir::FloatType type;

  /// The squared error of the outputs that it brings.
  double errorBy(const RoundingErrors &errors) const {
    return use ? errors.ofUse(*use, type) : errors.ofValue(value, type);
  }
};

/// Calls `visit` for every rounding of `plan`, which is one of `function`, in
/// the order of the values.
void forEachRounding(mlir::func::FuncOp function, const PrecisionPlan &plan,
                     llvm::function_ref<void(const PlannedRounding &)> visit);

} // namespace mpc

#endif // MPC_ANALYSIS_PLANNEDROUNDINGS_H
