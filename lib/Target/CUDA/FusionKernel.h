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

/// How a kernel of several runs what one of its parts makes for another: each
/// block all of it; or the block of the same number, which makes what that
/// block reads; or before the blocks of the other, which wait.
enum class LeadKind { whole, tile, before };

/// Of the part that makes, its name; none: whole.
inline constexpr llvm::StringLiteral kLeadAttr = "mpc.lead";

llvm::StringRef stringifyLead(LeadKind kind);
std::optional<LeadKind> symbolizeLead(llvm::StringRef name);

/// A kernel that does what `fusion` does, where `builder` stands.
mlir::func::FuncOp kernelOf(FusionOp fusion, llvm::StringRef name,
                            mlir::OpBuilder &builder);

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_FUSIONKERNEL_H
