//===- CpuDevice.cpp - CPU device -----------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CpuDevice.h"

#include "../Communication/CollectiveThread.h"

#include "mpc/Runtime/Buffer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include <pthread.h>

using namespace mpc;
using namespace mpc::detail;

ItemRange detail::splitItems(int64_t items, int64_t grain, int64_t tasks,
                             int64_t task) {
  int64_t groups = items / grain + (items % grain != 0);
  int64_t share = groups / tasks, rest = groups % tasks;
  int64_t first = task * share + std::min(task, rest);
  int64_t last = first + share + (task < rest);
  // `last * grain` exceeds `items` by less than one grain.
  return {first * grain, last == groups ? items : last * grain};
}

namespace {

class CpuDevice : public DeviceImpl {
public:
  explicit CpuDevice(int threads) : threadCount(threads) {}
  const std::string &name() const override { return deviceName; }
  int threads() const override { return threadCount; }
  bool needsCode() const override { return true; }
  Status execute(const Program &program, const Addresses &addresses,
                 CollectiveThread *messages,
                 std::span<double> milliseconds) override;

private:
  std::string deviceName = "cpu";
  int threadCount;
};

} // namespace

/// True in a forked child after OpenMP threads were started, since they do not
/// exist in the child. GNU's OpenMP would wait for them forever; LLVM's
/// restarts them.
static std::atomic<bool> lostThreads = false;

static void heedForks() {
#ifndef __clang__
  static std::once_flag once;
  std::call_once(once, [] {
    (void)pthread_atfork(nullptr, nullptr, [] { lostThreads = true; });
  });
#endif
}

/// Returns the number of items without a dependence on other items.
static int64_t firstItems(const Launch &launch) {
  return launch.items - launch.laterItems;
}

/// Runs one launch; `scratch` has `tasks` slices of `scratchStride` bytes.
static void runLaunch(const Launch &launch, void *const *buffers, int64_t tasks,
                      char *scratch, size_t scratchStride) {
  if (tasks <= 1 || lostThreads) {
    launch.function(buffers, 0, launch.items, scratch);
    return;
  }
  heedForks();
  int threads = static_cast<int>(tasks);
  int64_t first = firstItems(launch);
#pragma omp parallel num_threads(threads)
  {
#pragma omp for schedule(static, 1) nowait
    for (int64_t task = 0; task < tasks; ++task) {
      ItemRange range = splitItems(first, launch.grain, tasks, task);
      launch.function(buffers, range.begin, range.end,
                      scratch + task * scratchStride);
    }
    if (launch.laterItems > 0) {
#pragma omp barrier
#pragma omp for schedule(static, 1) nowait
      for (int64_t task = 0; task < tasks; ++task) {
        ItemRange range = splitItems(launch.laterItems, 1, tasks, task);
        launch.function(buffers, first + range.begin, first + range.end,
                        scratch + task * scratchStride);
      }
    }
  }
}

Status CpuDevice::execute(const Program &program, const Addresses &addresses,
                          CollectiveThread *messages,
                          std::span<double> milliseconds) {
  auto tasksOf = [&](const Launch &launch) {
    int64_t items = firstItems(launch);
    int64_t groups = items / launch.grain + (items % launch.grain != 0);
    return std::min<int64_t>(threadCount, groups);
  };
  auto aligned = [](int64_t bytes) {
    return (size_t(bytes) + kBufferAlignment - 1) / kBufferAlignment *
           kBufferAlignment;
  };
  auto strideOf = [&](const Launch &launch) {
    return aligned(launch.scratchBytes);
  };
  size_t scratchBytes = 0, mostBuffers = 0;
  for (const Launch &launch : program.launches) {
    size_t bytes = 0;
    if (__builtin_mul_overflow(strideOf(launch),
                               size_t(std::max<int64_t>(tasksOf(launch), 1)),
                               &bytes) ||
        __builtin_add_overflow(aligned(launch.sharedBytes), bytes, &bytes))
      return Status(StatusCode::ResourceExhausted, launch.kernel,
                    "scratch memory overflows");
    scratchBytes = std::max(scratchBytes, bytes);
    mostBuffers = std::max(mostBuffers, launch.buffers.size() + 1);
  }
  // Packed panels and accumulators are reused often: round a scratch of nearly
  // a huge page up to one.
  if (scratchBytes >= kHugePage / 2 && scratchBytes <= SIZE_MAX - kHugePage)
    scratchBytes = (scratchBytes + kHugePage - 1) / kHugePage * kHugePage;
  // One block per calling thread, cached between runs: page faults of a fresh
  // allocation of some megabytes take longer than a small kernel.
  thread_local std::shared_ptr<void> scratch;
  thread_local size_t scratchSize = 0;
  if (scratchBytes > scratchSize) {
    scratch = allocateAligned(scratchBytes);
    scratchSize = scratch ? scratchBytes : 0;
    if (!scratch)
      return Status(StatusCode::ResourceExhausted, program.name,
                    "no memory for " + std::to_string(scratchBytes) +
                        " bytes of scratch");
  }

  std::vector<void *> buffers(mostBuffers);
  for (size_t i = 0; i < program.launches.size(); ++i) {
    const Launch &launch = program.launches[i];
    if (messages)
      if (Status status = messages->reach(i); !status.ok())
        return status;
    if (launch.items == 0 || launch.collective)
      continue;
    for (size_t j = 0; j < launch.buffers.size(); ++j)
      buffers[j] = addresses.resolve(launch.buffers[j]);
    // The launch's shared memory comes before the private scratch.
    buffers[launch.buffers.size()] = scratch.get();
    auto start = std::chrono::steady_clock::time_point();
    if (!milliseconds.empty())
      start = std::chrono::steady_clock::now();
    runLaunch(launch, buffers.data(), tasksOf(launch),
              static_cast<char *>(scratch.get()) + aligned(launch.sharedBytes),
              strideOf(launch));
    if (!milliseconds.empty()) {
      std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - start;
      milliseconds[i] = took.count();
    }
  }
  return {};
}

std::shared_ptr<DeviceImpl> detail::createCpuDevice(int threads) {
  return std::make_shared<CpuDevice>(threads);
}
