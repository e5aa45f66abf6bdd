//===- SassTimeEstimate.cpp - run time estimate from SASS -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SassTimeEstimate.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

using namespace mpc;
using namespace mpc::cuda;
using llvm::StringRef;

/// Estimated stalls, in cycles: of the tensor cores at a barrier (barrier,
/// ldmatrix, first mma), and per block for its first loads and last stores.
static constexpr double kBarrierWait = 120, kBlockWait = 1500;

//===----------------------------------------------------------------------===//
// ptxas output
//===----------------------------------------------------------------------===//

/// Returns the number before `unit`, or 0.
static int64_t numberBefore(StringRef line, StringRef unit) {
  size_t at = line.find(unit);
  if (at == StringRef::npos)
    return 0;
  StringRef text = line.take_front(at).rtrim();
  int64_t number = 0;
  text.substr(text.find_last_not_of("0123456789") + 1).getAsInteger(10, number);
  return number;
}

std::map<std::string, AssembledKernel> AssembledKernel::parse(StringRef log) {
  std::map<std::string, AssembledKernel> kernels;
  AssembledKernel *kernel = nullptr;
  for (StringRef line : llvm::split(log, '\n')) {
    if (line.contains("Function properties for ")) {
      StringRef name = line.split("Function properties for ").second.trim();
      kernel = &kernels[name.str()];
    } else if (kernel && line.contains("spill stores")) {
      kernel->spillBytes = numberBefore(line, " bytes spill stores") +
                           numberBefore(line, " bytes spill loads");
    } else if (kernel && line.contains("Used ")) {
      kernel->registers = numberBefore(line, " registers");
      kernel->sharedBytes = numberBefore(line, " bytes smem");
    }
  }
  return kernels;
}

//===----------------------------------------------------------------------===//
// Trip counts
//===----------------------------------------------------------------------===//

/// Returns the mix outside of loops, followed by that of each loop.
static std::vector<SassMix> mixesOf(const SassKernel &kernel) {
  std::vector<SassMix> mixes = {kernel.mixOf(-1)};
  for (size_t loop = 0; loop < kernel.loops.size(); ++loop)
    mixes.push_back(kernel.mixOf(int64_t(loop)));
  return mixes;
}

namespace {
/// Derives the trip counts of loops from the work of a warp.
class TripCountInference {
public:
  explicit TripCountInference(const std::vector<SassMix> &mixes)
      : mixes(mixes), runs(mixes.size(), 1), known(mixes.size(), false) {
    known[0] = true;
  }

  /// Sets the trip counts of all loops with a nonzero `what` and no known trip
  /// count so that a warp does `wanted` in total, with at least `least` trips.
  void deal(double wanted, double least,
            llvm::function_ref<double(const SassMix &)> what) {
    double open = 0;
    std::vector<size_t> takers;
    for (size_t i = 0; i < mixes.size(); ++i) {
      if (known[i]) {
        wanted -= runs[i] * what(mixes[i]);
      } else if (what(mixes[i]) > 0) {
        open += what(mixes[i]);
        takers.push_back(i);
      }
    }
    for (size_t i : takers) {
      runs[i] = std::max(wanted / open, least);
      known[i] = true;
    }
  }

  const std::vector<SassMix> &mixes;
  std::vector<double> runs;
  std::vector<bool> known;
};
} // namespace

static std::vector<double> runsOf(const std::vector<SassMix> &mixes,
                                  const SassLaunch &launch) {
  double warps = double(launch.blocks) * llvm::divideCeil(launch.threads, 32);
  bool hasTensor = llvm::any_of(
      mixes, [](const SassMix &mix) { return mix[SassUnit::Tensor] > 0; });
  TripCountInference runs(mixes);
  if (hasTensor)
    runs.deal(double(launch.flops) / warps, 1, [](const SassMix &mix) {
      return mix[SassUnit::Tensor] ? double(mix.flops) : 0;
    });
  auto stored = [](const SassMix &mix) { return mix.storedBytes; };
  double toStore = double(launch.writtenBytes + launch.scratchBytes) / warps;
  if (hasTensor) {
    // Split-K: the last block of a tile loads all partial results from scratch
    // and stores the result; prologue loops of a pipeline are short. The trip
    // counts of the loops that store partial results follow from those.
    runs.deal(double(launch.scratchBytes) / warps, 0, [](const SassMix &mix) {
      return mix.sharedBytes > 0 ? 0 : mix.loadedBytes;
    });
    runs.deal(toStore, 0, stored);
  } else {
    // Other kernels: loads determine the trip counts.
    runs.deal(toStore, 0, stored);
    runs.deal(double(launch.bytes - launch.writtenBytes + launch.scratchBytes) /
                  warps,
              1, [](const SassMix &mix) { return mix.loadedBytes; });
  }
  return runs.runs;
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

static constexpr StringRef kResourceNames[] = {"issue",   "tensor", "float",
                                               "special", "shared", "L2"};

/// Returns the operand type of a kernel's tensor-core instructions.
static std::optional<MathType> tensorType(const SassKernel &kernel) {
  for (const SassInstruction &instruction : kernel.instructions) {
    if (instruction.unit() != SassUnit::Tensor)
      continue;
    if (instruction.base() == "IMMA")
      return MathType::Int8;
    if (instruction.base() == "DMMA")
      return MathType::Float64;
    return instruction.has("BF16")   ? MathType::BFloat16
           : instruction.has("TF32") ? MathType::TensorFloat32
           : instruction.has("E4M3") || instruction.has("E5M2")
               ? MathType::Float8
               : MathType::Float16;
  }
  return std::nullopt;
}

SassEstimate cuda::estimateTime(const SassKernel &kernel,
                                const AssembledKernel &assembled,
                                const SassLaunch &launch,
                                const TargetInfo &target) {
  MultiprocessorModel machine = MultiprocessorModel::of(target);
  std::optional<MathType> type = tensorType(kernel);
  bool hasWarpgroups =
      llvm::any_of(kernel.instructions, [](const SassInstruction &instruction) {
        return instruction.warpgroupColumns() > 0;
      });
  std::vector<SassMix> mixes = mixesOf(kernel);
  SassEstimate result;
  result.runs = runsOf(mixes, launch);
  result.residentBlocks =
      machine.residentBlocks(launch.threads, assembled.registers,
                             assembled.sharedBytes + launch.dynamicShared);

  double warps = double(llvm::divideCeil(launch.threads, 32));
  double blocks = double(launch.blocks),
         processors = double(machine.multiprocessors);
  // Time of the most loaded multiprocessor.
  double most = std::ceil(blocks / processors);
  double together = std::clamp(
      most, 1.0, double(std::max<int64_t>(result.residentBlocks, 1)));
  double busy = blocks / (most * processors);
  double l2Rate = std::min(MultiprocessorModel::kL2BytesAlone,
                           MultiprocessorModel::kL2Bytes / busy);

  // Cycles of a block per resource, and of the bottleneck of each loop.
  double sums[SassEstimate::kResources] = {}, serial = 0, outside = 0;
  int64_t main = kernel.mainLoop();
  bool copiesInMain = main >= 0 && mixes[main + 1].copiedBytes > 0;
  for (size_t i = 0; i < mixes.size(); ++i) {
    const SassMix &mix = mixes[i];
    double times = result.runs[i] * warps;
    double moved = mix.loadedBytes + mix.storedBytes, shared = mix.sharedBytes;
    // The last iterations do not copy what the prologue prefetched.
    if (copiesInMain && int64_t(i) - 1 != main) {
      moved -= mix.copiedBytes;
      shared -= mix.copiedBytes;
    }
    double multiplied = mix[SassUnit::Tensor] ? double(mix.flops) : 0;
    double needs[SassEstimate::kResources] = {};
    needs[SassEstimate::Issue] =
        double(mix.instructions()) / MultiprocessorModel::kIssue;
    if (type && multiplied)
      needs[SassEstimate::Tensor] =
          multiplied / (hasWarpgroups ? machine.warpgroupFlops(*type)
                                      : machine.mmaFlops(*type));
    needs[SassEstimate::Float] =
        double(mix[SassUnit::Float]) * 64 / machine.floatFlops();
    needs[SassEstimate::Special] =
        double(mix[SassUnit::Special]) / MultiprocessorModel::kSpecial;
    needs[SassEstimate::Shared] = shared / MultiprocessorModel::kSharedBytes;
    needs[SassEstimate::L2] = moved / l2Rate;
    for (size_t r = 0; r < SassEstimate::kResources; ++r)
      sums[r] += needs[r] * times;
    // Asynchronous copies overlap barriers.
    double units = 0;
    for (size_t r = 0; r < SassEstimate::kResources; ++r)
      if (r != SassEstimate::L2)
        units = std::max(units, needs[r] * times);
    double barrier = result.runs[i] * double(mix.barriers) * kBarrierWait;
    serial +=
        std::max(needs[SassEstimate::L2] * times, units + barrier / together);
    result.sharedBytes += shared * times * blocks;
    result.l2Bytes += moved * times * blocks;
    if (int64_t(i) - 1 != main || main < 0)
      outside += double(mix.instructions()) * times * blocks * 32;
  }
  if (launch.elements > 0)
    result.outsidePerElement = outside / double(launch.elements);

  auto *busiest = std::max_element(std::begin(sums), std::end(sums));
  double waits = kBlockWait / together;
  double gaps = (serial - *busiest) / together;
  double cycles = most * (*busiest + gaps + waits);
  result.boundBy = kResourceNames[busiest - std::begin(sums)];
  if (waits + gaps > *busiest)
    result.boundBy = "waits";
  double memory =
      machine.memoryBytes() > 0
          ? double(launch.bytes) / (machine.memoryBytes() * processors)
          : 0;
  if (memory > cycles)
    result.boundBy = "memory";
  result.seconds = std::max(cycles, memory) / machine.clock;

  double rate = target.facts().float32Rate * 1e12;
  if (type && target.unit(*type))
    rate = target.unit(*type)->rate * 1e12;
  double compute = rate > 0 ? double(launch.flops) / rate : 0;
  result.floorSeconds = std::max(compute, memory / machine.clock);
  return result;
}
