//===- ConvolutionDepthwise.h - depthwise convolutions ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_CONVOLUTIONDEPTHWISE_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_CONVOLUTIONDEPTHWISE_H

#include "ConvolutionShape.h"
#include "Gemm.h"

namespace mpc {
class ConvOp;
} // namespace mpc

namespace mpc::cuda {

/// Threads per block.
inline constexpr int64_t kDepthwiseThreads = 128;

/// Schedules a depthwise convolution (one input channel per output channel): a
/// thread computes some channels of one pixel. Returns nullopt for others.
std::optional<Schedule> scheduleDepthwise(mlir::func::FuncOp kernel,
                                          const FusedGemm &problem,
                                          const CudaTarget &target);
/// Generates the kernel's body.
mlir::LogicalResult emitDepthwise(GpuKernel &kernel, const FusedGemm &problem);

/// Accumulates the window for `lanes` channels from `column` on at output
/// `pixel` [n, d, h, w].
mlir::FailureOr<mlir::Value> sumDepthwise(GpuKernel &kernel, ConvOp op,
                                          const ConvolutionShape &shape,
                                          llvm::ArrayRef<mlir::Value> pixel,
                                          mlir::Value column, int64_t lanes);

// DepthwisePooling.cpp: the same with fused global pooling.
void schedulePooled(const ConvolutionShape &shape, const CudaTarget &target,
                    Schedule &schedule);
mlir::LogicalResult emitPooled(GpuKernel &kernel, const FusedGemm &problem,
                               const ConvolutionShape &shape,
                               const GemmEpilogue &epilogue);

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_CONVOLUTIONDEPTHWISE_H
