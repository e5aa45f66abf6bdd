//===- MpcShapeOps.h - reshape, transpose, broadcast ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCSHAPEOPS_H
#define MPC_DIALECT_MPC_IR_MPCSHAPEOPS_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#define GET_OP_CLASSES
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h.inc"

#endif // MPC_DIALECT_MPC_IR_MPCSHAPEOPS_H
