//===- MpcConstantOps.h - constant tensors ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCCONSTANTOPS_H
#define MPC_DIALECT_MPC_IR_MPCCONSTANTOPS_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#define GET_OP_CLASSES
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h.inc"

#endif // MPC_DIALECT_MPC_IR_MPCCONSTANTOPS_H
