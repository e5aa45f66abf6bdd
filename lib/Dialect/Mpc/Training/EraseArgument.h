//===- EraseArgument.h - remove an argument of a step -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRAINING_ERASEARGUMENT_H
#define MPC_LIB_DIALECT_MPC_TRAINING_ERASEARGUMENT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

/// Erases an unused argument, and updates the indices of later arguments in
/// `mpc.alias`.
void eraseArgument(mlir::func::FuncOp function, unsigned number);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRAINING_ERASEARGUMENT_H
