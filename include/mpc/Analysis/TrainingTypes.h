//===- TrainingTypes.h - types fixed by training ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_TRAININGTYPES_H
#define MPC_ANALYSIS_TRAININGTYPES_H

#include "mlir/IR/Value.h"

namespace mpc {

/// Returns true if a policy may change the type of the result. Running
/// statistics and results of updates are excluded.
bool isPrecisionResult(mlir::Value result);

} // namespace mpc

#endif // MPC_ANALYSIS_TRAININGTYPES_H
