//===- KernelResources.h - resources of a kernel ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Resource estimate (blocks, threads, shared memory, registers) of a fusion
// compiled as a separate kernel.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_KERNELRESOURCES_H
#define MPC_LIB_TARGET_CUDA_KERNELRESOURCES_H

#include "MultiprocessorModel.h"
#include "Plan/Schedule.h"

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

namespace mpc {
class FusionOp;
} // namespace mpc

namespace mpc::cuda {

struct KernelResources {
  /// Returns nullopt if the kernel cannot share a launch.
  static std::optional<KernelResources> of(FusionOp fusion,
                                           const CudaTarget &architecture);
  KernelResources(FusionKind kind, Schedule schedule);

  int64_t blocks() const {
    return schedule.blocks[0] * schedule.blocks[1] * schedule.blocks[2];
  }

  Schedule schedule;
  /// Estimated registers per thread.
  int64_t registers;
  /// The kernel on tensors, and its module, which holds the target.
  mlir::func::FuncOp kernel = {};
  mlir::OwningOpRef<mlir::ModuleOp> module = {};
};

/// Resources per block of a horizontally fused launch: the maximum over its
/// parts.
struct BlockResources {
  int64_t threads = 0, shared = 0, registers = 0;

  void add(const KernelResources &part);
  /// Returns true if the architecture supports such blocks; static arrays
  /// become part of the dynamic shared memory.
  bool fit(const CudaTarget &architecture) const;
  /// Resident blocks per multiprocessor.
  int64_t resident(const MultiprocessorModel &machine) const;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_KERNELRESOURCES_H
