//===- RoundingErrors.h - what roundings cost a model -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The seam between what knows the data (Tuning/Sensitivity.h) and the planner.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_ROUNDINGERRORS_H
#define MPC_ANALYSIS_ROUNDINGERRORS_H

#include "mpc/Policy/Policy.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

class PlanningFacts;

/// The squared error of a model's outputs that a rounding brings, to first
/// order. Squares of different roundings add up. TF32 as a type means operands
/// that a contraction rounds to it.
class RoundingErrors {
public:
  virtual ~RoundingErrors() = default;
  /// Of storing `value` in `type`: all its readers read it rounded.
  virtual double ofValue(mlir::Value value, mlir::FloatType type) const = 0;
  /// Of rounding what this reader alone reads.
  virtual double ofUse(mlir::OpOperand &use, mlir::FloatType type) const = 0;
  /// Of storing the weights that `op` multiplies in `format`, with scales for
  /// factors of `bits` significant bits; 0 where nobody asked for it before.
  virtual double ofWeights(mlir::Operation *op, const WeightFormat &format,
                           int bits) const = 0;
};

/// A planner's price of errors. Plans with prices are made by the thousand:
/// they say of no value why it is stored as it is.
struct RoundingPrices {
  const RoundingErrors &errors;
  /// Bytes that one unit of squared error is worth.
  double bytesPerError = 0;
  /// Of the function and the target of the plan; null where they are to be
  /// found anew.
  const PlanningFacts *facts = nullptr;
};

} // namespace mpc

#endif // MPC_ANALYSIS_ROUNDINGERRORS_H
