//===- PreludeWarpgroupTests.cpp - warpgroup MMA on the host --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostKernelTesting.h"
#include "TestKernels.h"

#include "gtest/gtest.h"

using namespace mpc;

TEST(PreludeMatrices, WarpgroupsAgainstDouble) {
  std::vector<std::string> names = {"rows", "right", "left", "both"};
  HostModule module = compileKernels(kWarpgroups, names);
  for (int i = 0; i < 4; ++i) {
    int columns = 64 * (i + 1), bits = i % 2 ? kBfloat16 : kHalf;
    bool turnedA = i >= 2, turnedB = i % 2;
    auto a = random16(64 * 64, bits, 1);
    auto b = random16(64 * columns, bits, 2);
    std::vector<float> d(64 * columns);
    HostLaunch launch = grid(1, 128);
    launch.dynamicSharedBytes = 2 * 64 * (64 + columns);
    Status status =
        module.launch(names[i], launch,
                      {HostArgument::input("a", a), HostArgument::input("b", b),
                       HostArgument::output("d", d)});
    ASSERT_TRUE(status.ok()) << status.toString();
    for (int row = 0; row < 64; ++row)
      for (int column = 0; column < columns; ++column) {
        float sum = 0;
        // Rounded after each instruction, which is 16 deep.
        for (int part = 0; part < 4; ++part) {
          double next = sum;
          for (int k = 16 * part; k < 16 * part + 16; ++k)
            next +=
                valueOf16(a[turnedA ? 64 * k + row : 64 * row + k], bits) *
                valueOf16(b[turnedB ? columns * k + column : 64 * column + k],
                          bits);
          sum = static_cast<float>(next);
        }
        ASSERT_EQ(d[columns * row + column], sum)
            << names[i] << " at " << row << ", " << column;
      }
  }
}

TEST(PreludeMatrices, AWgmmaWithoutAWaitIsReported) {
  HostModule module =
      compileKernels("#define EARLY\n" + std::string(kWarpgroups), {"rows"});
  auto a = random16(64 * 64, kHalf, 1), b = random16(64 * 64, kHalf, 2);
  std::vector<float> d(64 * 64);
  HostLaunch launch = grid(1, 128);
  launch.dynamicSharedBytes = 4 * 64 * 64;
  Status status =
      module.launch("rows", launch,
                    {HostArgument::input("a", a), HostArgument::input("b", b),
                     HostArgument::output("d", d)});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.toString().find("matrix multiplications (wgmma) in flight"),
            std::string::npos)
      << status.toString();
}
