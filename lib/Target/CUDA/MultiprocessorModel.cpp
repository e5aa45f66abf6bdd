//===- MultiprocessorModel.cpp - throughput of a multiprocessor -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MultiprocessorModel.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::cuda;

/// Returns the boost clock, in Hz, of the GPUs in CudaTarget.cpp, from the same
/// data sheets.
static double clockOf(int capability) {
  switch (capability) {
  case 75:
    return 1.59e9;
  case 80:
    return 1.41e9;
  case 86:
    return 1.695e9;
  case 89:
    return 2.52e9;
  case 90:
    return 1.755e9;
  case 120:
    return 2.407e9;
  default:
    return 1.85e9;
  }
}

/// Fraction of the tensor-core rate that mma.sync (without wgmma) reaches. On
/// sm_90 62 % of the data sheet's 989 TFLOP/s (Luo et al., "Dissecting the
/// NVIDIA Hopper Architecture through Microbenchmarking"), or 78 % of the 788
/// measured for large GEMMs; assumed for newer architectures.
static double mmaPart(int capability) { return capability >= 90 ? 0.78 : 1; }

MultiprocessorModel MultiprocessorModel::of(const TargetInfo &target) {
  const MachineDescription &facts = target.facts();
  MultiprocessorModel machine(target);
  int capability = facts.computeCapability;
  machine.clock = clockOf(capability);
  machine.multiprocessors = facts.multiprocessors;
  machine.warps = capability == 75                          ? 32
                  : capability / 10 == 8 && capability > 80 ? 48
                  : capability >= 120                       ? 48
                                                            : 64;
  machine.sharedBytes = facts.sharedBytesPerBlock + kReservedShared;
  return machine;
}

/// Returns the operations per cycle where the rates of a GPU are not listed in
/// CudaTarget.cpp: those of the tensor cores of sm_86 and sm_89.
static double assumedFlops(MathType type) {
  if (type == MathType::Float8 || type == MathType::Int8)
    return 2048;
  return type == MathType::TensorFloat32 ? 512 : 1024;
}

double MultiprocessorModel::warpgroupFlops(MathType type) const {
  const MathUnit *unit = target.unit(type);
  if (!unit)
    return 0;
  return unit->rate > 0 ? unit->rate * 1e12 / (clock * double(multiprocessors))
                        : assumedFlops(type);
}

double MultiprocessorModel::mmaFlops(MathType type) const {
  int capability = target.facts().computeCapability;
  // ptxas converts the operands of mma.sync to f16 there.
  if (type == MathType::Float8 && capability >= 90 && capability <= 110)
    type = MathType::Float16;
  return mmaPart(capability) * warpgroupFlops(type);
}

double MultiprocessorModel::floatFlops(MathType) const {
  // sm_75 and sm_80 have 64 f32 lanes, all others 128.
  int capability = target.facts().computeCapability;
  return capability == 75 || capability == 80 ? 128 : 256;
}

double MultiprocessorModel::memoryBytes() const {
  return target.facts().bandwidth * 1e9 / (clock * double(multiprocessors));
}

int64_t MultiprocessorModel::residentBlocks(int64_t threads, int64_t registers,
                                            int64_t shared) const {
  int64_t blockWarps = llvm::divideCeil(threads, 32);
  // A warp's registers are allocated in units of 256, from its scheduler's
  // quarter of the register file.
  int64_t perWarp = llvm::alignTo(std::max<int64_t>(registers, 1) * 32, 256);
  return std::min({kBlocks, warps / blockWarps,
                   kRegisters / perWarp / int64_t(llvm::alignTo(blockWarps, 4)),
                   sharedBytes / (shared + kReservedShared)});
}
