//===- NcclTests.cpp - tests of messages among GPUs -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CUDA/NcclLibrary.h"
#include "CudaTestProgram.h"
#include "FakeNccl.h"

#include <algorithm>
#include <cstring>
#include <thread>

using namespace mpc;
using namespace mpc::detail;
using namespace mpc::recording;
using namespace mpc::testing;

namespace {

/// A group with this rank alone in the process: the others send the same data.
class Echo : public Communicator {
public:
  Echo(int rank, int size) : self(rank), ranks(size) {}
  int rank() const override { return self; }
  int size() const override { return ranks; }
  Status allGather(const void *send, void *receive, size_t bytes) override {
    for (int rank = 0; rank < ranks; ++rank)
      std::memcpy(static_cast<char *>(receive) + size_t(rank) * bytes, send,
                  bytes);
    return {};
  }
  Status allToAll(const void *send, void *receive, size_t bytes) override {
    std::memcpy(receive, send, bytes * size_t(ranks));
    return {};
  }
  Status broadcast(void *, size_t, int) override { return {}; }
  void abort(const std::string &) override {}

private:
  const int self, ranks;
};

/// A message with an input and an output in the arena.
Launch message(const Collective &how, BufferRef input, BufferRef output) {
  Launch launch;
  launch.kernel = "gradients";
  launch.kind = "message";
  launch.collective = how;
  output.written = true;
  launch.buffers = {input, output};
  return launch;
}

/// The program of two kernels with a collective on the intermediate result
/// before "add" reads it, and an independent second launch of "double".
Program makeRankedProgram(const Collective &how) {
  Program program = makeCudaProgram();
  const BufferRef product = program.launches[0].buffers[1];
  BufferRef sum = product, other = product;
  sum.offset = 256 + 4096;
  other.offset = 256 + 2 * 4096;
  program.arenaBytes = other.offset + kElements * 4;
  Launch beside = program.launches[0];
  beside.buffers[1] = other;
  program.launches[1].buffers[0] = sum;
  program.launches[1].buffers[0].written = false;
  BufferRef read = product;
  read.written = false;
  program.launches.insert(program.launches.begin() + 1,
                          {message(how, read, sum), beside});
  return program;
}

/// A device whose messages `nccl` sends as rank `rank` of `size`.
CudaServices servicesOf(const FakeNccl &nccl, int rank, int size) {
  CudaServices services{compileTexts, {}};
  services.ranks = size;
  services.joinRanks = [&nccl, rank,
                        size](std::shared_ptr<CudaContext> context) {
    Echo group(rank, size);
    return joinNccl(&nccl.table, std::move(context), group);
  };
  return services;
}

Collective meanOver(int64_t ranks) {
  Collective how;
  how.reduction = Collective::Reduction::Mean;
  how.ranks = ranks;
  return how;
}

/// The calls that order streams, and the launches.
std::vector<std::string> order() {
  std::vector<std::string> names;
  for (const Call &made : calls())
    if (made.name == "cuLaunchKernel" || made.name == "cuEventRecord" ||
        made.name == "cuStreamWaitEvent" || made.name == "work")
      names.push_back(made.name == "cuLaunchKernel"
                          ? made.detail.substr(0, made.detail.find(' '))
                      : made.name == "work" ? made.detail
                                            : made.name);
  return names;
}

using NcclTest = CudaTest;

} // namespace

TEST_F(NcclTest, MessagesRunOnAStreamOfTheirOwnInsideTheGraph) {
  FakeNccl nccl;
  {
    Device device = *makeCudaDevice({}, servicesOf(nccl, 0, 2));
    Executable executable =
        *makeCudaExecutable(device, makeRankedProgram(meanOver(2)));
    std::array arguments = {makeVector(1)};
    forgetCalls();
    Result<std::vector<Buffer>> results = executable.run(arguments);
    ASSERT_TRUE(results.ok()) << results.status().toString();
    // The other rank has 100 more: the mean 50.
    std::span<const float> values = results->front().as<float>();
    for (int64_t i = 0; i < kElements; ++i)
      ASSERT_EQ(values[i], 2 * (1 + float(i)) + 50 + float(i));
    EXPECT_EQ(count("cuGraphLaunch"), 1);
    std::vector<std::string> seen = order();
    auto begin = std::find(seen.begin(), seen.end(), "double");
    ASSERT_NE(begin, seen.end());
    const std::vector<std::string> wanted = {"double",
                                             "cuEventRecord",
                                             "cuStreamWaitEvent",
                                             "ncclAllReduce of 1000 by 4 in 7",
                                             "cuEventRecord",
                                             "double",
                                             "cuStreamWaitEvent",
                                             "add"};
    ASSERT_GE(size_t(seen.end() - begin), wanted.size());
    EXPECT_EQ(std::vector<std::string>(begin, begin + ptrdiff_t(wanted.size())),
              wanted);
    EXPECT_EQ(nccl.depth, 0);
    // A second run is a launch of the graph alone.
    nccl.calls.clear();
    results = executable.run(arguments);
    ASSERT_TRUE(results.ok());
    EXPECT_EQ(results->front().as<float>()[7], 2 * 8 + 50 + 7);
  }
  EXPECT_EQ(nccl.alive, 0);
}

TEST_F(NcclTest, EveryKindOfMessage) {
  for (Collective::Reduction reduction :
       {Collective::Reduction::Sum, Collective::Reduction::Min,
        Collective::Reduction::Max}) {
    FakeNccl nccl;
    Collective how = meanOver(3);
    how.reduction = reduction;
    Device device = *makeCudaDevice({}, servicesOf(nccl, 1, 3));
    Executable executable = *makeCudaExecutable(device, makeRankedProgram(how));
    std::array arguments = {makeVector(0)};
    Result<std::vector<Buffer>> results = executable.run(arguments);
    ASSERT_TRUE(results.ok()) << results.status().toString();
    const float own = 2 * 5, first = own, last = own + 200;
    // Rank 1's own is what it has; rank 0 adds nothing, rank 2 two hundred.
    const float wanted = reduction == Collective::Reduction::Sum
                             ? own + first + last
                         : reduction == Collective::Reduction::Min ? own
                                                                   : last;
    EXPECT_EQ(results->front().as<float>()[5], wanted + 5);
  }
}

TEST_F(NcclTest, ShardsThatDoNotDivideArePadded) {
  FakeNccl nccl;
  nccl.sent = [](int, float own) { return own; };
  Collective how = meanOver(3);
  how.kind = Collective::Kind::ReduceScatter;
  Program program = makeCudaProgram();
  // 1000 elements are three pieces of 334.
  program.results[0].type = {ElementType::F32, {334}};
  BufferRef input{BufferRef::Kind::Argument, 0, 0, kElements * 4, false},
      output{BufferRef::Kind::Result, 0, 0, 334 * 4, true};
  program.launches = {message(how, input, output)};
  Device device = *makeCudaDevice({}, servicesOf(nccl, 2, 3));
  Executable executable = *makeCudaExecutable(device, program);
  std::array arguments = {makeVector(1)};
  Result<std::vector<Buffer>> results = executable.run(arguments);
  ASSERT_TRUE(results.ok()) << results.status().toString();
  std::span<const float> values = results->front().as<float>();
  EXPECT_EQ(values[0], 1 + 668);
  EXPECT_EQ(values[331], 1000);
  EXPECT_EQ(values[332], 0);
  EXPECT_EQ(values[333], 0);
}

TEST_F(NcclTest, GatheredAndSentOn) {
  FakeNccl nccl;
  for (Collective::Kind kind :
       {Collective::Kind::AllGather, Collective::Kind::Broadcast}) {
    Collective how = meanOver(2);
    how.kind = kind;
    const bool gathers = kind == Collective::Kind::AllGather;
    how.root = gathers ? 0 : 1;
    Program program = makeCudaProgram();
    const int64_t elements = gathers ? 2 * kElements : kElements;
    program.results[0].type = {ElementType::F32, {elements}};
    program.launches = {
        message(how, {BufferRef::Kind::Argument, 0, 0, kElements * 4, false},
                {BufferRef::Kind::Result, 0, 0, elements * 4, true})};
    Device device = *makeCudaDevice({}, servicesOf(nccl, 0, 2));
    Executable executable = *makeCudaExecutable(device, program);
    std::array arguments = {makeVector(3)};
    Result<std::vector<Buffer>> results = executable.run(arguments);
    ASSERT_TRUE(results.ok()) << results.status().toString();
    EXPECT_EQ(results->front().as<float>()[size_t(elements) - 1], 3 + 999);
  }
  EXPECT_NE(std::find(nccl.calls.begin(), nccl.calls.end(),
                      "ncclBroadcast of 4000 from 1"),
            nccl.calls.end());
}

TEST_F(NcclTest, FailuresHaveAPlace) {
  FakeNccl nccl;
  Device device = *makeCudaDevice({}, servicesOf(nccl, 0, 2));
  Executable executable =
      *makeCudaExecutable(device, makeRankedProgram(meanOver(2)));
  std::array arguments = {makeVector(1)};
  nccl.failing = "ncclAllReduce of 1000 by 4 in 7";
  Status status = executable.run(arguments).status();
  EXPECT_EQ(status.where(), "rank 0 of 2: message 'gradients'");
  EXPECT_EQ(status.text(), "ncclAllReduce failed with unhandled cuda error");
  EXPECT_EQ(nccl.depth, 0);
  // A failure during capture invalidated the capture.
  nccl.failing.clear();
  EXPECT_TRUE(executable.run(arguments).ok());
}

TEST_F(NcclTest, DevicesOfOneRankAndOfOthersRefuse) {
  FakeNccl nccl;
  EXPECT_EQ(
      makeCudaExecutable(*makeCudaDevice(), makeRankedProgram(meanOver(2)))
          .status()
          .text(),
      "has collective 'gradients', but this device was made for one rank; "
      "use cudaForRanks()");
  EXPECT_EQ(makeCudaExecutable(*makeCudaDevice({}, servicesOf(nccl, 0, 4)),
                               makeRankedProgram(meanOver(2)))
                .status()
                .text(),
            "was compiled for 2 ranks, but device 'cuda' has 4");
  EXPECT_EQ(nccl.alive, 0);
}

TEST_F(NcclTest, RanksMeetWhereTheFirstOneSays) {
  FakeNccl nccl;
  {
    std::shared_ptr<CudaContext> context = *CudaContext::create(driver(), 0);
    std::vector<std::shared_ptr<Communicator>> ends = connectThreads(3);
    std::vector<Result<std::shared_ptr<CollectiveBackend>>> joined(
        3, Status(StatusCode::Internal, "", ""));
    std::vector<std::thread> threads;
    threads.reserve(3);
    for (size_t rank = 0; rank < 3; ++rank)
      threads.emplace_back([&, rank] {
        CudaScope scope(*context);
        joined[rank] = joinNccl(&nccl.table, context, *ends[rank]);
      });
    for (std::thread &thread : threads)
      thread.join();
    for (const auto &library : joined)
      ASSERT_TRUE(library.ok()) << library.status().toString();
    std::sort(nccl.ids.begin(), nccl.ids.end());
    EXPECT_EQ(nccl.ids,
              (std::vector<std::pair<int, std::string>>{
                  {0, "meet here"}, {1, "meet here"}, {2, "meet here"}}));
    EXPECT_EQ(
        std::count(nccl.calls.begin(), nccl.calls.end(), "ncclGetUniqueId"), 1);
  }
  EXPECT_EQ(nccl.alive, 0);
}

TEST_F(NcclTest, NobodyWaitsForARankWithoutTheLibrary) {
  FakeNccl nccl;
  std::shared_ptr<CudaContext> context = *CudaContext::create(driver(), 0);
  std::vector<std::shared_ptr<Communicator>> ends = connectThreads(2);
  Status told;
  std::thread other([&] {
    CudaScope scope(*context);
    told = joinNccl(&nccl.table, context, *ends[0]).status();
  });
  Status own;
  {
    CudaScope scope(*context);
    own = joinNccl(loadNccl("libnowhere.so").status(), context, *ends[1])
              .status();
  }
  other.join();
  EXPECT_EQ(own.where(), "nccl");
  EXPECT_NE(own.text().find("libnowhere.so"), std::string::npos);
  EXPECT_EQ(told.where(), "rank 1");
  EXPECT_EQ(nccl.ids.size(), 0u);
}

TEST(NcclLibraryFile, WhatIsNoLibraryIsSaid) {
  Status status = loadNccl("libnowhere.so").status();
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_EQ(status.where(), "nccl");
  // One that is there and is none.
  status = loadNccl("libm.so.6").status();
  EXPECT_EQ(status.text(), "libm.so.6 lacks ncclGetVersion");
}
