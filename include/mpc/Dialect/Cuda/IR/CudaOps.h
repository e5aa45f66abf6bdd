//===- CudaOps.h - the cuda dialect -----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_CUDA_IR_CUDAOPS_H
#define MPC_DIALECT_CUDA_IR_CUDAOPS_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "mpc/Dialect/Cuda/IR/CudaDialect.h.inc"

#define GET_OP_CLASSES
#include "mpc/Dialect/Cuda/IR/CudaOps.h.inc"

#endif // MPC_DIALECT_CUDA_IR_CUDAOPS_H
