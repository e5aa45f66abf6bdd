//===- KernelAttributes.h - what lowering tells the printer -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attributes of a gpu.func, by which its printer knows its arguments.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_EMIT_KERNELATTRIBUTES_H
#define MPC_LIB_TARGET_CUDA_EMIT_KERNELATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace mpc {

/// The number of leading arguments that are only read.
inline constexpr llvm::StringLiteral kInputsAttr = "mpc.inputs";
/// The bytes of the last argument, where it is a scratch buffer.
inline constexpr llvm::StringLiteral kScratchAttr = "mpc.scratch";
/// The bytes of a block's dynamic shared memory.
inline constexpr llvm::StringLiteral kDynamicSharedAttr = "mpc.dynamic_shared";
/// Whether 32 bits may be too few for an index.
inline constexpr llvm::StringLiteral kIndex64Attr = "mpc.index64";
/// Of a part of a kernel: the kernel, and which of its arguments and results
/// are the part's.
inline constexpr llvm::StringLiteral kPartAttr = "mpc.part";

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_EMIT_KERNELATTRIBUTES_H
