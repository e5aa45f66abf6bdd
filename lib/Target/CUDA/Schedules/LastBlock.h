//===- LastBlock.h - what the last of several blocks does -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_LASTBLOCK_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_LASTBLOCK_H

#include "Schedule.h"

namespace mpc {

/// `body` in the last of `count` blocks to come here, which sees what all of
/// them have written before. Blocks count themselves at `counter` of `counters`
/// (i32, zero at first), which is zero again for the next launch. All threads
/// of a block come here; all of the last one run `body`.
mlir::LogicalResult inLastBlock(GpuBody &kernel, mlir::Value counters,
                                mlir::Value counter, int64_t count,
                                llvm::function_ref<mlir::LogicalResult()> body);

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_LASTBLOCK_H
