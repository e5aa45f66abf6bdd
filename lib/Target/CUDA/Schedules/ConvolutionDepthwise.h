//===- ConvolutionDepthwise.h - a filter for each channel -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_CONVOLUTIONDEPTHWISE_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_CONVOLUTIONDEPTHWISE_H

#include "ConvolutionShape.h"
#include "Gemm.h"

namespace mpc {

/// Threads of a block.
inline constexpr int64_t kDepthwiseThreads = 128;

/// The schedule of a convolution in which every output channel reads one input
/// channel: a thread sums some channels of one pixel. nullopt where `kernel` is
/// none.
std::optional<Schedule> scheduleDepthwise(mlir::func::FuncOp kernel,
                                          const GemmProblem &problem,
                                          const CudaTarget &target);
/// Its body.
mlir::LogicalResult emitDepthwise(GpuKernel &kernel,
                                  const GemmProblem &problem);

/// The sums over the window of `lanes` channels from `column` on at output
/// `pixel` [n, d, h, w].
mlir::FailureOr<mlir::Value> sumDepthwise(GpuKernel &kernel, ConvOp op,
                                          const ConvolutionShape &shape,
                                          llvm::ArrayRef<mlir::Value> pixel,
                                          mlir::Value column, int64_t lanes);

// ConvolutionPooled.cpp: the same with a sum or mean over each image.
void schedulePooled(const ConvolutionShape &shape, const CudaTarget &target,
                    Schedule &schedule);
mlir::LogicalResult emitPooled(GpuKernel &kernel, const GemmProblem &problem,
                               const ConvolutionShape &shape,
                               const GemmEpilogue &epilogue);

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_CONVOLUTIONDEPTHWISE_H
