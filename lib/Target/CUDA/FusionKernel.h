//===- FusionKernel.h - a fusion as a kernel on tensors ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_FUSIONKERNEL_H
#define MPC_LIB_TARGET_CUDA_FUSIONKERNEL_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {
class FusionOp;
} // namespace mpc

namespace mpc::cuda {

/// On a producer whose blocks precede those of its consumer, which wait for
/// them; without it every block of the consumer computes the whole producer.
inline constexpr llvm::StringLiteral kAwaitedAttr = "mpc.awaited";

/// Creates a kernel that computes `fusion`, at the insertion point of
/// `builder`.
mlir::func::FuncOp kernelOf(FusionOp fusion, llvm::StringRef name,
                            mlir::OpBuilder &builder);

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_FUSIONKERNEL_H
