//===- SassTimeTests.cpp - time estimate of machine code ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Target/CUDA/Sass/SassTimeEstimate.h"

#include "gtest/gtest.h"

using namespace mpc;
using namespace mpc::cuda;

static const TargetInfo &target() {
  static const TargetInfo found = *TargetInfo::parse("cuda:sm_90a");
  return found;
}

TEST(SassTime, ReadsWhatTheAssemblerSays) {
  auto kernels = AssembledKernel::parse(
      "ptxas info    : 89 bytes gmem\n"
      "ptxas info    : Compiling entry function 'k_a' for 'sm_90a'\n"
      "ptxas info    : Function properties for k_a\n"
      "ptxas         .     0 bytes stack frame, 4 bytes spill stores, 12 bytes "
      "spill loads\n"
      "ptxas info    : Used 242 registers, used 1 barriers, 32 bytes smem\n"
      "ptxas info    : Function properties for k_b\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 40 registers, used 1 barriers\n");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels["k_a"].registers, 242);
  EXPECT_EQ(kernels["k_a"].spillBytes, 16);
  EXPECT_EQ(kernels["k_a"].sharedBytes, 32);
  EXPECT_EQ(kernels["k_b"].registers, 40);
  EXPECT_EQ(kernels["k_b"].spillBytes, 0);
}

TEST(SassTime, CountsResidentBlocks) {
  MultiprocessorModel machine = MultiprocessorModel::of(target());
  // By registers, by shared memory, by warps, by blocks; one that is too large.
  EXPECT_EQ(machine.residentBlocks(256, 226, 0), 1);
  EXPECT_EQ(machine.residentBlocks(128, 120, 0), 4);
  // Six warps allocate as many registers as eight.
  EXPECT_EQ(machine.residentBlocks(192, 160, 0), 1);
  EXPECT_EQ(machine.residentBlocks(128, 160, 0), 3);
  EXPECT_EQ(machine.residentBlocks(128, 40, 100 * 1024), 2);
  EXPECT_EQ(machine.residentBlocks(1024, 32, 0), 2);
  EXPECT_EQ(machine.residentBlocks(32, 16, 0), 32);
  EXPECT_EQ(machine.residentBlocks(128, 40, 300 * 1024), 0);
}

/// `instructions` of a loop, then an EXIT.
static SassKernel loopOf(std::vector<std::string> opcodes) {
  SassKernel kernel;
  kernel.name = "k";
  for (std::string &opcode : opcodes)
    kernel.instructions.push_back({std::move(opcode), ""});
  kernel.loops.push_back({0, kernel.instructions.size(), -1});
  kernel.instructions.push_back({"EXIT", ""});
  return kernel;
}

TEST(SassTime, OperationsSayHowOftenAProductLoops) {
  SassKernel kernel =
      loopOf({"LDGSTS.E.128", "HMMA.16816.F32.BF16", "HMMA.16816.F32.BF16"});
  SassLaunch launch;
  launch.blocks = 132;
  launch.threads = 128;
  launch.flops = int64_t(132) * 4 * 8192 * 100;
  SassEstimate estimate = estimateTime(kernel, {64, 0, 0}, launch, target());
  ASSERT_EQ(estimate.runs.size(), 2u);
  EXPECT_DOUBLE_EQ(estimate.runs[1], 100);
  EXPECT_DOUBLE_EQ(estimate.l2Bytes, 132 * 4 * 512 * 100.0);
  // 4 warps of 512 bytes at 28 bytes per cycle against 8192 operations.
  EXPECT_EQ(estimate.boundBy, "L2");
}

TEST(SassTime, MatrixUnitsBindWhereLittleIsLoaded) {
  std::vector<std::string> code(64, "HMMA.16816.F32.BF16");
  code.push_back("LDGSTS.E.128");
  SassLaunch launch;
  launch.blocks = 1320;
  launch.threads = 256;
  launch.flops = int64_t(1320) * 8 * 64 * 4096 * 100;
  SassEstimate estimate =
      estimateTime(loopOf(code), {64, 0, 0}, launch, target());
  EXPECT_EQ(estimate.boundBy, "tensor");
  // Fraction of the peak rate, which the floor assumes, that mma reaches.
  EXPECT_NEAR(estimate.floorSeconds / estimate.seconds, 0.78, 0.01);
}

TEST(SassTime, TheBusiestMultiprocessorDecides) {
  std::vector<std::string> code(64, "HMMA.16816.F32.BF16");
  SassLaunch launch;
  launch.threads = 256;
  auto secondsOf = [&](int64_t blocks) {
    launch.blocks = blocks;
    launch.flops = blocks * 8 * 64 * 4096 * 1000;
    return estimateTime(loopOf(code), {200, 0, 0}, launch, target()).seconds;
  };
  EXPECT_DOUBLE_EQ(secondsOf(1), secondsOf(132));
  EXPECT_DOUBLE_EQ(secondsOf(133), 2 * secondsOf(132));
}

TEST(SassTime, CopiesAreBoundByMemory) {
  SassLaunch launch;
  launch.blocks = 1 << 14;
  launch.threads = 256;
  launch.writtenBytes = int64_t(1) << 30;
  launch.bytes = 2 * launch.writtenBytes;
  launch.elements = launch.writtenBytes / 4;
  SassKernel kernel = loopOf({"LDG.E.128", "STG.E.128"});
  SassEstimate estimate = estimateTime(kernel, {32, 0, 0}, launch, target());
  EXPECT_EQ(estimate.boundBy, "memory");
  EXPECT_DOUBLE_EQ(estimate.seconds, estimate.floorSeconds);
  EXPECT_DOUBLE_EQ(estimate.l2Bytes, double(launch.bytes));
}
