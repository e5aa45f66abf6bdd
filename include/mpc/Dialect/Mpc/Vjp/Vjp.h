//===- Vjp.h - derivatives of the mpc ops -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models of VjpOpInterface. Differentiation itself:
// mpc/Dialect/Mpc/Training/Differentiate.h.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_VJP_VJP_H
#define MPC_DIALECT_MPC_VJP_VJP_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

namespace mpc {

/// Attaches VjpOpInterface to every differentiable op when the dialect loads.
void registerVjpModels(mlir::DialectRegistry &registry);

/// Names of ops without a derivative: ops without float operands or results,
/// and ops of the end of a step (optimizers), of backward passes or of later
/// stages. Recurrent ops are unrolled or split first.
llvm::ArrayRef<llvm::StringRef> nonDifferentiableOps();

} // namespace mpc

#endif // MPC_DIALECT_MPC_VJP_VJP_H
