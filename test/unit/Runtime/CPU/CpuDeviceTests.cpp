//===- CpuDeviceTests.cpp - tests of the processor device -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CPU/CpuDevice.h"

#include "mpc/Runtime/Executable.h"

#include <gtest/gtest.h>

#include <array>

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
