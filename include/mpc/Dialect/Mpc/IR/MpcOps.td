//===- MpcOps.td - all ops of mpc ---------------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The op families of models, for their documentation. Each family has a file and
// a C++ header of its own, so that a change rebuilds only its users.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCOPS
#define MPC_DIALECT_MPC_IR_MPCOPS

include "mpc/Dialect/Mpc/IR/MpcUnaryOps.td"
include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.td"
include "mpc/Dialect/Mpc/IR/MpcLogicOps.td"
include "mpc/Dialect/Mpc/IR/MpcCastOps.td"
include "mpc/Dialect/Mpc/IR/MpcContractionOps.td"
include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.td"
include "mpc/Dialect/Mpc/IR/MpcReductionOps.td"
include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.td"
include "mpc/Dialect/Mpc/IR/MpcShapeOps.td"
include "mpc/Dialect/Mpc/IR/MpcSliceOps.td"
include "mpc/Dialect/Mpc/IR/MpcIndexOps.td"
include "mpc/Dialect/Mpc/IR/MpcRecurrentOps.td"
include "mpc/Dialect/Mpc/IR/MpcConstantOps.td"
include "mpc/Dialect/Mpc/IR/MpcFusionOps.td"

#endif // MPC_DIALECT_MPC_IR_MPCOPS
