//===- MpcSliceOps.h - concat, slice, pad, reverse --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCSLICEOPS_H
#define MPC_DIALECT_MPC_IR_MPCSLICEOPS_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#define GET_OP_CLASSES
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h.inc"

#endif // MPC_DIALECT_MPC_IR_MPCSLICEOPS_H
