//===- Passes.td - passes from mpc to mpc -------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One file per stage.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRANSFORMS_PASSES
#define MPC_DIALECT_MPC_TRANSFORMS_PASSES

include "mpc/Dialect/Mpc/Transforms/SimplifyPasses.td"
include "mpc/Dialect/Mpc/Transforms/PrecisionPasses.td"
include "mpc/Dialect/Mpc/Transforms/PadPasses.td"
include "mpc/Dialect/Mpc/Transforms/LayoutPasses.td"
include "mpc/Dialect/Mpc/Transforms/FusePasses.td"
include "mpc/Dialect/Mpc/Transforms/RankPasses.td"

#endif // MPC_DIALECT_MPC_TRANSFORMS_PASSES
