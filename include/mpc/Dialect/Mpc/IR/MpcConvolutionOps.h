//===- MpcConvolutionOps.h - convolution and pooling ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCCONVOLUTIONOPS_H
#define MPC_DIALECT_MPC_IR_MPCCONVOLUTIONOPS_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#define GET_OP_CLASSES
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h.inc"

#endif // MPC_DIALECT_MPC_IR_MPCCONVOLUTIONOPS_H
