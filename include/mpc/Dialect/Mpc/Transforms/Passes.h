//===- Passes.h - passes from mpc to mpc ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Declarations and registration of the passes in Passes.td.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRANSFORMS_PASSES_H
#define MPC_DIALECT_MPC_TRANSFORMS_PASSES_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Policy/NamedPolicy.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace mpc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"

/// Adds the fusion passes for functions: mpc-prepare-fusion,
/// mpc-select-fusion-groups, mpc-fuse-horizontal and mpc-outline-fusions.
void addFusionPasses(mlir::OpPassManager &functions,
                     const SelectFusionGroupsPassOptions &options = {});

/// Registers them as the pipeline mpc-fuse, with the options of
/// mpc-select-fusion-groups.
void registerFusionPipeline();

} // namespace mpc

#endif // MPC_DIALECT_MPC_TRANSFORMS_PASSES_H
