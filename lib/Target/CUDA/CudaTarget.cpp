//===- CudaTarget.cpp - machine descriptions of NVIDIA GPUs ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One row per architecture, from NVIDIA's data sheets for the GPU named next to
// the row; dense rates, half of those listed "with sparsity".
//
//===----------------------------------------------------------------------===//

#include "mpc/Target/CUDA/CudaTarget.h"

#include "mpc/Target/TargetFamily.h"

using namespace mpc;
using namespace mpc::cuda;
using llvm::StringRef;

std::optional<CudaTarget> CudaTarget::of(const TargetInfo &target) {
  if (target.family() != "cuda" || !target.facts().isGenerated)
    return std::nullopt;
  return CudaTarget(target);
}

//===----------------------------------------------------------------------===//
// The rows
//===----------------------------------------------------------------------===//

namespace {
struct Row {
  int capability;
  /// Rates, in 1e12 operations per second, and bandwidth, in GB/s.
  double f64, f32, tf32, bf16, f16, f8, i8;
  double bandwidth;
  /// Multiprocessors of the GPU, and of the smallest GPU of the architecture,
  /// not counting MIG slices.
  int64_t multiprocessors = 84, minMultiprocessors = 4;
  /// Maximum shared memory per block, in KiB (CUDA C++ Programming Guide,
  /// technical specifications per compute capability).
  int64_t sharedKib = 99;
};
} // namespace

static const Row kRows[] = {
    // P100 SXM2 and P40: no tensor cores. The P100's packed f16 arithmetic is
    // omitted: no kernel uses it.
    {60, 5.3, 10.6, 0, 0, 0, 0, 0, 732},
    {61, 0.367, 11.76, 0, 0, 0, 0, 0, 346},
    // V100 SXM2.
    {70, 7.8, 15.7, 0, 0, 125, 0, 0, 900},
    // Jetson AGX Xavier: capability known, rates not looked up.
    {72, 0, 0, 0, 0, 0, 0, 0, 0},
    // T4; GTX 1650.
    {75, 0.253, 8.1, 0, 0, 65, 0, 130, 320, 72, 14, 64},
    // A100 SXM, 40 GB: f64 on tensor cores; A30.
    {80, 19.5, 19.5, 156, 312, 312, 0, 624, 1555, 108, 56, 163},
    // A10; A2.
    {86, 0.488, 31.2, 62.5, 125, 125, 0, 250, 600, 84, 10},
    // Jetson Orin Nano.
    {87, 0, 0, 0, 0, 0, 0, 0, 0, 84, 4, 163},
    {88, 0, 0, 0, 0, 0, 0, 0, 0},
    // L40S; RTX 500.
    {89, 1.43, 91.6, 183, 362, 362, 733, 733, 864, 84, 16},
    // H200: bf16 788 and copy 4300 measured on random data; tf32 and f8 are the
    // data sheet's 495 and 1979 in the same proportion, f32 and f64 the sheet.
    // H20.
    {90, 67, 67, 394, 788, 788, 1576, 1576, 4300, 132, 78, 227},
    // B200 and B300, an eighth of the HGX data sheet; int8 of B300 not looked
    // up.
    {100, 37, 75, 1125, 2250, 2250, 4500, 4500, 8000, 148, 148, 227},
    {103, 1.25, 75, 1125, 2250, 2250, 4500, 0, 8000, 148, 148, 227},
    // Jetson T4000.
    {110, 0, 0, 0, 0, 0, 0, 0, 0, 84, 12, 227},
    // RTX 5090, f32 accumulation; RTX PRO 500.
    {120, 1.64, 104.8, 104.8, 209.5, 209.5, 419, 838, 1792, 84, 14},
    // GB10.
    {121, 0, 0, 0, 0, 0, 0, 0, 0, 84, 48},
};

/// Fraction of a rate with rows whose addresses are not multiples of 16 bytes.
/// A conservative estimate: such a kernel loads single elements instead of
/// eight at once by cp.async, and stalls the tensor cores. Reported slowdowns
/// are 1.3x to more than 10x (pytorch#90425, pytorch#146817).
static constexpr double kUnalignedPart = 0.5;

/// Estimated cost of a CUDA graph node, in seconds; typically 1 to 1.5 us.
static constexpr double kGraphNodeSeconds = 1.25e-6;

/// Returns the matrix units of an architecture (CUDA C++ Programming Guide,
/// table of tensor core types by compute capability). Multiples are 16 bytes:
/// the alignment that NVIDIA's matrix multiplication guide recommends for
/// cuBLAS and cuDNN, and that ldmatrix and 16-byte cp.async need. cuBLASLt
/// rejects fp8 without it.
static std::vector<MathUnit> tensorCores(const Row &row) {
  std::vector<MathUnit> units;
  auto add = [&](bool has, MathType type, int64_t multiple, double rate) {
    if (has)
      units.push_back({type, multiple, rate, "tensor cores"});
  };
  int capability = row.capability;
  add(capability == 80 || capability == 90 || capability == 100,
      MathType::Float64, 2, row.f64);
  add(capability >= 80, MathType::TensorFloat32, 4, row.tf32);
  add(capability >= 80, MathType::BFloat16, 8, row.bf16);
  add(capability >= 70, MathType::Float16, 8, row.f16);
  add(capability >= 89, MathType::Float8, 16, row.f8);
  add(capability >= 72, MathType::Int8, 16, row.i8);
  return units;
}

/// Kernel capabilities: every thread loads, computes and stores its elements.
static KernelCapabilities threadKernels(int capability) {
  KernelCapabilities kernels;
  kernels.recomputesScalars = true;
  kernels.fusesOperandMovement = true;
  kernels.fusesResultMovement = true;
  kernels.hasRowPrologue = true;
  kernels.hasPersistentRecurrence = capability >= 75;
  kernels.fusesSiblings = true;
  // Vectors of four registers: half of a thread's 255 registers.
  kernels.liveValues = 32;
  kernels.composites = {"attention_gradient", "norm_gradient"};
  kernels.decomposedComposites = {"norm_gradient"};
  kernels.concatenatesParameters = true;
  kernels.choosesFilterLayouts = true;
  kernels.writesScalarsLast = true;
  kernels.masksRemainders = false;
  kernels.roundsToTensorFloat32 = capability >= 80;
  kernels.minBFloat16SplitValues = 3;
  kernels.hasLibrary = true;
  // bf16-split f32 is faster than f32 on the tensor cores of sm_100 and later.
  kernels.libraryEmulatesFloat32 = capability >= 100;
  return kernels;
}

static std::vector<MachineDescription> describeArchitectures() {
  std::vector<MachineDescription> all;
  for (const Row &row : kRows) {
    MachineDescription facts;
    facts.name = "cuda:sm_" + std::to_string(row.capability);
    facts.isGenerated = row.capability >= 75;
    facts.computeCapability = row.capability;
    facts.float32Rate = row.f32;
    facts.float64Rate = row.f64;
    facts.units = tensorCores(row);
    facts.bandwidth = row.bandwidth;
    facts.misalignedRateFraction = kUnalignedPart;
    facts.launchSeconds = kGraphNodeSeconds;
    facts.multiprocessors = row.multiprocessors;
    facts.minMultiprocessors = row.minMultiprocessors;
    facts.sharedBytesPerBlock = 1024 * row.sharedKib;
    facts.kernels = threadKernels(row.capability);
    all.push_back(std::move(facts));
  }
  return all;
}

/// sm_90a and sm_100f are sm_90 and sm_100 with additional instructions.
static std::string findArchitecture(StringRef member) {
  StringRef base = member;
  if (!base.consume_back("a"))
    base.consume_back("f");
  return "cuda:" + base.str();
}

TargetFamily mpc::cudaFamily() {
  // Code for a GPU never runs on the host.
  return {"cuda", describeArchitectures, findArchitecture,
          [](const MachineDescription &) { return false; }};
}
