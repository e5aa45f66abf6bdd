//===- MpcPackOps.h - packing and quantization ops --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCPACKOPS_H
#define MPC_DIALECT_MPC_IR_MPCPACKOPS_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#define GET_OP_CLASSES
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h.inc"

#endif // MPC_DIALECT_MPC_IR_MPCPACKOPS_H
