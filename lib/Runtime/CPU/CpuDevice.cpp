//===- CpuDevice.cpp - CPU device -----------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CpuDevice.h"

#include "ThreadPool.h"

#include "../Communication/CollectiveThread.h"

#include "mpc/Runtime/Buffer.h"

#include <algorithm>
#include <chrono>
#include <limits>

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
  CpuDevice(int threads, ParallelFor parallelFor)
      : threadCount(threads), parallelFor(std::move(parallelFor)) {
    if (!this->parallelFor && threads > 1)
      pool = ThreadPool::shared();
  }
  const std::string &name() const override { return deviceName; }
  int threads() const override { return threadCount; }
  bool needsCode() const override { return true; }
  Status execute(const Program &program, const Addresses &addresses,
                 CollectiveThread *messages,
                 std::span<double> milliseconds) override;

private:
  int64_t tasksOf(const Launch &launch) const;
  double leastSharedTime(const Program &program) const;
  template <typename Body> void share(int64_t tasks, const Body &body) const;
  void runLaunch(const Launch &launch, void *const *buffers, int64_t tasks,
                 char *scratch, size_t scratchStride) const;

  std::string deviceName = "cpu";
  int threadCount;
  /// The host's threads; null if `pool` is used.
  ParallelFor parallelFor;
  std::shared_ptr<ThreadPool> pool;
};

/// Floating-point control and status register of a thread: rounding and the
/// flushing of subnormals, which a host may set. Tasks use the caller's, so
/// that results do not depend on the thread.
#if defined(__x86_64__)
unsigned floatControl() { return __builtin_ia32_stmxcsr(); }
void setFloatControl(unsigned control) { __builtin_ia32_ldmxcsr(control); }
#else
unsigned floatControl() { return 0; }
void setFloatControl(unsigned) {}
#endif

} // namespace

/// Time in seconds above which waking sleeping threads pays for a launch: some
/// times the latency of a wake-up (docs/Explanation/Runtime.md).
static constexpr double kWakeUpPays = 60e-6;

/// Returns the number of items without a dependence on other items.
static int64_t firstItems(const Launch &launch) {
  return launch.items - launch.laterItems;
}

/// Returns the number of grains, the least tasks worth sharing, of a launch.
static int64_t grainsOf(const Launch &launch) {
  int64_t items = firstItems(launch);
  return items / launch.grain + (items % launch.grain != 0);
}

/// Estimates the time of a launch of several grains on one thread, in seconds.
/// A single-item grain takes any time above the least, so operations and
/// traffic count as well, at usual rates of a core.
static double estimateTime(const Launch &launch) {
  constexpr double kGrainTime = 12e-6, kFlopsPerSecond = 100e9,
                   kBytesPerSecond = 20e9;
  return std::max({kGrainTime * double(grainsOf(launch)),
                   double(launch.flops) / kFlopsPerSecond,
                   double(launch.bytes) / kBytesPerSecond});
}

/// Returns the number of tasks of a launch if it is shared among threads.
int64_t CpuDevice::tasksOf(const Launch &launch) const {
  return std::min<int64_t>(threadCount, grainsOf(launch));
}

/// Returns the least estimated time of launches to share. Threads awake take
/// over any task within a microsecond. They stay awake between the launches of
/// a run unless other programs use the cores; then each launch wakes them.
double CpuDevice::leastSharedTime(const Program &program) const {
  double time = 0;
  for (const Launch &launch : program.launches)
    if (tasksOf(launch) > 1)
      time += estimateTime(launch);
  if (time < kWakeUpPays)
    return std::numeric_limits<double>::infinity();
  return pool && pool->isContended() ? kWakeUpPays : 0;
}

/// Calls `body` with each index below `tasks`, concurrently.
template <typename Body>
void CpuDevice::share(int64_t tasks, const Body &body) const {
  unsigned control = floatControl();
  auto task = [&](int64_t index) {
    unsigned own = floatControl();
    setFloatControl(control);
    body(index);
    setFloatControl(own);
  };
  if (pool)
    return pool->run(tasks, task);
  parallelFor(
      tasks,
      [](void *context, int64_t index) {
        (*static_cast<decltype(task) *>(context))(index);
      },
      &task);
}

/// Runs one launch; `scratch` has `tasks` slices of `scratchStride` bytes.
void CpuDevice::runLaunch(const Launch &launch, void *const *buffers,
                          int64_t tasks, char *scratch,
                          size_t scratchStride) const {
  if (tasks <= 1)
    return launch.function(buffers, 0, launch.items, scratch);
  int64_t first = firstItems(launch);
  share(tasks, [&](int64_t task) {
    ItemRange range = splitItems(first, launch.grain, tasks, task);
    launch.function(buffers, range.begin, range.end,
                    scratch + task * scratchStride);
  });
  if (launch.laterItems > 0)
    share(tasks, [&](int64_t task) {
      ItemRange range = splitItems(launch.laterItems, 1, tasks, task);
      launch.function(buffers, first + range.begin, first + range.end,
                      scratch + task * scratchStride);
    });
}

Status CpuDevice::execute(const Program &program, const Addresses &addresses,
                          CollectiveThread *messages,
                          std::span<double> milliseconds) {
  double leastTime = threadCount > 1 ? leastSharedTime(program) : 0;
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
    int64_t tasks = tasksOf(launch);
    if (tasks > 1 && estimateTime(launch) < leastTime)
      tasks = 1;
    runLaunch(launch, buffers.data(), tasks,
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

std::shared_ptr<DeviceImpl> detail::createCpuDevice(int threads,
                                                    ParallelFor parallelFor) {
  return std::make_shared<CpuDevice>(threads, std::move(parallelFor));
}
