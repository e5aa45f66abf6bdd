//===- StaticShapes.h - extents are known from Import on --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_STATICSHAPES_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_STATICSHAPES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

/// A diagnostic at the first argument or result of an op whose extents are not
/// all known: passes that count elements are for graphs with bound dimensions.
mlir::LogicalResult checkStaticShapes(mlir::func::FuncOp func);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_STATICSHAPES_H
