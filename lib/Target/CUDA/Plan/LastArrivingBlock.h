//===- LastArrivingBlock.h - last-arriving block ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_PLAN_LASTARRIVINGBLOCK_H
#define MPC_LIB_TARGET_CUDA_PLAN_LASTARRIVINGBLOCK_H

#include "Schedule.h"

namespace mpc::cuda {

/// Emits `body` for the last of `count` blocks to arrive, which sees all of
/// their earlier writes. Blocks arrive at counter `counter` of `counters` (i32,
/// initially zero), which is reset for the next launch. Must be reached by all
/// threads of a block; all threads of the last block run `body`.
mlir::LogicalResult inLastBlock(GpuBody &kernel, mlir::Value counters,
                                mlir::Value counter, int64_t count,
                                llvm::function_ref<mlir::LogicalResult()> body);

/// Returns load(0) + ... + load(count - 1), in this order.
mlir::Value addParts(GpuBody &kernel, int64_t count,
                     llvm::function_ref<mlir::Value(mlir::Value part)> load);

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_PLAN_LASTARRIVINGBLOCK_H
