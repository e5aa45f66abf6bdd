//===- RangeAnalysis.h - range analysis of values ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Interval analysis: bounds that hold for every input (NaN aside), derived from
// constants, booleans, positions, clips and bounded functions through
// arithmetic. Inputs, contractions and large constants are unbounded, with one
// exception: an integer input used as a mask (1 - input times a large number,
// or as a boolean) is assumed to be 0 or 1.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_RANGEANALYSIS_H
#define MPC_ANALYSIS_RANGEANALYSIS_H

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/KnownRange.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseMap.h"

namespace mpc {

/// The ranges of one function's values.
class RangeAnalysis {
public:
  explicit RangeAnalysis(mlir::func::FuncOp func);

  KnownRange get(mlir::Value value) const { return ranges.lookup(value); }

private:
  KnownRange compute(mlir::OpResult result) const;

  llvm::DenseMap<mlir::Value, KnownRange> ranges;
};

/// Rounds `value` to `type`, to nearest, ties to even; overflow gives infinity.
double roundedTo(double value, mlir::FloatType type);

/// Returns the largest integer up to which `type` represents every integer: 256
/// for bf16, 2048 for f16. A running sum of ones stops there as well.
double exactIntegerLimit(mlir::FloatType type);

} // namespace mpc

#endif // MPC_ANALYSIS_RANGEANALYSIS_H
