//===- HostDeviceTest.cpp - the device cuda-host --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs of kernels that are written by hand.
//
//===----------------------------------------------------------------------===//

#include "mpc/Target/CUDA/Host/HostDevice.h"

#include "mpc/Runtime/Executable.h"

#include <gtest/gtest.h>

using namespace mpc;

namespace {

constexpr const char *kTwice = R"(
MPC_KERNEL(32) void k_twice(const float *__restrict__ x, float *__restrict__ y) {
  int i = mpc::blockX() * 32 + mpc::threadX();
  if (i < 100)
    y[i] = 2.0f * x[i];
}
)";
/// Adds one and counts its runs in the scratch buffer.
constexpr const char *kCount = R"(
MPC_KERNEL(32) void k_count(const float *__restrict__ x, float *__restrict__ y,
                            unsigned char *__restrict__ scratch) {
  int i = mpc::blockX() * 32 + mpc::threadX();
  if (i < 100)
    y[i] = x[i] + (float)scratch[i];
  if (i < 100)
    scratch[i] = scratch[i] + 1;
}
)";
constexpr const char *kRace = R"(
MPC_KERNEL(32) void k_race(const float *__restrict__ x, float *__restrict__ y) {
  int i = mpc::blockX() * 32 + mpc::threadX();
  if (i < 100)
    y[i] = x[i];
  if (i < 99)
    y[i + 1] = x[i];
}
)";
/// Bytes and halves that neighbours write are no race.
constexpr const char *kNarrow = R"(
MPC_KERNEL(32) void k_narrow(const float *__restrict__ x, bool *__restrict__ y,
                             mpc::bfloat16 *__restrict__ z) {
  int i = mpc::blockX() * 32 + mpc::threadX();
  if (i >= 100)
    return;
  y[i] = x[i] > 3.0f;
  z[i] = mpc::toBfloat16(x[i]);
}
)";

const TensorType kType{ElementType::F32, {100}};

Launch launchOf(const char *kernel, std::vector<BufferRef> buffers) {
  Launch launch;
  launch.kernel = kernel;
  launch.kind = "elementwise";
  launch.ops = {"first", "second"};
  launch.buffers = std::move(buffers);
  launch.grid.blocks = {4, 1, 1};
  launch.grid.threads = 32;
  return launch;
}

/// y = kernel(2 * x).
std::shared_ptr<Program> makeProgram(const char *name, const char *text) {
  auto program = std::make_shared<Program>();
  program->name = "main";
  program->target = "cuda:sm_80";
  program->arguments = {{"x", kType}};
  program->results = {{"y", kType}};
  program->arenaBytes = 448;
  program->launches = {
      launchOf("k_twice", {{BufferRef::Kind::Argument, 0, 0, 400, false},
                           {BufferRef::Kind::Arena, 0, 0, 400, true}}),
      launchOf(name, {{BufferRef::Kind::Arena, 0, 0, 400, false},
                      {BufferRef::Kind::Result, 0, 0, 400, true}})};
  auto code = std::make_shared<CudaCode>();
  code->kernels = {{"k_twice", kTwice}, {name, text}};
  program->cuda = code;
  return program;
}

Buffer input() {
  std::vector<float> values(100);
  for (int i = 0; i < 100; ++i)
    values[size_t(i)] = float(i);
  return *Buffer::fromValues<float>(kType, values);
}

Device device(ThreadOrder order = ThreadOrder::Ascending) {
  HostDeviceOptions options;
  options.kernels.compiler = MPC_HOST_KERNEL_COMPILER;
  options.kernels.cacheFolder = MPC_HOST_KERNEL_CACHE;
  options.order = order;
  return cudaHostDevice(options);
}

} // namespace

TEST(HostDevice, SaysWhatItIs) {
  Device host = device();
  EXPECT_EQ(host.name(), "cuda-host");
  EXPECT_EQ(host.architecture(), "sm_80");
  EXPECT_TRUE(host.needsCode());
  EXPECT_FALSE(host.hasOwnMemory());
}

TEST(HostDevice, RunsLaunchesInOrder) {
  auto program = makeProgram("k_count", kCount);
  program->launches[1].scratchBytes = 100;
  Result<Executable> executable =
      Executable::create(device(ThreadOrder::Shuffled), program);
  ASSERT_TRUE(executable.ok()) << executable.status().toString();
  std::array inputs = {input()};
  // Scratch memory is zero at first and stays between runs.
  for (int run = 0; run < 3; ++run) {
    std::vector<double> milliseconds;
    RunOptions options;
    options.launchMilliseconds = &milliseconds;
    Result<std::vector<Buffer>> results = executable->run(inputs, options);
    ASSERT_TRUE(results.ok()) << results.status().toString();
    for (int i = 0; i < 100; ++i)
      ASSERT_EQ(results->front().as<float>()[size_t(i)], float(2 * i + run));
    EXPECT_EQ(milliseconds.size(), 2u);
  }
}

TEST(HostDevice, NarrowElementsAreNoRace) {
  auto program = makeProgram("k_narrow", kNarrow);
  program->results = {{"y", {ElementType::I1, {100}}},
                      {"z", {ElementType::BF16, {100}}}};
  program->launches[1].buffers = {{BufferRef::Kind::Arena, 0, 0, 400, false},
                                  {BufferRef::Kind::Result, 0, 0, 100, true},
                                  {BufferRef::Kind::Result, 1, 0, 200, true}};
  Result<Executable> executable = Executable::create(device(), program);
  ASSERT_TRUE(executable.ok()) << executable.status().toString();
  std::array inputs = {input()};
  Result<std::vector<Buffer>> results = executable->run(inputs);
  ASSERT_TRUE(results.ok()) << results.status().toString();
  EXPECT_EQ((*results)[0].as<uint8_t>()[1], 0);
  EXPECT_EQ((*results)[0].as<uint8_t>()[2], 1);
  EXPECT_EQ((*results)[1].as<uint16_t>()[1], 0x4000);
}

TEST(HostDevice, ChecksNameKernelAndOps) {
  if (!MPC_HOST_KERNEL_COMPILER_IS_CLANG)
    GTEST_SKIP() << "the checks are clang's";
  Result<Executable> executable =
      Executable::create(device(), makeProgram("k_race", kRace));
  ASSERT_TRUE(executable.ok()) << executable.status().toString();
  std::array inputs = {input()};
  Result<std::vector<Buffer>> results = executable->run(inputs);
  ASSERT_FALSE(results.ok());
  EXPECT_NE(results.status().text().find("k_race"), std::string::npos)
      << results.status().toString();
  ASSERT_FALSE(results.status().notes().empty());
  EXPECT_EQ(results.status().notes().back(),
            "kernel 'k_race' computes first, second");
}

TEST(HostDevice, MissingKernelsAreRefused) {
  auto program = makeProgram("k_count", kCount);
  program->launches[1].kernel = "k_other";
  Result<Executable> executable = Executable::create(device(), program);
  ASSERT_FALSE(executable.ok());
  EXPECT_EQ(executable.status().text(), "lacks kernel 'k_other'");
  program->cuda = nullptr;
  program->target = "cpu:avx2";
  executable = Executable::create(device(), program);
  ASSERT_FALSE(executable.ok());
  EXPECT_NE(executable.status().text().find("cpu:avx2"), std::string::npos);
}

TEST(HostDevice, MissingCompilerIsNamed) {
  HostDeviceOptions options;
  options.kernels.compiler = "mpc-no-such-compiler";
  Result<Executable> executable = Executable::create(
      cudaHostDevice(options), makeProgram("k_count", kCount));
  ASSERT_FALSE(executable.ok());
  EXPECT_EQ(executable.status().code(), StatusCode::Unavailable);
  EXPECT_EQ(executable.status().where(), "mpc-no-such-compiler");
}

// A GEMM with every flag, against the formula on small integers.
TEST(HostDevice, ComputesTheProductsOfLibraries) {
  for (int flags = 0; flags < 256; ++flags) {
    GemmProblem p;
    p.m = 3;
    p.n = 5;
    p.k = 4;
    p.batch = 2;
    p.transposeA = flags & 1;
    p.transposeB = flags & 2;
    p.sharedA = flags & 4;
    p.sharedB = flags & 8;
    p.bias = flags & 16;
    p.residual = flags & 32;
    p.activation = flags & 64 ? GemmProblem::Activation::Relu
                              : GemmProblem::Activation::None;
    p.compute =
        flags & 128 ? GemmProblem::Compute::Tf32 : GemmProblem::Compute::Native;
    if (p.residual && flags & 64) // no library has both
      continue;
    std::vector<GemmProblem::Slot> slots = *p.slots();
    auto program = std::make_shared<Program>();
    program->name = "main";
    program->target = "cuda:sm_80";
    program->cuda = std::make_shared<CudaCode>();
    Launch launch;
    launch.kernel = "product";
    launch.gemm = p;
    std::vector<Buffer> inputs;
    for (size_t i = 0; i < slots.size(); ++i) {
      TensorType type{ElementType::F32, {slots[i].bytes / 4}};
      bool last = slots[i].written;
      launch.buffers.push_back(
          {last ? BufferRef::Kind::Result : BufferRef::Kind::Argument,
           last ? 0 : int64_t(i), 0, slots[i].bytes, last});
      if (last) {
        program->results = {{"d", type}};
        continue;
      }
      program->arguments.push_back({"x" + std::to_string(i), type});
      Buffer buffer = *Buffer::allocate(type);
      int value = int(i);
      for (float &element : buffer.as<float>())
        element = float((value++ * 7) % 11 - 5);
      inputs.push_back(buffer);
    }
    program->launches = {launch};
    Result<Executable> executable = Executable::create(device(), program);
    ASSERT_TRUE(executable.ok()) << executable.status().toString();
    Result<std::vector<Buffer>> results = executable->run(inputs);
    ASSERT_TRUE(results.ok()) << results.status().toString();
    auto a = inputs[0].as<float>(), b = inputs[1].as<float>();
    for (int batch = 0; batch < 2; ++batch)
      for (int m = 0; m < 3; ++m)
        for (int n = 0; n < 5; ++n) {
          float sum = 0;
          for (int k = 0; k < 4; ++k) {
            int left = p.transposeA ? k * 3 + m : m * 4 + k;
            int right = p.transposeB ? n * 4 + k : k * 5 + n;
            sum += a[size_t(left + (p.sharedA ? 0 : batch * 12))] *
                   b[size_t(right + (p.sharedB ? 0 : batch * 20))];
          }
          int at = (batch * 3 + m) * 5 + n;
          if (p.bias)
            sum += inputs[2].as<float>()[size_t(n)];
          if (p.residual)
            sum += inputs.back().as<float>()[size_t(at)];
          if (p.activation == GemmProblem::Activation::Relu && sum < 0)
            sum = 0;
          ASSERT_EQ(results->front().as<float>()[size_t(at)], sum) << flags;
        }
  }
}
