//===- StaticShapes.h - check for static shapes -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_STATICSHAPES_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_STATICSHAPES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

/// Emits an error at the first argument or op result with a dynamic shape, for
/// passes that count elements.
mlir::LogicalResult checkStaticShapes(mlir::func::FuncOp func);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_STATICSHAPES_H
