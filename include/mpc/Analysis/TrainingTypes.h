//===- TrainingTypes.h - types that training fixes --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_TRAININGTYPES_H
#define MPC_ANALYSIS_TRAININGTYPES_H

#include "mlir/IR/Value.h"

namespace mpc {

/// Whether a policy may give the result another type. Running statistics and
/// what updates write stay as they are.
bool isPrecisionResult(mlir::Value result);

} // namespace mpc

#endif // MPC_ANALYSIS_TRAININGTYPES_H
