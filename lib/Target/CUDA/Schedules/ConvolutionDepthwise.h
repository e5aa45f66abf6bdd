//===- ConvolutionDepthwise.h - a filter for each channel -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_CONVOLUTIONDEPTHWISE_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_CONVOLUTIONDEPTHWISE_H

#include "Gemm.h"

namespace mpc {

/// The schedule of a convolution in which every output channel reads one input
/// channel: a thread sums some channels of one pixel. nullopt where `kernel` is
/// none.
std::optional<Schedule> scheduleDepthwise(mlir::func::FuncOp kernel,
                                          const GemmProblem &problem);
/// Its body.
mlir::LogicalResult emitDepthwise(GpuKernel &kernel,
                                  const GemmProblem &problem);

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_CONVOLUTIONDEPTHWISE_H
