//===- RoundingErrorModel.h - error model of roundings ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Interface between the measured error model (Tuning/Sensitivity.h) and the
// precision planner.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_ROUNDINGERRORMODEL_H
#define MPC_ANALYSIS_ROUNDINGERRORMODEL_H

#include "mpc/Policy/Policy.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

class PlanningAnalyses;

/// First-order squared error that a rounding adds to a model's outputs. Squared
/// errors of different roundings add up. TF32 as a type stands for contraction
/// operands rounded to tf32.
class RoundingErrorModel {
public:
  virtual ~RoundingErrorModel() = default;
  /// Error of storing `value` in `type`, rounded for all readers.
  virtual double ofValue(mlir::Value value, mlir::FloatType type) const = 0;
  /// Error of rounding one operand only.
  virtual double ofUse(mlir::OpOperand &use, mlir::FloatType type) const = 0;
  /// Error of storing the weights of `op` in `format`, with scales for operands
  /// of `bits` significant bits; 0 if never computed before.
  virtual double ofWeights(mlir::Operation *op, const WeightFormat &format,
                           int bits) const = 0;
  /// Error of quantizing the operands of `op` by the policy's recipe; 0 if
  /// never computed before.
  virtual double ofOperands(mlir::Operation *) const { return 0; }
};

/// Error of operands that a policy quantizes, or of constants stored in its
/// format for weights.
struct QuantizedError {
  mlir::Operation *op = nullptr;
  double error = 0;
  /// Whether both operands are quantized, not the second one alone.
  bool both = false;
};

/// Weight of errors in the planner's objective. Plans with prices are made by
/// the thousand and do not record reasons.
struct RoundingErrorPrices {
  const RoundingErrorModel &errors;
  /// Bytes that one unit of squared error is worth.
  double bytesPerError = 0;
  /// Cached analyses of the plan's function and target; null to compute them.
  const PlanningAnalyses *facts = nullptr;
};

} // namespace mpc

#endif // MPC_ANALYSIS_ROUNDINGERRORMODEL_H
