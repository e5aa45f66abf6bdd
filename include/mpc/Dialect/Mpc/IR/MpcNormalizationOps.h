//===- MpcNormalizationOps.h - softmax and normalization --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCNORMALIZATIONOPS_H
#define MPC_DIALECT_MPC_IR_MPCNORMALIZATIONOPS_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#define GET_OP_CLASSES
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h.inc"

#endif // MPC_DIALECT_MPC_IR_MPCNORMALIZATIONOPS_H
