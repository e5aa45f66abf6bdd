//===- Passes.h - passes into exe -------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Declarations and registration of the passes in Passes.td.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_EXE_TRANSFORMS_PASSES_H
#define MPC_DIALECT_EXE_TRANSFORMS_PASSES_H

#include "mpc/Dialect/Exe/IR/ExeOps.h"
#include "mpc/Dialect/Tile/IR/TileOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mpc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "mpc/Dialect/Exe/Transforms/Passes.h.inc"

} // namespace mpc

#endif // MPC_DIALECT_EXE_TRANSFORMS_PASSES_H
