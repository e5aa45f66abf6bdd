//===- BinariesTests.cpp - tests of machine code selection ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CUDA/CubinSelection.h"

#include <gtest/gtest.h>

using namespace mpc;
using namespace mpc::detail;

namespace {

GpuInfo gpu(int major, int minor) {
  GpuInfo info;
  info.major = major;
  info.minor = minor;
  return info;
}

/// The architecture that is taken for a GPU; "" for none.
std::string chosen(const CudaCode &code, const GpuInfo &gpu) {
  std::string name;
  for (const CudaCode::Binary *binary : selectCubins(code, gpu)) {
    EXPECT_TRUE(name.empty() || name == binary->architecture);
    name = binary->architecture;
  }
  return name;
}

} // namespace

TEST(Binaries, RunOnLaterMinorsOfTheirMajor) {
  EXPECT_TRUE(runsOn("sm_80", gpu(8, 0)));
  EXPECT_TRUE(runsOn("sm_80", gpu(8, 9)));
  EXPECT_FALSE(runsOn("sm_86", gpu(8, 0)));
  EXPECT_FALSE(runsOn("sm_80", gpu(9, 0)));
  EXPECT_FALSE(runsOn("sm_90", gpu(8, 9)));
  EXPECT_TRUE(runsOn("sm_100", gpu(10, 3)));
}

TEST(Binaries, WithASuffixRunOnTheirOwnAlone) {
  EXPECT_TRUE(runsOn("sm_90a", gpu(9, 0)));
  EXPECT_TRUE(runsOn("sm_120a", gpu(12, 0)));
  EXPECT_FALSE(runsOn("sm_120a", gpu(12, 1)));
}

TEST(Binaries, OtherNamesRunNowhere) {
  for (const char *name : {"", "sm_", "sm_9", "compute_90", "sm_90ab", "90"})
    EXPECT_FALSE(runsOn(name, gpu(9, 0))) << name;
}

TEST(Binaries, CodeForAGpuUsesAllItHas) {
  EXPECT_EQ(nativeArchitecture(gpu(7, 5)), "sm_75");
  EXPECT_EQ(nativeArchitecture(gpu(8, 9)), "sm_89");
  EXPECT_EQ(nativeArchitecture(gpu(9, 0)), "sm_90a");
}

TEST(Binaries, TheNewestThatHasAllKernelsIsTaken) {
  CudaCode code;
  code.kernels = {{"a", ""}, {"b", ""}};
  code.binaries = {{"sm_80", {"a", "b"}, {}}, {"sm_86", {"a"}, {}},
                   {"sm_86", {"b"}, {}},      {"sm_89", {"a"}, {}},
                   {"sm_90", {"a", "b"}, {}}, {"sm_90a", {"b", "a"}, {}}};
  EXPECT_EQ(chosen(code, gpu(8, 0)), "sm_80");
  EXPECT_EQ(chosen(code, gpu(8, 6)), "sm_86");
  EXPECT_EQ(selectCubins(code, gpu(8, 6)).size(), 2u);
  // That for 8.9 lacks a kernel.
  EXPECT_EQ(chosen(code, gpu(8, 9)), "sm_86");
  EXPECT_EQ(chosen(code, gpu(9, 0)), "sm_90a");
  EXPECT_EQ(chosen(code, gpu(7, 5)), "");
  EXPECT_EQ(chosen(code, gpu(12, 0)), "");
}
