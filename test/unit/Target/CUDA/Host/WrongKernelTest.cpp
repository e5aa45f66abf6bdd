//===- WrongKernelTest.cpp - mistakes that the host runner reports --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each kernel has one mistake that would be a hang, undefined values or a rare
// wrong number on a GPU. The message names kernel, block, thread and line.
//
//===----------------------------------------------------------------------===//

#include "HostKernelTesting.h"

using namespace mpc;

static const char *kKernels = R"(
MPC_KERNEL(64) void missing_barrier(const float *x, float *y, int n) {
  MPC_SHARED(float, row, [64]);
  row[mpc::threadX()] = x[mpc::threadX()];
  y[mpc::threadX()] = row[63 - mpc::threadX()];
}
MPC_KERNEL(64) void missing_second_barrier(const float *x, float *y, int n) {
  MPC_SHARED(float, row, [64]);
  for (int i = 0; i < 2; ++i) {
    row[mpc::threadX()] = x[mpc::threadX()];
    mpc::barrier();
    y[mpc::threadX()] = row[63 - mpc::threadX()];
  }
}
MPC_KERNEL(64) void shuffle_is_no_barrier(const float *x, float *y, int n) {
  MPC_SHARED(float, row, [64]);
  row[mpc::threadX()] = x[mpc::threadX()];
  float sum = mpc::warpSum(1.0f);
  y[mpc::threadX()] = row[mpc::threadX() ^ 1] + sum;
}
MPC_KERNEL(64) void warp_order_is_enough(const float *x, float *y, int n) {
  MPC_SHARED(float, row, [64]);
  for (int i = 0; i < 2; ++i) {
    row[mpc::threadX()] = x[mpc::threadX()];
    mpc::syncWarp();
    y[mpc::threadX()] = row[mpc::threadX() ^ 1];
    mpc::syncWarp();
  }
}
MPC_KERNEL(64) void past_the_input(const float *x, float *y, int n) {
  int i = mpc::threadX();
  if (i <= n)
    y[i < n ? i : 0] = x[i];
}
MPC_KERNEL(64) void past_the_output(const float *x, float *y, int n) {
  int i = mpc::threadX();
  if (i <= n)
    y[i] = 1.0f;
}
MPC_KERNEL(64) void past_shared(const float *x, float *y, int n) {
  MPC_SHARED(float, first, [64]);
  MPC_SHARED(float, second, [64]);
  float *row = first;
  row[mpc::threadX() + n - 49] = x[0];
  second[mpc::threadX()] = 0;
}
MPC_KERNEL(64) void past_a_row(const float *x, float *y, int n) {
  MPC_SHARED(float, tile, [8][8]);
  int t = mpc::threadX();
  if (t < 8)
    for (int i = 0; i < n - 41; ++i)
      tile[t][i] = x[i];
}
MPC_KERNEL(64) void past_dynamic(const float *x, float *y, int n) {
  MPC_DYNAMIC_SHARED(float, row);
  row[mpc::threadX()] = 1.0f;
}
MPC_KERNEL(64) void uninitialised_shared(const float *x, float *y, int n) {
  MPC_SHARED(float, row, [64]);
  if (mpc::threadX() < n)
    row[mpc::threadX()] = x[mpc::threadX()];
  mpc::barrier();
  y[mpc::threadX()] = row[63 - mpc::threadX()];
}
MPC_KERNEL(64) void uninitialised_sum(const float *x, float *y, int n) {
  MPC_SHARED(float, row, [64]);
  row[mpc::threadX()] += x[0];
}
MPC_KERNEL(64) void reads_its_output(const float *x, float *y, int n) {
  y[mpc::threadX()] = y[mpc::threadX()] + x[0];
}
MPC_KERNEL(64) void writes_its_input(float *x, float *y, int n) {
  x[mpc::threadX() % 50] = 1.0f;
}
MPC_KERNEL(64) void leaves_a_hole(const float *x, float *y, int n) {
  if (mpc::threadX() != 7)
    y[mpc::threadX()] = x[0];
}
MPC_KERNEL(64) void divergent_barrier(const float *x, float *y, int n) {
  if (mpc::threadX() < n)
    mpc::barrier();
  y[mpc::threadX()] = x[0];
}
MPC_KERNEL(64) void two_barriers(const float *x, float *y, int n) {
  if (mpc::threadX() < n)
    mpc::barrier();
  else
    mpc::barrier();
  y[mpc::threadX()] = x[0];
}
MPC_KERNEL(64) void part_of_a_warp(const float *x, float *y, int n) {
  float value = x[0];
  if (mpc::threadX() < n)
    value = mpc::shuffleXor(value, 1);
  y[mpc::threadX()] = value;
}
MPC_KERNEL(64) void half_a_warp(const float *x, float *y, int n) {
  y[mpc::threadX()] = mpc::shuffleXor(x[0], 1);
}
MPC_KERNEL(64) void two_warp_operations(const float *x, float *y, int n) {
  float value = x[0];
  if (mpc::lane() < 16)
    value = mpc::shuffleXor(value, 1);
  else
    mpc::syncWarp();
  y[mpc::threadX()] = value;
}
MPC_KERNEL(64) void misaligned(const float *x, float *y, int n) {
  mpc::store(y, mpc::load<4>(x + 1));
}
MPC_KERNEL(64) void blocks_race(const float *x, float *y, int n) {
  y[mpc::threadX()] = x[0];
}
MPC_KERNEL(64) void atomics_and_writes(const float *x, float *y, int n) {
  if (mpc::threadX() == 5)
    y[0] = 0;
  mpc::atomicAdd(&y[0], 1.0f);
}
MPC_KERNEL(64) void too_much_shared(const float *x, float *y, int n) {
  MPC_SHARED(float, huge, [16384]);
  huge[mpc::threadX()] = x[0];
}
)";

namespace {
class WrongKernel : public testing::Test {
protected:
  static void SetUpTestSuite() {
    std::string text = kKernels;
    names = new std::vector<std::string>;
    const std::string mark = "void ";
    for (size_t at = text.find(mark); at != std::string::npos;
         at = text.find(mark, at + 1))
      names->push_back(
          text.substr(at + mark.size(), text.find('(', at) - at - mark.size()));
    module = new HostModule(compileKernels(text, *names));
  }
  static void TearDownTestSuite() {
    delete module;
    delete names;
  }

  /// x of 50 floats, y of 64, both of n = 50 in the kernels' eyes.
  Status run(const std::string &kernel, HostLaunch launch = grid(1, 64)) {
    std::vector<float> x(kernel.find("past") == 0 ? 50 : 64, 1.0f), y(64);
    if (kernel == "past_the_output")
      y.resize(50);
    int n = 50;
    launch.dynamicSharedBytes = 240;
    HostArgument output = HostArgument::output("y", y);
    if (kernel == "atomics_and_writes")
      output = HostArgument::inOut("y", y);
    return module->launch(
        kernel, launch,
        {HostArgument::input("x", x), output, HostArgument::scalar(n)});
  }

  /// The place and the sentence in one line.
  void expect(const std::string &kernel, int line, const std::string &thread,
              const std::string &sentence, HostLaunch launch = grid(1, 64)) {
    Status status = run(kernel, launch);
    ASSERT_FALSE(status.ok()) << kernel;
    EXPECT_EQ(status.where(), "kernel.cu:" + std::to_string(line));
    EXPECT_EQ(status.text(), "kernel '" + kernel + "', block (0,0,0), thread " +
                                 thread + ": " + sentence);
  }

  static HostModule *module;
  static std::vector<std::string> *names;
};
HostModule *WrongKernel::module;
std::vector<std::string> *WrongKernel::names;
} // namespace

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

TEST_F(WrongKernel, MissingBarrier) {
  expect("missing_barrier", 5, "(0,0,0)",
         "reads shared 'row' at offset 252, which is uninitialized");
  expect("missing_second_barrier", 12, "(0,0,0)",
         "reads shared 'row' at offset 252, which thread (63,0,0) writes "
         "without a barrier in between");
}

TEST_F(WrongKernel, OnlySyncWarpOrdersAWarp) {
  expect("shuffle_is_no_barrier", 19, "(27,0,0)",
         "reads shared 'row' at offset 104, which thread (26,0,0) writes "
         "without a barrier in between");
  Status status = run("warp_order_is_enough");
  EXPECT_TRUE(status.ok()) << status.toString();
}

TEST_F(WrongKernel, AtomicsDoNotOrderPlainAccesses) {
  expect("atomics_and_writes", 116, "(5,0,0)",
         "writes 'y' at offset 0, which thread (4,0,0) writes without a "
         "barrier in between");
}

TEST_F(WrongKernel, BlocksWriteTheSameElement) {
  Status status = run("blocks_race", grid(2, 64));
  EXPECT_EQ(status.toString(),
            "kernel.cu:112: kernel 'blocks_race', block (1,0,0), thread "
            "(0,0,0): writes 'y' at offset 0, which another block writes "
            "without synchronization");
  EXPECT_TRUE(run("blocks_race", grid(1, 64)).ok());
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

TEST_F(WrongKernel, PastGlobalArrays) {
  expect("past_the_input", 33, "(50,0,0)",
         "reads 4 bytes at offset 200 of 'x', which has 200 bytes");
  expect("past_the_output", 38, "(50,0,0)",
         "writes 4 bytes at offset 200 of 'y', which has 200 bytes");
}

TEST_F(WrongKernel, PastSharedArrays) {
  expect("past_shared", 44, "(63,0,0)",
         "writes 4 bytes at offset 256 of shared 'first', which has 256 "
         "bytes");
  expect("past_dynamic", 56, "(60,0,0)",
         "writes 4 bytes at offset 240 of shared 'dynamic', which has 240 "
         "bytes");
  // Inside the array, outside its row.
  expect("past_a_row", 52, "(0,0,0)", "indexes past the end of an array");
}

TEST_F(WrongKernel, MisalignedVector) {
  expect("misaligned", 109, "(0,0,0)",
         "accesses several elements at a misaligned address");
}

TEST_F(WrongKernel, MoreSharedMemoryThanABlockHas) {
  expect("too_much_shared", 120, "(0,0,0)",
         "shared 'huge' of 65536 bytes exceeds the shared memory of a block");
}

//===----------------------------------------------------------------------===//
// Contents
//===----------------------------------------------------------------------===//

TEST_F(WrongKernel, ReadsWhatNobodyWrote) {
  expect("uninitialised_shared", 63, "(0,0,0)",
         "reads shared 'row' at offset 252, which is uninitialized");
  expect("reads_its_output", 70, "(0,0,0)",
         "reads 'y' at offset 0, which is uninitialized");
}

#if MPC_HOST_KERNEL_COMPILER_IS_CLANG
TEST_F(WrongKernel, AddsToWhatNobodyWrote) {
  expect("uninitialised_sum", 67, "(0,0,0)",
         "reads shared 'row' at offset 0, which is uninitialized");
}
#endif

TEST_F(WrongKernel, WritesItsInput) {
  expect("writes_its_input", 73, "(0,0,0)",
         "writes 'x' at offset 0, which the launch passes as an input");
}

TEST_F(WrongKernel, LeavesPartOfItsOutput) {
  EXPECT_EQ(run("leaves_a_hole").text(),
            "kernel 'leaves_a_hole' does not write 'y' at offset 28");
}

//===----------------------------------------------------------------------===//
// Barriers and warp operations that not all reach
//===----------------------------------------------------------------------===//

TEST_F(WrongKernel, DivergentBarrier) {
  expect("divergent_barrier", 81, "(0,0,0)",
         "divergent barrier: waits for thread (50,0,0), which has ended");
  expect("two_barriers", 88, "(50,0,0)",
         "divergent barrier: thread (0,0,0) waits at the barrier of line 86");
}

TEST_F(WrongKernel, DivergentWarpOperation) {
  expect("part_of_a_warp", 94, "(32,0,0)",
         "waits at shuffleXor for lane 18, thread (50,0,0), which has ended");
  expect("two_warp_operations", 105, "(16,0,0)",
         "comes to syncWarp while other lanes of its warp wait at "
         "shuffleXor of line 103");
  expect("half_a_warp", 98, "(32,0,0)",
         "waits at shuffleXor for lane 8, which the block does not have",
         grid(1, 40));
}

/// No order of the threads hides a mistake.
TEST_F(WrongKernel, EveryOrderFindsEveryMistake) {
  for (const std::string &name : *names)
    for (ThreadOrder order : kOrders) {
      bool right = name == "warp_order_is_enough";
      int blocks = name == "blocks_race" ? 2 : 1;
      int threads = name == "half_a_warp" ? 40 : 64;
      if (name != "uninitialised_sum" || MPC_HOST_KERNEL_COMPILER_IS_CLANG)
        EXPECT_EQ(run(name, grid(blocks, threads, order)).ok(), right) << name;
    }
}
