//===- ErrorEstimate.h - what roundings do to values ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A forward estimate of how large values are and how much of them is error
// under a plan, before any value is stored narrow for the sake of memory. Rough
// on purpose: it compares the roundings that a policy asks for with those that
// storing would add, and knows nothing of the data but the constants.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_ERRORESTIMATE_H
#define MPC_LIB_ANALYSIS_ERRORESTIMATE_H

#include "mpc/Analysis/KnownRanges.h"
#include "mpc/Analysis/PrecisionPlan.h"

namespace mpc {

class ErrorEstimate {
public:
  /// `square` is the mean square of a value's elements, `error` that of their
  /// error in units of one rounding: a rounding of the value adds `square`.
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
  /// The operand as `op` reads it: rounded where it computes in 16 bits.
  Moments read(mlir::Operation *op, unsigned index) const;

  const PrecisionPlan &plan;
  KnownRanges ranges;
  llvm::DenseMap<mlir::Value, Moments> moments;
};

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_ERRORESTIMATE_H
