//===- VerifySchedule.cpp - validation of user-provided schedules ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Schedules are used as given or rejected: codegen does not adjust them.
//
//===----------------------------------------------------------------------===//

#include "Schedule.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

static constexpr int64_t kMostBlockThreads = 1024;
/// Maximum grid extents.
static constexpr int64_t kMostBlocks[] = {INT32_MAX, 65535, 65535};

/// Formats the grid as "4 x 1 x 1".
static std::string gridOf(const Schedule &schedule) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(schedule.blocks, os, " x ");
  return text;
}

LogicalResult cuda::checkSchedule(func::FuncOp kernel,
                                  const CudaTarget &target) {
  FailureOr<Schedule> given = Schedule::of(kernel);
  if (failed(given))
    return failure();
  FailureOr<const KernelFamily *> family = familyOf(kernel, *given);
  if (failed(family))
    return failure();
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
  std::optional<Schedule> wanted =
      (*family)->scheduleAs(kernel, target, *given);
  if (!wanted)
    return refuse() << "which does not support this kernel";

  for (const auto &entry : given->parameters)
    if (!wanted->parameters.count(entry.first))
      return refuse() << "with '" << entry.first
                      << "', which is not a parameter of this kernel";
  for (const auto &[name, number] : wanted->parameters) {
    auto found = given->parameters.find(name);
    if (found == given->parameters.end())
      return refuse() << "without its '" << name << "'";
    if (found->second != number)
      return refuse() << "with a '" << name << "' of " << found->second
                      << "; the kernel needs " << number;
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
    return refuse() << "with a grid of " << gridOf(*given)
                    << " blocks; the kernel needs " << gridOf(*wanted);
  if (given->sharedBytes != wanted->sharedBytes)
    return refuse() << "with " << given->sharedBytes
                    << " bytes of shared memory; the kernel needs "
                    << wanted->sharedBytes;
  if (given->scratchBytes != wanted->scratchBytes)
    return refuse() << "with " << given->scratchBytes
                    << " bytes of scratch memory; the kernel needs "
                    << wanted->scratchBytes;
  return success();
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
