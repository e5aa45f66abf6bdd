//===- MpcUnaryOps.h - unary elementwise functions --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCUNARYOPS_H
#define MPC_DIALECT_MPC_IR_MPCUNARYOPS_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#define GET_OP_CLASSES
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h.inc"

#endif // MPC_DIALECT_MPC_IR_MPCUNARYOPS_H
