//===- Codegen.h - GPU modules to CUDA C++ ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prints the gpu.module made by mpc-schedule-kernels and
// mpc-lower-kernels-to-gpu (Passes.h) as CUDA C++. Needs neither a GPU nor
// CUDA.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_CODEGEN_H
#define MPC_TARGET_CUDA_CODEGEN_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"

#include <array>
#include <string>

namespace mpc::cuda {

/// Name of the gpu.module that mpc-lower-kernels-to-gpu creates.
inline constexpr llvm::StringLiteral kCudaModuleName = "kernels";

/// Launch configuration of one kernel.
struct CudaKernelInfo {
  std::string name;
  std::array<int64_t, 3> blocks = {1, 1, 1};
  int64_t threads = 1;
  /// Dynamic shared memory per block, in bytes.
  int64_t sharedBytes = 0;
  /// Bytes of the scratch buffer passed after the outputs; 0 if there is none.
  /// Zero before the first launch; the kernel resets its counters to zero.
  int64_t scratchBytes = 0;
  /// Whether blocks wait for each other: needs a cooperative launch.
  bool cooperative = false;
};

/// Returns the kernels of `module`'s gpu.module, in order.
llvm::SmallVector<CudaKernelInfo> cudaKernels(mlir::ModuleOp module);

/// Prints one kernel as CUDA C++ that uses the prelude, preceded by a comment
/// with the names of the model's ops. Fails with a diagnostic at an op that
/// CUDA C++ cannot express.
mlir::LogicalResult emitCuda(mlir::gpu::GPUFuncOp kernel,
                             llvm::raw_ostream &os);

/// Prints all kernels of a gpu.module, separated by empty lines.
mlir::LogicalResult emitCuda(mlir::gpu::GPUModuleOp module,
                             llvm::raw_ostream &os);

} // namespace mpc::cuda

#endif // MPC_TARGET_CUDA_CODEGEN_H
