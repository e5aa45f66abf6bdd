//===- MeasuredRanges.h - ranges that samples showed ------------*- C++ -*-===//
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

/// What samples showed of `value`, whose op is known by its kind where it has
/// no name; null where they showed nothing.
const MeasuredRange *measuredRange(const Policy &policy, mlir::Value value);

/// Where `policy` knows of a sample in which `value` overflows `type`, that in
/// a sentence: "'x' reaches 1e+05 in sample 'a.npz', which f16 rounds to inf".
/// Where samples showed nothing of `value`, whether the model's constants put
/// it out of range: what is added to a product or scales the sum. Else empty.
std::string measuredOverflow(const Policy &policy, mlir::Value value,
                             mlir::FloatType type);

/// The same of what `op` reads or makes in `type` where it computes in that;
/// the result of a contraction is f32. Constants are not looked at.
std::string samplesOverflow(const Policy &policy, mlir::Operation *op,
                            mlir::FloatType type);

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_MEASUREDRANGES_H
