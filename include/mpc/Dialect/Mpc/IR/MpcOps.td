//===- MpcOps.td - all ops of mpc ---------------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The op families, one file each.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCOPS
#define MPC_DIALECT_MPC_IR_MPCOPS

include "mpc/Dialect/Mpc/IR/MpcElementwiseOps.td"
include "mpc/Dialect/Mpc/IR/MpcContractionOps.td"
include "mpc/Dialect/Mpc/IR/MpcReductionOps.td"
include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.td"
include "mpc/Dialect/Mpc/IR/MpcTensorOps.td"
include "mpc/Dialect/Mpc/IR/MpcRecurrentOps.td"
include "mpc/Dialect/Mpc/IR/MpcStructureOps.td"

#endif // MPC_DIALECT_MPC_IR_MPCOPS
