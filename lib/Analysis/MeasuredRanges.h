//===- MeasuredRanges.h - ranges measured on samples ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_MEASUREDRANGES_H
#define MPC_LIB_ANALYSIS_MEASUREDRANGES_H

#include "mpc/Policy/Policy.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace mpc {

/// Returns the measured range of `value`, identified by the kind of its op if
/// it has no name; null if nothing was measured.
const MeasuredRange *measuredRange(const Policy &policy, mlir::Value value);

/// Returns a sentence if `value` overflows `type` in a sample that `policy`
/// records: "'x' reaches 1e+05 in sample 'a.npz', which f16 rounds to inf".
/// Without measurements of `value`, checks the model's constants: the bias or
/// scale of a contraction. Empty otherwise.
std::string measuredOverflow(const Policy &policy, mlir::Value value,
                             mlir::FloatType type);

/// The same for operands and results of `op` in `type`, if it computes in that;
/// the result of a contraction is f32. Ignores constants.
std::string samplesOverflow(const Policy &policy, mlir::Operation *op,
                            mlir::FloatType type);

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_MEASUREDRANGES_H
