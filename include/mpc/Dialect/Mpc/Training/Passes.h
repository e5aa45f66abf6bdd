//===- Passes.h - passes from a model to a training step --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Declarations and registration of the passes in Passes.td.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRAINING_PASSES_H
#define MPC_DIALECT_MPC_TRAINING_PASSES_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace mpc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "mpc/Dialect/Mpc/Training/Passes.h.inc"

} // namespace mpc

#endif // MPC_DIALECT_MPC_TRAINING_PASSES_H
