//===- MpcTrainingOps.td - ops of training steps ------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The op families that only training needs, for their documentation.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCTRAININGOPS
#define MPC_DIALECT_MPC_IR_MPCTRAININGOPS

include "mpc/Dialect/Mpc/IR/MpcLossOps.td"
include "mpc/Dialect/Mpc/IR/MpcGradientOps.td"
include "mpc/Dialect/Mpc/IR/MpcOptimizerOps.td"

#endif // MPC_DIALECT_MPC_IR_MPCTRAININGOPS
