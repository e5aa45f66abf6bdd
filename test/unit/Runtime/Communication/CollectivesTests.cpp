//===- CollectivesTests.cpp - tests of asynchronous collectives -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReductionReference.h"

#include "mpc/Target/CUDA/Host/HostDevice.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

using namespace mpc;
using namespace mpc::testing;

namespace {

Collective sumOver(int64_t ranks) {
  Collective how;
  how.ranks = ranks;
  return how;
}

/// Runs `cases` on threads and compares every rank's results bit by bit.
void checkOnThreads(int ranks, const std::vector<MessageCase> &cases) {
  std::vector<Executable> executables;
  executables.reserve(cases.size());
  for (const MessageCase &entry : cases)
    executables.push_back(load(messageProgram(entry.how, entry.sizes)));
  onThreads(ranks, [&](int rank, Communicator &group) {
    for (size_t number = 0; number < cases.size(); ++number) {
      const auto &[how, sizes] = cases[number];
      Result<std::vector<Bytes>> results =
          runMessage(executables[number], rank, &group);
      ASSERT_TRUE(results.ok()) << results.status().toString();
      for (size_t i = 0; i < sizes.size(); ++i) {
        std::vector<Bytes> rows;
        rows.reserve(size_t(ranks));
        for (int other = 0; other < ranks; ++other)
          rows.push_back(draw(how.element, sizes[i], other, i));
        ASSERT_TRUE((*results)[i] == expected(how, rows, size_t(rank)))
            << how.toString() << ", tensor " << i << " of " << sizes.size()
            << " with " << sizes[i] << " elements, rank " << rank;
      }
    }
  });
}

} // namespace

TEST(CollectiveThread, EveryMessageGivesTheReferencesBits) {
  for (int ranks : {1, 2, 3, 4})
    checkOnThreads(ranks, messageCases(ranks));
}

TEST(CollectiveThread, LargeMessagesWhoseSizeDoesNotDivide) {
  for (int ranks : {2, 3}) {
    Collective how = sumOver(ranks);
    std::vector<MessageCase> cases = {{how, {1000003}}, {how, {1000002, 5}}};
    how.element = ElementType::BF16;
    how.kind = Collective::Kind::ReduceScatter;
    cases.push_back({how, {1000003, 2}});
    checkOnThreads(ranks, cases);
  }
}

TEST(CollectiveThread, OneRankNeedsNoCommunicator) {
  Executable executable = load(messageProgram(sumOver(1), {5}));
  Result<std::vector<Bytes>> results = runMessage(executable, 0, nullptr);
  ASSERT_TRUE(results.ok());
  EXPECT_EQ((*results)[0], draw(ElementType::F32, 5, 0, 0));
}

TEST(CollectiveThread, OtherNumbersOfRanksAreRefused) {
  Executable executable = load(messageProgram(sumOver(4), {5}));
  Status status = runMessage(executable, 0, nullptr).status();
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(status.toString(), "main: was compiled for 4 ranks, but runs "
                               "without a communicator, as 1 rank");
  status = runMessage(executable, 0, connectThreads(2)[0].get()).status();
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(status.toString(), "main: was compiled for 4 ranks, but the "
                               "communicator has 2");
  executable = load(messageProgram(sumOver(1), {5}));
  status = runMessage(executable, 0, connectThreads(2)[0].get()).status();
  EXPECT_EQ(status.toString(), "main: was compiled for 1 ranks, but the "
                               "communicator has 2");
}

TEST(CollectiveThread, ADeviceThatRunsNothingNeedsNoRanks) {
  Executable executable = *Executable::create(
      Device::null(),
      std::make_shared<const Program>(messageProgram(sumOver(4), {5})));
  Result<std::vector<Bytes>> results = runMessage(executable, 0, nullptr);
  ASSERT_TRUE(results.ok());
  EXPECT_EQ((*results)[0], Bytes(20));
}

TEST(CollectiveThread, KernelsForGpusOnTheHostSendToo) {
  Program program = messageProgram(sumOver(2), {7, 3});
  program.target = "cuda:sm_90a";
  program.cuda = std::make_shared<const CudaCode>();
  Device device = cudaHostDevice();
  Result<Executable> executable = Executable::create(
      device, std::make_shared<const Program>(std::move(program)));
  ASSERT_TRUE(executable.ok()) << executable.status().toString();
  // Kernels of a program run one at a time there: each rank has its own.
  Executable other = *Executable::create(
      device, std::make_shared<const Program>(executable->program()));
  onThreads(2, [&](int rank, Communicator &group) {
    Result<std::vector<Bytes>> results =
        runMessage(rank == 0 ? *executable : other, rank, &group);
    ASSERT_TRUE(results.ok()) << results.status().toString();
    EXPECT_EQ((*results)[0], expected(sumOver(2),
                                      {draw(ElementType::F32, 7, 0, 0),
                                       draw(ElementType::F32, 7, 1, 0)},
                                      size_t(rank)));
  });
}

//===----------------------------------------------------------------------===//
// Order and overlap
//===----------------------------------------------------------------------===//

namespace {

/// Two ranks in one: sent data come back twice. A message waits until it
/// may end, and signals its start.
class Mirror : public Communicator {
public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  Status allGather(const void *send, void *receive, size_t bytes) override {
    begun = begun + 1;
    auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!mayEnd && std::chrono::steady_clock::now() < limit)
      std::this_thread::yield();
    if (!mayEnd)
      return Status(StatusCode::Internal, purpose, "nothing ran beside it");
    for (size_t half = 0; half < 2; ++half)
      std::memcpy(static_cast<char *>(receive) + half * bytes, send, bytes);
    ended = ended + 1;
    if (fails)
      return Status(StatusCode::Unavailable, "rank 0 of 2", "network is gone");
    return {};
  }
  Status allToAll(const void *, void *, size_t) override {
    return Status(StatusCode::Internal, "", "is not small");
  }
  Status broadcast(void *, size_t, int) override { return {}; }
  void abort(const std::string &) override {}

  std::atomic<int> begun = 0, ended = 0;
  std::atomic<bool> mayEnd = false, fails = false;
};

/// State for kernels, which have no other pointer to it.
Mirror *current = nullptr;

/// y = 1, concurrent with a message: lets the message end once it has started.
void besideKernel(void *const *buffers, int64_t, int64_t, void *) {
  auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (current->begun == 0 && std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
  *static_cast<float *>(buffers[0]) = current->ended == 0 ? 1 : -1;
  current->mayEnd = true;
}

/// y = how many messages were over.
void countKernel(void *const *buffers, int64_t, int64_t, void *) {
  *static_cast<float *>(buffers[1]) = float(current->ended);
}

BufferRef arena(int64_t offset, bool written) {
  return {BufferRef::Kind::Arena, 0, offset, 4, written};
}
BufferRef result(int64_t index, bool written = true) {
  return {BufferRef::Kind::Result, index, 0, 4, written};
}

Launch kernel(KernelFunction function, std::vector<BufferRef> buffers) {
  Launch launch;
  launch.kernel = "k";
  launch.function = function;
  launch.buffers = std::move(buffers);
  return launch;
}
Launch message(BufferRef from, BufferRef to) {
  Launch launch;
  launch.kernel = "sum";
  launch.collective = sumOver(2);
  launch.buffers = {from, to};
  return launch;
}

Program withResults(std::vector<Launch> launches, size_t results) {
  Program program;
  program.name = "main";
  program.arenaBytes = 4096;
  for (size_t i = 0; i < results; ++i)
    program.results.push_back(
        {"y" + std::to_string(i), {ElementType::F32, {1}}});
  program.launches = std::move(launches);
  return program;
}

/// Runs with a mirror; the results, one number each.
Result<std::vector<float>> runMirrored(const Program &program, Mirror &mirror,
                                       RunOptions options = {}) {
  current = &mirror;
  options.communicator = &mirror;
  Result<std::vector<Buffer>> results = load(program).run({}, options);
  if (!results.ok())
    return results.status();
  std::vector<float> numbers;
  for (const Buffer &buffer : *results)
    numbers.push_back(buffer.as<float>()[0]);
  return numbers;
}

} // namespace

TEST(CollectiveThread, LaunchesOverlapACollectiveUntilOneNeedsIt) {
  auto fill = [](void *const *buffers, int64_t, int64_t, void *) {
    *static_cast<float *>(buffers[0]) = 5;
  };
  auto copy = [](void *const *buffers, int64_t, int64_t, void *) {
    *static_cast<float *>(buffers[1]) = *static_cast<float *>(buffers[0]);
  };
  Mirror mirror;
  Result<std::vector<float>> numbers =
      runMirrored(withResults({kernel(fill, {arena(0, true)}),
                               message(arena(0, false), arena(64, true)),
                               kernel(besideKernel, {result(0)}),
                               kernel(copy, {arena(64, false), result(1)})},
                              2),
                  mirror);
  ASSERT_TRUE(numbers.ok()) << numbers.status().toString();
  EXPECT_EQ(*numbers, (std::vector<float>{1, 10}));
}

TEST(CollectiveThread, WhoWritesAMessagesInputWaits) {
  Mirror mirror;
  Result<std::vector<float>> numbers = runMirrored(
      withResults({message(arena(0, false), arena(64, true)),
                   kernel(besideKernel, {result(0)}),
                   kernel(countKernel, {arena(128, false), arena(0, true)}),
                   kernel(
                       [](void *const *buffers, int64_t, int64_t, void *) {
                         *static_cast<float *>(buffers[1]) =
                             *static_cast<float *>(buffers[0]);
                       },
                       {arena(0, false), result(1)})},
                  2),
      mirror);
  ASSERT_TRUE(numbers.ok()) << numbers.status().toString();
  EXPECT_EQ(*numbers, (std::vector<float>{1, 1}));
}

TEST(CollectiveThread, ARunEndsWithItsMessages) {
  Mirror mirror;
  std::vector<double> milliseconds;
  Result<std::vector<float>> numbers =
      runMirrored(withResults({message(arena(0, false), arena(64, true)),
                               message(arena(64, false), arena(128, true)),
                               kernel(besideKernel, {result(0)})},
                              1),
                  mirror, {.launchMilliseconds = &milliseconds});
  ASSERT_TRUE(numbers.ok());
  EXPECT_EQ(mirror.ended, 2);
  ASSERT_EQ(milliseconds.size(), 3u);
  for (double time : milliseconds)
    EXPECT_GE(time, 0);
}

TEST(CollectiveThread, AMessagesTimeIsHowLongItWasAwaited) {
  // Nothing runs concurrently: the waiting thread performs the collective.
  Program program = withResults({message(arena(0, false), result(0))}, 1);
  Mirror mirror;
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    mirror.mayEnd = true;
  });
  std::vector<double> milliseconds;
  EXPECT_TRUE(
      runMirrored(program, mirror, {.launchMilliseconds = &milliseconds}).ok());
  late.join();
  EXPECT_GE(milliseconds[0], 20);
}

TEST(CollectiveThread, AFailureEndsTheRunAndTheNextOneIsNew) {
  Executable executable =
      load(withResults({message(arena(0, false), arena(64, true)),
                        message(arena(128, false), arena(192, true)),
                        kernel(besideKernel, {result(0)}),
                        kernel(countKernel, {arena(64, false), result(1)})},
                       2));
  Mirror mirror;
  current = &mirror;
  RunOptions options;
  options.communicator = &mirror;
  for (int round = 0; round < 3; ++round) {
    mirror.fails = round == 1;
    mirror.begun = mirror.ended = 0;
    mirror.mayEnd = false;
    Result<std::vector<Buffer>> results = executable.run({}, options);
    EXPECT_EQ(results.ok() ? "ok" : results.status().toString(),
              round == 1 ? "rank 0 of 2: network is gone" : "ok");
    EXPECT_EQ(mirror.ended, round == 1 ? 1 : 2);
  }
}

TEST(CollectiveThread, ARankThatFailsWakesTheOthersRuns) {
  Executable executable = load(messageProgram(sumOver(2), {100}));
  onThreads(2, [&](int rank, Communicator &group) {
    if (rank == 1) {
      group.abort("lost its data");
      return;
    }
    Status status = runMessage(executable, rank, &group).status();
    EXPECT_EQ(status.toString(), "rank 0 of 2: message 'exchanged' of main: "
                                 "rank 1 of 2: lost its data");
  });
}

TEST(CollectiveThread, ParametersAreRenewedInTheirPlace) {
  Program program = messageProgram(sumOver(3), {10});
  program.results[0].name = program.arguments[0].name;
  program.results[0].alias = 0;
  Executable executable = load(program);
  onThreads(3, [&](int rank, Communicator &group) {
    Buffer buffer = *Buffer::allocate({ElementType::F32, {10}});
    for (float &value : buffer.as<float>())
      value = float(rank + 1);
    std::vector<Buffer> arguments = {buffer};
    RunOptions options;
    options.communicator = &group;
    for (float sum : {6.0f, 18.0f}) {
      ASSERT_TRUE(executable.run(arguments, options).ok());
      for (float value : buffer.as<float>())
        ASSERT_EQ(value, sum);
    }
  });
}
