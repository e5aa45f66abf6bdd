//===- FusionKernel.h - a fusion as a kernel on tensors ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_FUSIONKERNEL_H
#define MPC_LIB_TARGET_CUDA_FUSIONKERNEL_H

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

/// A kernel that does what `fusion` does, where `builder` stands.
mlir::func::FuncOp kernelOf(FusionOp fusion, llvm::StringRef name,
                            mlir::OpBuilder &builder);

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_FUSIONKERNEL_H
