//===- MpcOptimizerOps.h - updates and loss scales --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCOPTIMIZEROPS_H
#define MPC_DIALECT_MPC_IR_MPCOPTIMIZEROPS_H

#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.h"

#define GET_OP_CLASSES
#include "mpc/Dialect/Mpc/IR/MpcOptimizerOps.h.inc"

#endif // MPC_DIALECT_MPC_IR_MPCOPTIMIZEROPS_H
