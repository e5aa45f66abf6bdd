//===- Convolution.cpp - convolutions by implicit GEMM --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implicit GEMM on the main loop of Gemm.cpp: tiles of the im2col matrix are
// gathered from the input by address computation.
//
//===----------------------------------------------------------------------===//

#include "ConvolutionDepthwise.h"

using namespace mlir;
using namespace mpc;

namespace {
class ConvolutionFamily : public KernelFamily {
public:
  StringRef name() const override { return "convolution"; }
  std::optional<Schedule> schedule(func::FuncOp kernel,
                                   const CudaTarget &target) const override {
    return scheduleBy(kernel, target, [&](const FusedGemm &problem) {
      return scheduleGemm(kernel, problem, GemmTiles::choose(problem, target));
    });
  }
  std::optional<Schedule> scheduleAs(func::FuncOp kernel,
                                     const CudaTarget &target,
                                     const Schedule &given) const override {
    return scheduleBy(kernel, target, [&](const FusedGemm &problem) {
      return scheduleGemmAs(kernel, problem, target, given);
    });
  }
  LogicalResult emit(GpuKernel &kernel) const override {
    std::optional<FusedGemm> problem =
        FusedGemm::convolution(kernel.kernel, kernel.target);
    if (!problem)
      return failure();
    return kernel.schedule.parameters.contains("depthwise")
               ? emitDepthwise(kernel, *problem)
               : emitGemm(kernel, *problem);
  }

private:
  /// `ofProduct` schedules the implicit GEMM, unless it is depthwise.
  static std::optional<Schedule>
  scheduleBy(func::FuncOp kernel, const CudaTarget &target,
             llvm::function_ref<std::optional<Schedule>(const FusedGemm &)>
                 ofProduct) {
    std::optional<FusedGemm> problem = FusedGemm::convolution(kernel, target);
    if (!problem)
      return std::nullopt;
    if (std::optional<Schedule> schedule =
            scheduleDepthwise(kernel, *problem, target))
      return schedule;
    // Implicit GEMM does not support global pooling.
    return problem->pool.op ? std::nullopt : ofProduct(*problem);
  }
};
} // namespace

std::unique_ptr<KernelFamily> mpc::createConvolutionFamily() {
  return std::make_unique<ConvolutionFamily>();
}
