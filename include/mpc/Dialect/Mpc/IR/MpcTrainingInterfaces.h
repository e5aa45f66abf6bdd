//===- MpcTrainingInterfaces.h - interfaces of training ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCTRAININGINTERFACES_H
#define MPC_DIALECT_MPC_IR_MPCTRAININGINTERFACES_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.h.inc"

#endif // MPC_DIALECT_MPC_IR_MPCTRAININGINTERFACES_H
