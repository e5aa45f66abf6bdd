//===- ExecutableTests.cpp - tests of programs and their execution --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs are built by hand here, with C++ functions in the place of compiled
// kernels.
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Executable.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

using namespace mpc;

namespace {

constexpr int64_t kCount = 1000;

/// out[i] = in[i] * 2
void doubleKernel(void *const *buffers, int64_t begin, int64_t end, void *) {
  const auto *in = static_cast<const float *>(buffers[0]);
  auto *out = static_cast<float *>(buffers[1]);
  for (int64_t i = begin; i < end; ++i)
    out[i] = in[i] * 2;
}

/// out[i] = a[i] + b[i], through the scratch memory
void addKernel(void *const *buffers, int64_t begin, int64_t end,
               void *scratch) {
  const auto *a = static_cast<const float *>(buffers[0]);
  const auto *b = static_cast<const float *>(buffers[1]);
  auto *out = static_cast<float *>(buffers[2]);
  auto *sum = static_cast<float *>(scratch);
  for (int64_t i = begin; i < end; ++i) {
    *sum = a[i] + b[i];
    out[i] = *sum;
  }
}

BufferRef ref(BufferRef::Kind kind, int64_t index, int64_t offset,
              bool written) {
  return {kind, index, offset, kCount * 4, written};
}

/// y = 2 * x + c, with 2 * x in the arena.
Program makeProgram() {
  TensorType type{ElementType::F32, {kCount}};
  Program program;
  program.name = "main";
  program.target = "cpu:test";
  program.arguments = {{"x", type}};
  program.results = {{"y", type}};
  std::shared_ptr<void> constant = allocateAligned(kCount * 4);
  for (int64_t i = 0; i < kCount; ++i)
    static_cast<float *>(constant.get())[i] = float(i);
  program.constants = {{"c", type, constant, kCount * 4}};
  program.arenaBytes = kCount * 4;
  Launch twice;
  twice.kernel = "double";
  twice.kind = "elementwise";
  twice.function = doubleKernel;
  twice.buffers = {ref(BufferRef::Kind::Argument, 0, 0, false),
                   ref(BufferRef::Kind::Arena, 0, 0, true)};
  twice.items = kCount;
  twice.grain = 16;
  twice.flops = kCount;
  twice.bytes = kCount * 8;
  Launch add;
  add.kernel = "add";
  add.kind = "elementwise";
  add.function = addKernel;
  add.buffers = {ref(BufferRef::Kind::Arena, 0, 0, false),
                 ref(BufferRef::Kind::Constant, 0, 0, false),
                 ref(BufferRef::Kind::Result, 0, 0, true)};
  add.items = kCount;
  add.grain = 64;
  add.scratchBytes = 4;
  add.flops = kCount;
  add.bytes = kCount * 12;
  program.launches = {twice, add};
  return program;
}

Result<Executable> makeExecutable(Program program, int threads) {
  Result<Device> device = Device::cpu({.threads = threads});
  if (!device.ok())
    return device.status();
  return Executable::create(
      *device, std::make_shared<const Program>(std::move(program)));
}

Buffer makeInput(float start) {
  Buffer input = *Buffer::allocate({ElementType::F32, {kCount}});
  for (int64_t i = 0; i < kCount; ++i)
    input.as<float>()[i] = start + float(i);
  return input;
}

} // namespace

/// Leaves each element's double in shared memory; later items, one for each
/// quarter, add up all that were left, in order.
void sumKernel(void *const *buffers, int64_t begin, int64_t end, void *) {
  const auto *in = static_cast<const float *>(buffers[0]);
  auto *out = static_cast<float *>(buffers[1]);
  auto *left = static_cast<float *>(buffers[2]);
  for (int64_t i = begin; i < std::min(end, kCount); ++i)
    left[i] = 2 * in[i];
  for (int64_t i = std::max(begin, kCount); i < end; ++i)
    for (int64_t j = 0; j < kCount / 4; ++j)
      out[(i - kCount) * (kCount / 4) + j] =
          std::accumulate(left, left + kCount, 0.0f);
}

TEST(Executable, RunsLaterItemsAfterAllOthers) {
  Program program = makeProgram();
  Launch &sum = program.launches[0];
  sum.function = sumKernel;
  sum.items = kCount + 4;
  sum.laterItems = 4;
  sum.sharedBytes = kCount * 4;
  Buffer input = makeInput(3);
  float expected = 0;
  for (int64_t i = 0; i < kCount; ++i)
    expected += 2 * input.as<float>()[i];
  for (int threads = 1; threads <= 8; ++threads) {
    Result<Executable> executable = makeExecutable(program, threads);
    ASSERT_TRUE(executable.ok()) << executable.status().toString();
    for (int run = 0; run < 50; ++run) {
      Result<std::vector<Buffer>> results = executable->run(std::array{input});
      ASSERT_TRUE(results.ok()) << results.status().toString();
      for (int64_t i = 0; i < kCount; ++i)
        ASSERT_EQ((*results)[0].as<float>()[i], expected + float(i))
            << threads << " threads";
    }
  }
}

TEST(Executable, RunsLaunchesInOrder) {
  for (int threads : {1, 2, 3}) {
    Result<Executable> executable = makeExecutable(makeProgram(), threads);
    ASSERT_TRUE(executable.ok()) << executable.status().toString();
    std::vector<double> milliseconds;
    RunOptions options;
    options.launchMilliseconds = &milliseconds;
    std::array inputs = {makeInput(3)};
    Result<std::vector<Buffer>> results = executable->run(inputs, options);
    ASSERT_TRUE(results.ok()) << results.status().toString();
    for (int64_t i = 0; i < kCount; ++i)
      ASSERT_EQ(results->front().as<float>()[i], 2 * (3 + float(i)) + float(i));
    EXPECT_EQ(milliseconds.size(), 2u);
  }
}

TEST(Executable, AForkedChildRuns) {
  Executable executable = *makeExecutable(makeProgram(), 3);
  std::array inputs = {makeInput(3)};
  ASSERT_TRUE(executable.run(inputs).ok());
  pid_t child = fork();
  if (child == 0) {
    // Ends a child that waits for threads of its parent.
    alarm(20);
    Result<std::vector<Buffer>> results = executable.run(inputs);
    _exit(results.ok() && results->front().as<float>()[1] == 2 * 4 + 1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Executable, ConcurrentRunsDoNotMeet) {
  Executable executable = *makeExecutable(makeProgram(), 2);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round) {
        std::array inputs = {makeInput(float(t * 100 + round))};
        Result<std::vector<Buffer>> results = executable.run(inputs);
        for (int64_t i = 0; i < kCount; ++i)
          wrong += results->front().as<float>()[i] !=
                   2 * inputs[0].as<float>()[i] + float(i);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Executable, FindsNames) {
  Executable executable = *makeExecutable(makeProgram(), 1);
  EXPECT_EQ(executable.argumentIndex("x"), 0);
  EXPECT_EQ(executable.resultIndex("y"), 0);
  EXPECT_EQ(executable.resultIndex("z"), -1);
  EXPECT_EQ(executable.program().bytesMoved(), kCount * 20);
  EXPECT_EQ(executable.program().flops(), kCount * 2);
}

TEST(Executable, OutlivesItsParts) {
  std::optional<Executable> executable;
  {
    Device device = *Device::cpu({.threads = 1});
    auto program = std::make_shared<const Program>(makeProgram());
    executable = *Executable::create(device, program);
  }
  std::array inputs = {makeInput(0)};
  EXPECT_TRUE(executable->run(inputs).ok());
}

/// Invalid programs: each is one change of a valid program.
struct BadProgram {
  const char *name;
  void (*change)(Program &);
  const char *message;
};

class ValidateTest : public testing::TestWithParam<BadProgram> {};

TEST_P(ValidateTest, Refuses) {
  Program program = makeProgram();
  ASSERT_TRUE(validate(program, true).ok());
  GetParam().change(program);
  Status status = validate(program, true);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.toString().find(GetParam().message), std::string::npos)
      << status.toString();
}

INSTANTIATE_TEST_SUITE_P(
    Program, ValidateTest,
    testing::Values(
        BadProgram{"noCode",
                   [](Program &p) { p.launches[0].function = nullptr; },
                   "has no code"},
        BadProgram{"noArgument",
                   [](Program &p) { p.launches[0].buffers[0].index = 1; },
                   "refers to a value that does not exist"},
        BadProgram{"arenaTooShort", [](Program &p) { p.arenaBytes -= 1; },
                   "reaches from byte 0"},
        BadProgram{"negativeOffset",
                   [](Program &p) { p.launches[1].buffers[0].offset = -4; },
                   "reaches from byte -4"},
        BadProgram{
            "hugeOffset",
            [](Program &p) { p.launches[1].buffers[0].offset = INT64_MAX; },
            "reaches from byte"},
        BadProgram{"writesConstant",
                   [](Program &p) { p.launches[1].buffers[1].written = true; },
                   "writes an argument or a constant"},
        BadProgram{"zeroGrain", [](Program &p) { p.launches[0].grain = 0; },
                   "grain 0"},
        BadProgram{"moreLaterItemsThanAll",
                   [](Program &p) { p.launches[0].laterItems = kCount + 1; },
                   "later items of"},
        BadProgram{"negativeShare",
                   [](Program &p) { p.launches[0].sharedBytes = -1; },
                   "-1 bytes that they share"},
        BadProgram{"negativeArena", [](Program &p) { p.arenaBytes = -1; },
                   "arena of -1 bytes"},
        BadProgram{"shortConstant",
                   [](Program &p) { p.constants[0].bytes = 8; }, "has 8 bytes"},
        BadProgram{"endlessResult",
                   [](Program &p) { p.results[0].type.shape = {-1}; },
                   "has no size"}),
    [](const testing::TestParamInfo<BadProgram> &info) {
      return info.param.name;
    });

TEST(Device, RefusesSenselessThreads) {
  EXPECT_FALSE(Device::cpu({.threads = -1}).ok());
  EXPECT_FALSE(Device::cpu({.threads = 1000000}).ok());
  EXPECT_GE(Device::cpu()->threads(), 1);
}
