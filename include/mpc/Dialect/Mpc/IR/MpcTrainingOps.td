//===- MpcTrainingOps.td - ops of training steps ------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All ops that only training needs; their classes are generated apart from the
// other ops (MpcTrainingOps.h).
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCTRAININGOPS
#define MPC_DIALECT_MPC_IR_MPCTRAININGOPS

include "mpc/Dialect/Mpc/IR/MpcLossOps.td"
include "mpc/Dialect/Mpc/IR/MpcGradientOps.td"
include "mpc/Dialect/Mpc/IR/MpcOptimizerOps.td"

#endif // MPC_DIALECT_MPC_IR_MPCTRAININGOPS
