//===- AloneKernel.h - how a fusion runs by itself --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a fusion's kernel takes of a GPU, before it is one.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_ALONEKERNEL_H
#define MPC_LIB_TARGET_CUDA_ALONEKERNEL_H

#include "CudaMachine.h"
#include "Schedules/Schedule.h"

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

namespace mpc {

struct AloneKernel {
  /// nullopt where the kernel has to have a launch of its own.
  static std::optional<AloneKernel> of(FusionOp fusion,
                                       const CudaTarget &architecture);
  AloneKernel(FusionKind kind, Schedule schedule);

  int64_t blocks() const {
    return schedule.blocks[0] * schedule.blocks[1] * schedule.blocks[2];
  }

  Schedule schedule;
  /// Of a thread, roughly.
  int64_t registers;
  /// The kernel on tensors and the module around it, which tells the target.
  mlir::func::FuncOp kernel = {};
  mlir::OwningOpRef<mlir::ModuleOp> module = {};
};

/// What the blocks of one launch take, each of the part that needs most.
struct BlockNeeds {
  int64_t threads = 0, shared = 0, registers = 0;

  void add(const AloneKernel &part);
  /// Whether the architecture has such blocks at all: static arrays become
  /// parts of the dynamic memory.
  bool fit(const CudaTarget &architecture) const;
  /// Blocks that a multiprocessor has at once.
  int64_t resident(const CudaMachine &machine) const;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_ALONEKERNEL_H
