//===- KernelComment.h - comment above a kernel's CUDA text -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_EMIT_KERNELCOMMENT_H
#define MPC_LIB_TARGET_CUDA_EMIT_KERNELCOMMENT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace mpc::cuda {

/// Function attribute with the comment printed above a kernel; lines are
/// separated by '\n'.
inline constexpr llvm::StringLiteral kDescriptionAttr = "mpc.description";

/// Lists the ops that `kernel` fuses, with their names in the model, and the
/// types of its arguments and results.
std::string describeKernel(mlir::func::FuncOp kernel);

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_EMIT_KERNELCOMMENT_H
