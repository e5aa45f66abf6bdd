//===- KernelPlan.cpp - what a kernel computes, and how -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// User-provided schedules are used as given or rejected: codegen does not
// adjust them.
//
//===----------------------------------------------------------------------===//

#include "KernelPlan.h"
#include "LargestMagnitudes.h"

#include "mpc/Dialect/Exe/IR/InPlace.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

static constexpr int64_t kMostBlockThreads = 1024;
/// Maximum grid extents.
static constexpr int64_t kMostBlocks[] = {INT32_MAX, 65535, 65535};

/// Formats a list of numbers, such as the grid "4 x 1 x 1".
static std::string listOf(ArrayRef<int64_t> numbers,
                          StringRef separator = ", ") {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(numbers, os, separator);
  return text;
}

ArrayRef<KernelFamily> cuda::kernelFamilies() {
  static constexpr KernelFamily kFamilies[] = {
      {"lines", planQuantizedGemv},
      {"gemm", planGemm},
      {"convolution", planConvolution},
      {"attention", planAttention},
      {"attention_gradient", planAttentionGradient},
      {"recurrence", planRecurrence},
      {"filter", planFilterGradient},
      {"row", planRowReduction},
      {"reduction", planColumnReduction},
      {"transpose", planTranspose},
      {"update", planOptimizerUpdate},
      {"check", planGradientCheck},
      {"map", planElementwise},
      {"loop", planFallback},
  };
  return kFamilies;
}

std::optional<PlannedKernel> PlannedKernel::choose(func::FuncOp kernel,
                                                   const CudaTarget &target) {
  // Only the update family supports scalar results that alias an input of all
  // blocks.
  auto kind =
      kernel->getAttrOfType<FusionKindAttr>(MpcDialect::kKernelKindAttr);
  bool updatesInPlace = kind && kind.getValue() == FusionKind::update &&
                        kernel->hasAttr(exe::kInPlaceAttr);
  for (const KernelFamily &family : kernelFamilies()) {
    if (updatesInPlace && family.plan != planOptimizerUpdate)
      continue;
    std::unique_ptr<KernelPlan> plan =
        planWithMagnitudes(family, kernel, target);
    std::optional<Schedule> schedule = plan ? plan->schedule() : std::nullopt;
    if (!schedule)
      continue;
    schedule->family = family.name.str();
    return PlannedKernel{std::move(plan), std::move(*schedule)};
  }
  return std::nullopt;
}

FailureOr<PlannedKernel> PlannedKernel::verify(func::FuncOp kernel,
                                               const CudaTarget &target) {
  FailureOr<Schedule> given = Schedule::of(kernel);
  if (failed(given))
    return failure();
  const KernelFamily *family =
      llvm::find_if(kernelFamilies(), [&](const KernelFamily &known) {
        return known.name == given->family;
      });
  if (family == kernelFamilies().end())
    return kernel.emitError()
           << "unknown kernel family '" << given->family << "'";
  auto refuse = [&] {
    return kernel.emitError()
           << "kernel '" << kernel.getName() << "' has a " << exe::kScheduleAttr
           << " of family '" << given->family << "' ";
  };
  if (given->threads < 1 || given->threads > kMostBlockThreads)
    return refuse() << "with " << given->threads
                    << " threads; a block has 1 to " << kMostBlockThreads;
  for (auto [blocks, most] : llvm::zip(given->blocks, kMostBlocks))
    if (blocks < 1 || blocks > most)
      return refuse() << "with a grid of " << blocks << " blocks; it has 1 to "
                      << most;
  int64_t mostShared = target.sharedBytesPerBlock();
  if (given->sharedBytes < 0 || given->sharedBytes > mostShared)
    return refuse() << "with " << given->sharedBytes
                    << " bytes of shared memory; a block has 0 to "
                    << mostShared;
  if (given->scratchBytes < 0)
    return refuse() << "with " << given->scratchBytes
                    << " bytes of scratch memory";
  std::unique_ptr<KernelPlan> plan =
      planWithMagnitudes(*family, kernel, target);
  std::optional<Schedule> wanted =
      plan ? plan->scheduleAs(*given) : std::nullopt;
  if (!wanted)
    return refuse() << "which does not support this kernel";

  for (const auto &entry : given->parameters)
    if (!wanted->parameters.count(entry.first))
      return refuse() << "with '" << entry.first
                      << "', which is not a parameter of this kernel";
  for (const auto &[name, values] : wanted->parameters) {
    auto found = given->parameters.find(name);
    if (found == given->parameters.end())
      return refuse() << "without its '" << name << "'";
    if (found->second != values)
      return refuse() << "with a '" << name << "' of " << listOf(found->second)
                      << "; the kernel needs " << listOf(values);
  }
  if (given->team != wanted->team) {
    if (!given->team || !wanted->team)
      return refuse() << (wanted->team ? "without its" : "with a")
                      << " thread mapping";
    return refuse() << "with the thread mapping " << given->team
                    << "; the kernel needs " << wanted->team;
  }
  if (given->threads != wanted->threads)
    return refuse() << "with " << given->threads
                    << " threads; the kernel needs " << wanted->threads;
  if (given->blocks != wanted->blocks)
    return refuse() << "with a grid of " << listOf(given->blocks, " x ")
                    << " blocks; the kernel needs "
                    << listOf(wanted->blocks, " x ");
  if (given->sharedBytes != wanted->sharedBytes)
    return refuse() << "with " << given->sharedBytes
                    << " bytes of shared memory; the kernel needs "
                    << wanted->sharedBytes;
  if (given->scratchBytes != wanted->scratchBytes)
    return refuse() << "with " << given->scratchBytes
                    << " bytes of scratch memory; the kernel needs "
                    << wanted->scratchBytes;
  return PlannedKernel{std::move(plan), std::move(*given)};
}

FailureOr<const PlannedKernel *> KernelPlans::plan(func::FuncOp kernel,
                                                   const CudaTarget &target) {
  Attribute given = kernel->getAttr(exe::kScheduleAttr);
  if (auto known = planned.find(kernel);
      known != planned.end() && given && known->second.first == given)
    return &known->second.second;
  FailureOr<PlannedKernel> made = failure();
  if (given) {
    made = PlannedKernel::verify(kernel, target);
    if (failed(made))
      return failure();
  } else if (auto chosen = PlannedKernel::choose(kernel, target)) {
    made = std::move(*chosen);
    given = made->schedule.toAttribute(kernel.getContext());
    kernel->setAttr(exe::kScheduleAttr, given);
  } else {
    return kernel.emitError() << "kernel '" << kernel.getName()
                              << "' has no form on " << target.target().name();
  }
  auto &entry = planned[kernel];
  entry = {given, std::move(*made)};
  return &entry.second;
}

Schedule cuda::withTeamOf(const Schedule &given, Schedule chosen) {
  Schedule result = given;
  result.parameters = std::move(chosen.parameters);
  return result;
}

Schedule cuda::onGridOf(const Schedule &given, Schedule chosen) {
  if (given.threads * given.blocks[0] >= chosen.threads * chosen.blocks[0]) {
    chosen.threads = given.threads;
    chosen.blocks[0] = given.blocks[0];
  }
  return chosen;
}
