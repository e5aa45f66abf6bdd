//===- ConvolutionDepthwise.h - depthwise convolutions ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_CONVOLUTION_CONVOLUTIONDEPTHWISE_H
#define MPC_LIB_TARGET_CUDA_CONVOLUTION_CONVOLUTIONDEPTHWISE_H

#include "../Gemm/Gemm.h"
#include "ConvolutionShape.h"

namespace mpc {
class ConvOp;
} // namespace mpc

namespace mpc::cuda {

/// Threads per block.
inline constexpr int64_t kDepthwiseThreads = 128;

/// Parameters of a depthwise convolution: channels per thread; with global
/// pooling, rows of pixels per thread.
struct DepthwiseSchedule {
  int64_t depthwise = 1, lanes = 1, steps = 0;

  static void map(auto &schedule, auto field) {
    field("depthwise", schedule.depthwise);
    field("lanes", schedule.lanes);
    field("steps", schedule.steps, 0);
  }
};

/// Plans a depthwise convolution (one input channel per output channel): a
/// thread computes some channels of one pixel. Returns null for others; takes
/// the problem otherwise.
std::unique_ptr<KernelPlan> planDepthwise(mlir::func::FuncOp kernel,
                                          const CudaTarget &target,
                                          FusedGemm &problem);

/// Accumulates the window for `lanes` channels from `column` on at output
/// `pixel` [n, d, h, w].
mlir::FailureOr<mlir::Value> sumDepthwise(GpuKernel &kernel, ConvOp op,
                                          const ConvolutionShape &shape,
                                          llvm::ArrayRef<mlir::Value> pixel,
                                          mlir::Value column, int64_t lanes);

// DepthwisePooling.cpp: the same with fused global pooling.
void schedulePooled(const ConvolutionShape &shape, const CudaTarget &target,
                    DepthwiseSchedule &parameters, Schedule &schedule);
mlir::LogicalResult emitPooled(GpuKernel &kernel, const FusedGemm &problem,
                               const ConvolutionShape &shape,
                               const GemmEpilogue &epilogue);

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_CONVOLUTION_CONVOLUTIONDEPTHWISE_H
