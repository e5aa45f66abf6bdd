//===- MpcCommunicationOps.h - collective ops -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCCOMMUNICATIONOPS_H
#define MPC_DIALECT_MPC_IR_MPCCOMMUNICATIONOPS_H

#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.h"

#include "mpc/Dialect/Mpc/IR/MpcCommunicationEnums.h.inc"
#include "mpc/Dialect/Mpc/IR/MpcCommunicationInterfaces.h.inc"

#define GET_OP_CLASSES
#include "mpc/Dialect/Mpc/IR/MpcCommunicationOps.h.inc"

#endif // MPC_DIALECT_MPC_IR_MPCCOMMUNICATIONOPS_H
