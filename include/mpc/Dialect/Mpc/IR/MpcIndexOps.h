//===- MpcIndexOps.h - gather, scatter, one_hot, iota -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCINDEXOPS_H
#define MPC_DIALECT_MPC_IR_MPCINDEXOPS_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#define GET_OP_CLASSES
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h.inc"

#endif // MPC_DIALECT_MPC_IR_MPCINDEXOPS_H
