//===- KernelResources.cpp - resources of a kernel ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelResources.h"

#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"

#include "FusionKernel.h"

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
  auto rows = schedule.parameters.find("tile_m");
  auto columns = schedule.parameters.find("tile_n");
  if (rows == schedule.parameters.end() || columns == schedule.parameters.end())
    return kOtherRegisters;
  int64_t sums = rows->second * columns->second / schedule.threads;
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
  for (const auto &family : kernelFamilies()) {
    std::optional<Schedule> schedule = family->schedule(kernel, architecture);
    if (!schedule)
      continue;
    schedule->family = family->name().str();
    // Kernels with a grid barrier, and updates, need the whole GPU.
    if (schedule->isCooperative() || family->name() == "update" ||
        family->name() == "check" || schedule->threads % 32 != 0)
      return std::nullopt;
    KernelResources alone(fusion.getKind(), *schedule);
    alone.kernel = kernel;
    alone.module = std::move(module);
    return alone;
  }
  return std::nullopt;
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
