//===- MpcLogicOps.h - comparison, selection, bits --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCLOGICOPS_H
#define MPC_DIALECT_MPC_IR_MPCLOGICOPS_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#define GET_OP_CLASSES
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h.inc"

#endif // MPC_DIALECT_MPC_IR_MPCLOGICOPS_H
