//===- ScheduleCpuKernels.cpp - schedules of contractions -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Assigns a schedule to each contraction, after mpc-plan and before code
// generation.
//
//===----------------------------------------------------------------------===//

#include "ContractionBlocking.h"

#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Target/CPU/Passes.h"

namespace mpc {
#define GEN_PASS_DEF_SCHEDULECPUKERNELSPASS
#include "mpc/Target/CPU/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

static LogicalResult schedule(func::FuncOp kernel, const CpuTarget &target) {
  Attribute given = kernel->getAttr(exe::kScheduleAttr);
  auto blocks = dyn_cast_or_null<tile::BlocksAttr>(given);
  if (given && !blocks)
    return kernel.emitError() << "kernel '" << kernel.getName() << "' has the "
                              << exe::kScheduleAttr << " " << given
                              << "; CPU kernels need #tile.blocks";
  FailureOr<Operation *> anchor = Contraction::find(kernel);
  if (failed(anchor))
    return failure();
  if (given && !*anchor)
    return kernel.emitError()
           << "kernel '" << kernel.getName() << "' has the "
           << exe::kScheduleAttr << " " << given
           << ", which blocks a contraction, but the kernel has none";
  // Nothing to schedule.
  if (!*anchor || elementCount((*anchor)->getResult(0)) == 0)
    return success();
  FailureOr<Contraction> contraction = Contraction::get(*anchor, target);
  if (failed(contraction))
    return failure();
  if (!given) {
    kernel->setAttr(exe::kScheduleAttr, chooseBlocks(*contraction));
    return success();
  }
  return checkBlocks(*contraction, blocks);
}

namespace {
struct ScheduleCpuKernelsPass
    : mpc::impl::ScheduleCpuKernelsPassBase<ScheduleCpuKernelsPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    TargetInfo target = exe::targetOf(module);
    std::optional<CpuTarget> level = CpuTarget::of(target);
    if (!level) {
      module.emitError() << "CPU schedules need a CPU target, not '"
                         << target.name() << "'";
      return signalPassFailure();
    }
    for (auto kernel : module.getOps<func::FuncOp>())
      if (kernel->hasAttr(MpcDialect::kKernelKindAttr) &&
          !kernel.isExternal() && failed(schedule(kernel, *level)))
        return signalPassFailure();
  }
};
} // namespace
