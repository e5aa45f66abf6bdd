//===- NullDeviceTests.cpp - tests of the device that runs nothing --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Executable.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

using namespace mpc;

TEST(NullDevice, CallsNoCode) {
  Program program;
  program.name = "main";
  program.results = {{"y", {ElementType::F32, {2}}}};
  Launch launch;
  launch.kernel = "never";
  launch.function = [](void *const *, int64_t, int64_t, void *) {
    std::abort();
  };
  launch.buffers = {{BufferRef::Kind::Result, 0, 0, 8, true}};
  program.launches = {launch};
  Executable executable = *Executable::create(
      Device::null(), std::make_shared<const Program>(program));
  std::array outputs = {*Buffer::fromValues<float>({ElementType::F32, {2}},
                                                   std::array<float, 2>{3, 4})};
  ASSERT_TRUE(executable.runInto({}, outputs).ok());
  EXPECT_EQ(outputs[0].as<float>()[0], 0);
  EXPECT_EQ(outputs[0].as<float>()[1], 0);
}

TEST(NullDevice, StillChecksTheProgram) {
  Program program;
  program.name = "main";
  program.arenaBytes = -1;
  EXPECT_FALSE(Executable::create(Device::null(),
                                  std::make_shared<const Program>(program))
                   .ok());
}
