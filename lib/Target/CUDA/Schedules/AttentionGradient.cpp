//===- AttentionGradient.cpp - the gradient of attention ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionGradientKernel.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

namespace {
class AttentionGradientFamily : public KernelFamily {
public:
  StringRef name() const override { return "attention_gradient"; }

  std::optional<Schedule> schedule(func::FuncOp kernel,
                                   const CudaTarget &target) const override {
    AttentionGradientOp op = attentionGradientOf(kernel);
    if (!op)
      return std::nullopt;
    if (std::optional<Schedule> schedule =
            scheduleGradientMma(kernel, op, target))
      return schedule;
    return scheduleGradientFma(kernel, op);
  }

  LogicalResult emit(GpuKernel &kernel) const override {
    AttentionGradientKernel gradient(kernel,
                                     attentionGradientOf(kernel.kernel));
    return kernel.schedule.parameters.count("matrix_units")
               ? emitAttentionGradientByMma(gradient)
               : emitAttentionGradientByFma(gradient);
  }
};
} // namespace

std::unique_ptr<KernelFamily> cuda::createAttentionGradientFamily() {
  return std::make_unique<AttentionGradientFamily>();
}
