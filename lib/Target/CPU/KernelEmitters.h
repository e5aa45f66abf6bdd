//===- KernelEmitters.h - one emitter per kernel family ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An emitter reads a kernel on tensors (`kernel`, left alone) and fills the
// body of `impl`:
//   func.func private @k_impl(inputs: memref..., outputs: memref...,
//                             %begin: index, %end: index, %scratch:
//                             memref<?xi8>)
// in func, scf, memref, vector, arith and math. Its entry block and terminator
// exist; emitters insert before the terminator. Memrefs are contiguous and
// row-major with the tensor's shape and memoryElementType.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_KERNELEMITTERS_H
#define MPC_LIB_TARGET_CPU_KERNELEMITTERS_H

#include "mpc/Target/CPU/Codegen.h"

#include "../Kernel/KernelForm.h"

namespace mpc {

struct ContractionKernel;

/// Kernels around one contraction with an elementwise epilogue.
using ContractionFunction =
    mlir::FailureOr<EmittedKernel>(const ContractionKernel &kernel);
ContractionFunction emitProduct, emitConvolution, emitDepthwise,
    emitFilterGradient, emitAttention;
/// Everything else.
mlir::FailureOr<EmittedKernel> emitLoops(mlir::func::FuncOp kernel,
                                         mlir::func::FuncOp impl,
                                         const ElementTarget &target);
/// Writes the body of `impl` for `kernel`.
using KernelEmitter = llvm::function_ref<mlir::FailureOr<EmittedKernel>(
    mlir::func::FuncOp kernel, mlir::func::FuncOp impl)>;
/// lowerKernels with bodies that `emit` writes.
mlir::FailureOr<llvm::SmallVector<KernelInfo>>
lowerKernelsBy(mlir::ModuleOp kernels, KernelEmitter emit);

/// What the loops of this target are made of.
ElementTarget elementTarget(const CpuTarget &target);

} // namespace mpc

#endif // MPC_LIB_TARGET_CPU_KERNELEMITTERS_H
