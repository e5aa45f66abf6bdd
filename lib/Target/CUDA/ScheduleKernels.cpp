//===- ScheduleKernels.cpp - schedule selection for GPU kernels -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The first kernel family that accepts a kernel schedules it. Runs after
// mpc-plan; mpc-lower-kernels-to-gpu generates code from the schedules.
//
//===----------------------------------------------------------------------===//

#include "Plan/KernelPlan.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"
#include "mpc/Target/CUDA/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mpc {
#define GEN_PASS_DEF_SCHEDULEKERNELSPASS
#include "mpc/Target/CUDA/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

namespace {
struct ScheduleKernelsPass
    : mpc::impl::ScheduleKernelsPassBase<ScheduleKernelsPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<CudaTarget> architecture = cudaTargetOf(module);
    if (failed(architecture))
      return signalPassFailure();
    auto &plans = getAnalysis<KernelPlans>();
    for (auto kernel : module.getOps<func::FuncOp>())
      if (kernel->hasAttr(MpcDialect::kKernelKindAttr) &&
          !kernel.isExternal() && failed(plans.plan(kernel, *architecture)))
        return signalPassFailure();
    markAnalysesPreserved<KernelPlans>();
  }
};
} // namespace
