//===- KernelAttributes.h - function attributes of the printer --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attributes of a gpu.func that describe its arguments to the printer.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_EMIT_KERNELATTRIBUTES_H
#define MPC_LIB_TARGET_CUDA_EMIT_KERNELATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace mpc::cuda {

/// Number of leading read-only arguments.
inline constexpr llvm::StringLiteral kInputsAttr = "mpc.inputs";
/// Bytes of the last argument, if it is a scratch buffer.
inline constexpr llvm::StringLiteral kScratchAttr = "mpc.scratch";
/// Bytes of dynamic shared memory per block.
inline constexpr llvm::StringLiteral kDynamicSharedAttr = "mpc.dynamic_shared";
/// Whether indices may need 64 bits.
inline constexpr llvm::StringLiteral kIndex64Attr = "mpc.index64";
/// On a part of a kernel: the kernel, and its arguments and results that are
/// the part's.
inline constexpr llvm::StringLiteral kFusedPartAttr = "mpc.fused_part";

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_EMIT_KERNELATTRIBUTES_H
