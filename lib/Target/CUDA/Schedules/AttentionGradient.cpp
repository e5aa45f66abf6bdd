//===- AttentionGradient.cpp - the gradient of attention ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionGradientKernel.h"
#include "KernelPlan.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

namespace {
class AttentionGradientPlan : public KernelPlan {
public:
  AttentionGradientPlan(func::FuncOp kernel, const CudaTarget &target,
                        AttentionGradientOp op)
      : KernelPlan(kernel, target), op(op) {}

  std::optional<Schedule> schedule() const override {
    std::optional<Schedule> schedule = scheduleGradientMma(kernel, op, target);
    return schedule ? schedule : scheduleGradientFma(kernel, op);
  }

  LogicalResult emit(GpuKernel &gpuKernel) const override {
    AttentionGradientKernel gradient(gpuKernel, op);
    return gradient.parameters.matrixUnits
               ? emitAttentionGradientByMma(gradient)
               : emitAttentionGradientByFma(gradient);
  }

private:
  AttentionGradientOp op;
};
} // namespace

std::unique_ptr<KernelPlan>
cuda::planAttentionGradient(func::FuncOp kernel, const CudaTarget &target) {
  AttentionGradientOp op = attentionGradientOf(kernel);
  return op ? std::make_unique<AttentionGradientPlan>(kernel, target, op)
            : nullptr;
}
