//===- ScheduleKernels.cpp - schedule selection for GPU kernels -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The first kernel family that accepts a kernel schedules it. Runs after
// mpc-plan; mpc-lower-kernels-to-gpu generates code from the schedules.
//
//===----------------------------------------------------------------------===//

#include "Schedules/Schedule.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"
#include "mpc/Dialect/Exe/IR/InPlace.h"
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
    for (auto kernel : module.getOps<func::FuncOp>())
      if (kernel->hasAttr(MpcDialect::kKernelKindAttr) &&
          !kernel.isExternal() &&
          failed(kernel->hasAttr(exe::kScheduleAttr)
                     ? checkSchedule(kernel, *architecture)
                     : schedule(kernel, *architecture)))
        return signalPassFailure();
  }

private:
  static LogicalResult schedule(func::FuncOp kernel,
                                const CudaTarget &architecture) {
    // Only the update family supports scalar results that alias an input of all
    // blocks.
    auto kind =
        kernel->getAttrOfType<FusionKindAttr>(MpcDialect::kKernelKindAttr);
    bool renewsInPlace = kind && kind.getValue() == FusionKind::update &&
                         kernel->hasAttr(exe::kInPlaceAttr);
    for (const auto &family : kernelFamilies()) {
      if (renewsInPlace && family->name() != "update")
        continue;
      if (std::optional<Schedule> schedule =
              family->schedule(kernel, architecture)) {
        schedule->family = family->name().str();
        kernel->setAttr(exe::kScheduleAttr,
                        schedule->toAttribute(kernel.getContext()));
        return success();
      }
    }
    return kernel.emitError()
           << "kernel '" << kernel.getName() << "' has no form on "
           << architecture.target().name();
  }
};
} // namespace
