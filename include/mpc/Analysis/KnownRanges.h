//===- KnownRanges.h - bounds that follow from the graph --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Intervals of values that hold for every input, NaN aside: from constants,
// truth values, positions, clips and bounded functions, through arithmetic.
// Nothing is known of inputs, of contractions or of large constants, but for
// one: an integer input that the model makes a mask of, 1 - input times a large
// number or as a truth value, is taken to hold zeros and ones.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_KNOWNRANGES_H
#define MPC_ANALYSIS_KNOWNRANGES_H

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/KnownRange.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseMap.h"

namespace mpc {

/// The ranges of one function's values.
class KnownRanges {
public:
  explicit KnownRanges(mlir::func::FuncOp func);

  KnownRange get(mlir::Value value) const { return ranges.lookup(value); }

private:
  KnownRange compute(mlir::OpResult result) const;

  llvm::DenseMap<mlir::Value, KnownRange> ranges;
};

/// `value` in `type`, to nearest, ties to even; what is too large is infinite.
double roundedTo(double value, mlir::FloatType type);

/// The integer up to which `type` holds every integer: 256 for bf16, 2048 for
/// f16, where a running sum of ones stops as well.
double exactIntegerLimit(mlir::FloatType type);

} // namespace mpc

#endif // MPC_ANALYSIS_KNOWNRANGES_H
