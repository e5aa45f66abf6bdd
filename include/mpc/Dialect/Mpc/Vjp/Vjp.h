//===- Vjp.h - derivatives of the mpc ops -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The models of VjpOpInterface. The walk that uses them:
// mpc/Dialect/Mpc/Training/Differentiate.h.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_VJP_VJP_H
#define MPC_DIALECT_MPC_VJP_VJP_H

#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"

namespace mpc {

/// Attaches VjpOpInterface to every differentiable op when the dialect loads.
void registerVjpModels(mlir::DialectRegistry &registry);

/// Names of the ops that have no derivative: nothing float goes in or comes
/// out, or they belong to a step's end (optimizers), to a backward pass or to
/// later stages. Recurrent ops are unrolled or split first.
llvm::ArrayRef<llvm::StringRef> nonDifferentiableOps();

} // namespace mpc

#endif // MPC_DIALECT_MPC_VJP_VJP_H
