//===- ErrorEstimate.h - forward error analysis -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Estimates the magnitude of values and their rounding error under a plan,
// before any value is stored narrow to save memory. Rough on purpose: it
// compares the roundings of the policy with those of storage, and of the data
// knows only the constants.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_ERRORESTIMATE_H
#define MPC_LIB_ANALYSIS_ERRORESTIMATE_H

#include "mpc/Analysis/PrecisionPlan.h"
#include "mpc/Analysis/RangeAnalysis.h"

namespace mpc {

class ErrorEstimate {
public:
  /// `square` is the mean square of a value's elements; `error` is the mean
  /// square of their error in units of one rounding: rounding the value adds
  /// `square`.
  struct Moments {
    double square = 1, error = 0;
    double relative() const { return square > 0 ? error / square : 0; }
  };

  ErrorEstimate(mlir::func::FuncOp func, const PrecisionPlan &plan);

  Moments get(mlir::Value value) const { return moments.lookup(value); }

private:
  Moments compute(mlir::Operation *op) const;
  Moments contraction(mlir::Operation *op) const;
  Moments attention(mlir::Operation *op) const;
  Moments rowWise(mlir::Operation *op) const;
  Moments elementwise(mlir::Operation *op) const;
  Moments moved(mlir::Operation *op) const;
  /// The operand as `op` reads it: rounded if it computes in 16 bits.
  Moments read(mlir::Operation *op, unsigned index) const;

  const PrecisionPlan &plan;
  RangeAnalysis ranges;
  llvm::DenseMap<mlir::Value, Moments> moments;
};

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_ERRORESTIMATE_H
