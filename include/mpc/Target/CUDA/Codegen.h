//===- Codegen.h - planned kernels to CUDA C++ ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The CUDA backend's seams: mpc-schedule-kernels and mpc-lower-kernels-to-gpu
// (Passes.h) make a gpu.module, this prints it. Needs neither a GPU nor CUDA.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_CODEGEN_H
#define MPC_TARGET_CUDA_CODEGEN_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"

#include <array>
#include <string>

namespace mpc {

/// The name of the gpu.module that mpc-lower-kernels-to-gpu makes.
inline constexpr llvm::StringLiteral kCudaModuleName = "kernels";

/// What a launch of one kernel needs.
struct CudaKernelInfo {
  std::string name;
  std::array<int64_t, 3> blocks = {1, 1, 1};
  int64_t threads = 1;
  /// Dynamic shared memory of a block.
  int64_t sharedBytes = 0;
  /// Bytes of the buffer that the kernel takes behind its outputs; 0: it takes
  /// none. Zero before the first launch; the kernel leaves its counters at
  /// zero.
  int64_t scratchBytes = 0;
  /// Whether its blocks wait for each other: all of them have to run at once.
  bool cooperative = false;
};

/// The kernels of `module`'s gpu.module, in order.
llvm::SmallVector<CudaKernelInfo> cudaKernels(mlir::ModuleOp module);

/// Prints one kernel as CUDA C++ in terms of the prelude, with a comment that
/// names the model's ops. Fails, with a diagnostic at the op, where an op has
/// no form in CUDA C++.
mlir::LogicalResult emitCuda(mlir::gpu::GPUFuncOp kernel,
                             llvm::raw_ostream &os);

/// All kernels of a gpu.module, separated by empty lines.
mlir::LogicalResult emitCuda(mlir::gpu::GPUModuleOp module,
                             llvm::raw_ostream &os);

} // namespace mpc

#endif // MPC_TARGET_CUDA_CODEGEN_H
