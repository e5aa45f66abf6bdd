//===- MpcFusionOps.h - fusion and its terminator ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCFUSIONOPS_H
#define MPC_DIALECT_MPC_IR_MPCFUSIONOPS_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#define GET_OP_CLASSES
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h.inc"

#endif // MPC_DIALECT_MPC_IR_MPCFUSIONOPS_H
