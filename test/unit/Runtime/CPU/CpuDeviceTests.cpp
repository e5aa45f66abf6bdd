//===- CpuDeviceTests.cpp - tests of the processor device -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CPU/CpuDevice.h"

#include "mpc/Runtime/Executable.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include <xmmintrin.h>

using namespace mpc;

TEST(SplitItems, CoversEverythingOnceAtGrains) {
  for (int64_t items : {1, 7, 64, 100, 1001})
    for (int64_t grain : {1, 3, 16})
      for (int64_t tasks : {1, 2, 5}) {
        int64_t next = 0;
        for (int64_t task = 0; task < tasks; ++task) {
          detail::ItemRange range =
              detail::splitItems(items, grain, tasks, task);
          if (range.begin >= range.end)
            continue;
          EXPECT_EQ(range.begin, next);
          EXPECT_EQ(range.begin % grain, 0);
          next = range.end;
        }
        EXPECT_EQ(next, items) << items << " by " << grain << " in " << tasks;
      }
}

namespace {

/// Writes its own scratch memory full of the item's number and reports whether
/// another task wrote there meanwhile.
void scratchKernel(void *const *buffers, int64_t begin, int64_t end,
                   void *scratch) {
  auto *own = static_cast<int64_t *>(scratch);
  for (int64_t item = begin; item < end; ++item) {
    for (int i = 0; i < 512; ++i)
      own[i] = item;
    bool kept = true;
    for (int i = 0; i < 512; ++i)
      kept &= own[i] == item;
    static_cast<int8_t *>(buffers[0])[item] =
        kept && reinterpret_cast<uintptr_t>(own) % 64 == 0;
  }
}

} // namespace

TEST(CpuDevice, TasksHaveScratchOfTheirOwn) {
  Program program;
  program.name = "main";
  program.results = {{"ok", {ElementType::I8, {400}}}};
  Launch launch;
  launch.kernel = "scratch";
  launch.function = scratchKernel;
  launch.items = 400;
  launch.scratchBytes = 4096;
  launch.buffers = {{BufferRef::Kind::Result, 0, 0, 400, true}};
  program.launches = {launch};
  Device device = *Device::cpu({.threads = 4});
  Executable executable =
      *Executable::create(device, std::make_shared<const Program>(program));
  for (int round = 0; round < 20; ++round) {
    std::vector<Buffer> results = *executable.run({});
    for (int8_t value : results[0].as<int8_t>())
      ASSERT_EQ(value, 1);
  }
}

TEST(CpuDevice, NothingToDoCallsNothing) {
  Program program;
  program.name = "main";
  Launch launch;
  launch.kernel = "never";
  launch.function = [](void *const *, int64_t, int64_t, void *) {
    std::abort();
  };
  launch.items = 0;
  program.launches = {launch};
  Executable executable = *Executable::create(
      *Device::cpu({.threads = 2}), std::make_shared<const Program>(program));
  EXPECT_TRUE(executable.run({}).ok());
}

namespace {

/// Halves an item's number of smallest normal values: a subnormal, which a
/// thread may flush to zero.
void halveKernel(void *const *buffers, int64_t begin, int64_t end, void *) {
  for (int64_t item = begin; item < end; ++item) {
    volatile float least = std::numeric_limits<float>::min();
    static_cast<float *>(buffers[0])[item] = least / 2;
  }
}

/// A program of one launch with `items` items of one float each.
std::shared_ptr<const Program> halvingProgram(int64_t items) {
  auto program = std::make_shared<Program>();
  program->name = "main";
  program->results = {{"half", {ElementType::F32, {items}}}};
  Launch launch;
  launch.kernel = "halve";
  launch.function = halveKernel;
  launch.items = items;
  launch.buffers = {{BufferRef::Kind::Result, 0, 0, 4 * items, true}};
  program->launches = {launch};
  return program;
}

} // namespace

TEST(CpuDevice, AHostsThreadsRunTheTasks) {
  // In reverse order, which is also legal.
  std::vector<int64_t> calls;
  Device device = *Device::cpu(
      {.threads = 4,
       .parallelFor = [&](int64_t tasks, void (*task)(void *, int64_t),
                          void *context) {
         calls.push_back(tasks);
         for (int64_t i = tasks; i-- > 0;)
           task(context, i);
       }});
  Executable large = *Executable::create(device, halvingProgram(400));
  std::vector<Buffer> results = *large.run({});
  for (float value : results[0].as<float>())
    ASSERT_EQ(value, std::numeric_limits<float>::min() / 2);
  EXPECT_EQ(calls, std::vector<int64_t>{4});
  // A run that is shorter than waking threads stays on the caller.
  Executable small = *Executable::create(device, halvingProgram(3));
  EXPECT_TRUE(small.run({}).ok());
  EXPECT_EQ(calls.size(), 1u);
}

TEST(CpuDevice, TasksUseTheCallersFloatingPointMode) {
  Device device = *Device::cpu({.threads = 4});
  Executable executable = *Executable::create(device, halvingProgram(400));
  for (bool flushes : {false, true, false}) {
    unsigned before = _mm_getcsr();
    constexpr unsigned kFlushToZero = 0x8000;
    _mm_setcsr(flushes ? before | kFlushToZero : before & ~kFlushToZero);
    Result<std::vector<Buffer>> results = executable.run({});
    _mm_setcsr(before);
    for (float value : results->front().as<float>())
      ASSERT_EQ(value == 0, flushes);
  }
}
