//===- KernelResources.cpp - resources of a kernel ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelResources.h"

#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"

#include "FusionKernel.h"
#include "Gemm/Gemm.h"
#include "Plan/KernelPlan.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Estimated registers per thread, before code exists: those of a GEMM besides
/// accumulators and fragments, per accumulator element (with its share of
/// fragments), and of other kernels at most.
static constexpr int64_t kAddressRegisters = 56, kRegistersOfSum = 2,
                         kOtherRegisters = 128;

static int64_t registersOf(FusionKind kind, const Schedule &schedule) {
  if (kind == FusionKind::attention)
    return MultiprocessorModel::kThreadRegisters;
  auto tiles = schedule.get<GemmTiles>();
  if (tiles.m == 0)
    return kOtherRegisters;
  int64_t sums = tiles.m * tiles.n / schedule.threads;
  return std::min(kAddressRegisters + kRegistersOfSum * sums,
                  MultiprocessorModel::kThreadRegisters);
}

KernelResources::KernelResources(FusionKind kind, Schedule given)
    : schedule(std::move(given)), registers(registersOf(kind, schedule)) {}

std::optional<KernelResources>
KernelResources::of(FusionOp fusion, const CudaTarget &architecture) {
  // Horizontally fused kernels have a schedule for each part.
  if (!fusion.getBody().getOps<FusionOp>().empty())
    return std::nullopt;
  auto parent = fusion->getParentOfType<ModuleOp>();
  OpBuilder builder(fusion.getContext());
  OwningOpRef<ModuleOp> module = ModuleOp::create(fusion.getLoc());
  (*module)->setDiscardableAttrs(parent->getDiscardableAttrDictionary());
  builder.setInsertionPointToEnd(module->getBody());
  func::FuncOp kernel = kernelOf(fusion, "alone", builder);
  std::optional<PlannedKernel> planned =
      PlannedKernel::choose(kernel, architecture);
  if (!planned)
    return std::nullopt;
  const Schedule &schedule = planned->schedule;
  // Kernels with a grid barrier, and updates, need the whole GPU.
  if (schedule.isCooperative() || schedule.family == "update" ||
      schedule.family == "check" || schedule.threads % 32 != 0)
    return std::nullopt;
  KernelResources alone(fusion.getKind(), schedule);
  alone.kernel = kernel;
  alone.module = std::move(module);
  return alone;
}

void BlockResources::add(const KernelResources &part) {
  threads = std::max(threads, part.schedule.threads);
  shared = std::max(shared, part.schedule.sharedBytes);
  registers = std::max(registers, part.registers);
}

bool BlockResources::fit(const CudaTarget &architecture) const {
  return shared + CudaTarget::kPlainSharedBytes <=
         architecture.sharedBytesPerBlock();
}

int64_t BlockResources::resident(const MultiprocessorModel &machine) const {
  return machine.residentBlocks(
      threads, std::min(registers, MultiprocessorModel::kRegisters / threads),
      shared);
}
