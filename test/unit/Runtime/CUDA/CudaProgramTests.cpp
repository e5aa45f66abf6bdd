//===- CudaProgramTests.cpp - tests of programs on a GPU ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Driver calls of a program: one graph launch per run without synchronization
// inside, separate memory for each run in flight, graphs per set of buffers.
//
//===----------------------------------------------------------------------===//

#include "CUDA/CudaInstance.h"
#include "CudaTestProgram.h"

#include <set>
#include <thread>

using namespace mpc;
using namespace mpc::recording;

namespace {

/// Number of graphs that a program caches.
constexpr int kMost = int(detail::CudaInstance::kMostGraphs);

/// A device, the program on it, and buffers there.
struct Fixture {
  Device device = *makeCudaDevice();
  Executable executable = *makeCudaExecutable(device, makeCudaProgram());
  Stream stream = *Stream::create(device);

  Buffer upload(float start) {
    Buffer host = makeVector(start);
    Buffer buffer = *Buffer::allocateOn(stream, vectorType());
    EXPECT_TRUE(buffer.copyFrom(host, stream).ok());
    EXPECT_TRUE(stream.synchronize().ok());
    return buffer;
  }
  Buffer allocate() { return *Buffer::allocateOn(stream, vectorType()); }
};

/// Calls that block the host.
long waits() {
  return count("cuStreamSynchronize") + count("cuEventSynchronize") +
         count("cuMemFree");
}

} // namespace

using CudaProgram = CudaTest;

TEST_F(CudaProgram, ABlockingRunTakesHostMemory) {
  Fixture on;
  std::array inputs = {makeVector(3)};
  Result<std::vector<Buffer>> results = on.executable.run(inputs);
  ASSERT_TRUE(results.ok()) << results.status().toString();
  EXPECT_FALSE(results->front().onDevice());
  EXPECT_TRUE(isResult(results->front(), 3));
}

TEST_F(CudaProgram, ARunIsOneGraphAndOneWaitAtTheEnd) {
  Fixture on;
  std::array inputs = {makeVector(1)};
  ASSERT_TRUE(on.executable.run(inputs).ok());
  forgetCalls();
  std::array again = {makeVector(2)};
  Result<std::vector<Buffer>> results = on.executable.run(again);
  ASSERT_TRUE(results.ok());
  EXPECT_TRUE(isResult(results->front(), 2));
  EXPECT_EQ(count("cuGraphLaunch"), 1);
  EXPECT_EQ(count("cuLaunchKernel"), 0);
  EXPECT_EQ(count("cuStreamBeginCapture"), 0);
  EXPECT_EQ(count("cuStreamSynchronize"), 1);
  EXPECT_EQ(waits(), 1);
  std::vector<Call> made = calls();
  // The wait is last, except for the pop of the context.
  ASSERT_GE(made.size(), 2u);
  EXPECT_EQ(made[made.size() - 2].name, "cuStreamSynchronize");
}

TEST_F(CudaProgram, AnAsynchronousRunIsOneGraphAndWaitsForNothing) {
  Fixture on;
  std::array inputs = {on.upload(5)};
  std::array outputs = {on.allocate()};
  ASSERT_TRUE(on.executable.runAsync(inputs, outputs, on.stream).ok());
  forgetCalls();
  ASSERT_TRUE(on.executable.runAsync(inputs, outputs, on.stream).ok());
  std::vector<std::string> names;
  for (const Call &made : calls())
    names.push_back(made.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"cuCtxPushCurrent", "cuStreamIsCapturing",
                                      "cuStreamWaitEvent", "cuGraphLaunch",
                                      "cuEventRecord", "cuCtxPopCurrent"}));
  Result<Buffer> result = outputs[0].toHost(on.stream);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(isResult(*result, 5));
}

TEST_F(CudaProgram, TheFirstRunCapturesWithoutWaiting) {
  Fixture on;
  std::array inputs = {on.upload(5)};
  std::array outputs = {on.allocate()};
  forgetCalls();
  ASSERT_TRUE(on.executable.runAsync(inputs, outputs, on.stream).ok());
  EXPECT_EQ(count("cuStreamBeginCapture"), 1);
  // The second kernel may start while the first one ends.
  EXPECT_EQ(count("cuLaunchKernel"), 1);
  EXPECT_EQ(count("cuLaunchKernelEx"), 1);
  EXPECT_EQ(count("cuGraphInstantiateWithFlags"), 1);
  EXPECT_EQ(count("cuGraphLaunch"), 1);
  EXPECT_EQ(waits(), 0);
  ASSERT_TRUE(on.stream.synchronize().ok());
  for (const KernelRun &run : kernelRuns())
    EXPECT_TRUE(run.inGraph) << run.kernel;
}

TEST_F(CudaProgram, ProgramsThatComeAndGoLeaveNothingAndNeedNoMoreMemory) {
  Fixture on;
  auto cycle = [&] {
    Executable passing = *makeCudaExecutable(on.device, makeCudaProgram());
    std::array inputs = {makeVector(3)};
    ASSERT_TRUE(passing.run(inputs).ok());
    std::array there = {on.upload(5)};
    std::array outputs = {on.allocate()};
    ASSERT_TRUE(passing.runAsync(there, outputs, on.stream).ok());
  };
  cycle();
  std::vector<std::string> before = alive();
  size_t bytes = poolBytes();
  for (int i = 0; i < 100; ++i)
    cycle();
  EXPECT_EQ(alive(), before);
  EXPECT_EQ(poolBytes(), bytes);
}

TEST_F(CudaProgram, KernelsThatAreTimedOrCheckedDoNotOverlap) {
  Fixture on;
  std::array inputs = {makeVector(3)};
  std::vector<double> milliseconds;
  RunOptions options;
  options.launchMilliseconds = &milliseconds;
  ASSERT_TRUE(on.executable.run(inputs, options).ok());
  EXPECT_EQ(count("cuLaunchKernel"), 2);
  Device device = *makeCudaDevice({.checkLaunches = true});
  ASSERT_TRUE(makeCudaExecutable(device, makeCudaProgram())->run(inputs).ok());
  EXPECT_EQ(count("cuLaunchKernel"), 4);
  EXPECT_EQ(count("cuLaunchKernelEx"), 0);
}

TEST_F(CudaProgram, KernelsGetTheirGridBuffersAndScratch) {
  Fixture on;
  std::array inputs = {on.upload(0)};
  std::array outputs = {on.allocate()};
  ASSERT_TRUE(on.executable.runAsync(inputs, outputs, on.stream).ok());
  ASSERT_TRUE(on.stream.synchronize().ok());
  std::vector<KernelRun> runs = kernelRuns();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].kernel, "double");
  EXPECT_EQ(runs[0].blocks, (std::array<unsigned, 3>{8, 1, 1}));
  EXPECT_EQ(runs[0].threads, 128u);
  ASSERT_EQ(runs[0].parameters.size(), 2u);
  EXPECT_EQ(runs[0].parameters[0], inputs[0].address());
  EXPECT_EQ(runs[1].blocks, (std::array<unsigned, 3>{4, 2, 1}));
  EXPECT_EQ(runs[1].sharedBytes, unsigned(64 << 10));
  ASSERT_EQ(runs[1].parameters.size(), 4u);
  EXPECT_EQ(runs[1].parameters[0], runs[0].parameters[1]);
  EXPECT_EQ(runs[1].parameters[2], outputs[0].address());
  // The scratch memory is after the arena.
  EXPECT_GE(runs[1].parameters[3],
            runs[1].parameters[0] + uint64_t(kElements) * 4);
  EXPECT_EQ(runs[1].parameters[3] % 256, 0u);
  // The kernel requested more than 48 KB of shared memory.
  bool asked = false;
  for (const Call &made : calls())
    asked |= made.name == "cuFuncSetAttribute" && made.detail == "8 = 65536";
  EXPECT_TRUE(asked);
}

TEST_F(CudaProgram, ConstantsAreUploadedOnce) {
  Fixture on;
  long uploads = count("cuMemcpyHtoDAsync");
  EXPECT_EQ(uploads, 1);
  std::array inputs = {on.upload(1)};
  std::array outputs = {on.allocate()};
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(on.executable.runAsync(inputs, outputs, on.stream).ok());
  // The input's is the other.
  EXPECT_EQ(count("cuMemcpyHtoDAsync"), uploads + 1);
  // Scratch memory is cleared as well.
  EXPECT_EQ(count("cuMemsetD8Async"), 1);
}

TEST_F(CudaProgram, AGraphPerSetOfBuffersUpToALimit) {
  Fixture on;
  std::vector<Buffer> inputs, outputs;
  for (int i = 0; i < kMost + 2; ++i) {
    inputs.push_back(on.upload(float(i)));
    outputs.push_back(on.allocate());
  }
  auto runOn = [&](int i) {
    return on.executable.runAsync(std::span(&inputs[i], 1),
                                  std::span(&outputs[i], 1), on.stream);
  };
  for (int i = 0; i < kMost; ++i)
    ASSERT_TRUE(runOn(i).ok());
  EXPECT_EQ(count("cuGraphInstantiateWithFlags"), kMost);
  forgetCalls();
  for (int i = 0; i < kMost; ++i)
    ASSERT_TRUE(runOn(i).ok());
  EXPECT_EQ(count("cuStreamBeginCapture"), 0);
  // Beyond the limit the graphs that were used first are rewritten.
  for (int i = kMost; i < kMost + 2; ++i)
    ASSERT_TRUE(runOn(i).ok());
  EXPECT_EQ(count("cuGraphInstantiateWithFlags"), 0);
  EXPECT_EQ(count("cuGraphExecUpdate"), 2);
  for (int i = 2; i < kMost; ++i)
    ASSERT_TRUE(runOn(i).ok());
  EXPECT_EQ(count("cuStreamBeginCapture"), 2);
  for (int i = 0; i < kMost + 2; ++i)
    EXPECT_TRUE(isResult(*outputs[i].toHost(on.stream), float(i))) << i;
}

TEST_F(CudaProgram, AGraphThatCannotBeUpdatedIsRebuilt) {
  machine().graphUpdates = false;
  Fixture on;
  Buffer input = on.upload(4);
  std::vector<Buffer> outputs;
  outputs.reserve(kMost + 1);
  for (int i = 0; i < kMost + 1; ++i)
    outputs.push_back(on.allocate());
  for (Buffer &output : outputs)
    ASSERT_TRUE(
        on.executable
            .runAsync(std::span(&input, 1), std::span(&output, 1), on.stream)
            .ok());
  EXPECT_EQ(count("cuGraphInstantiateWithFlags"), kMost + 1);
  EXPECT_EQ(count("cuGraphExecDestroy"), 1);
  EXPECT_TRUE(isResult(*outputs.back().toHost(on.stream), 4));
}

TEST_F(CudaProgram, RunsOnOneStreamShareIntermediateMemory) {
  Fixture on;
  std::array inputs = {on.upload(1)};
  std::array outputs = {on.allocate()};
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(on.executable.runAsync(inputs, outputs, on.stream).ok());
  ASSERT_TRUE(on.stream.synchronize().ok());
  std::set<uint64_t> arenas;
  for (const KernelRun &run : kernelRuns())
    if (run.kernel == "double")
      arenas.insert(run.parameters[1]);
  EXPECT_EQ(arenas.size(), 1u);
}

TEST_F(CudaProgram, RunsOnSeveralStreamsHaveTheirOwn) {
  Fixture on;
  Stream other = *Stream::create(on.device);
  std::array inputs = {on.upload(1)}, moreInputs = {on.upload(2)};
  std::array outputs = {on.allocate()}, moreOutputs = {on.allocate()};
  ASSERT_TRUE(on.executable.runAsync(inputs, outputs, on.stream).ok());
  ASSERT_TRUE(on.executable.runAsync(moreInputs, moreOutputs, other).ok());
  // The GPU may do them in any order.
  ASSERT_TRUE(other.synchronize().ok());
  EXPECT_TRUE(isResult(*moreOutputs[0].toHost(other), 2));
  EXPECT_TRUE(isResult(*outputs[0].toHost(on.stream), 1));
  std::set<uint64_t> arenas;
  for (const KernelRun &run : kernelRuns())
    if (run.kernel == "double")
      arenas.insert(run.parameters[1]);
  EXPECT_EQ(arenas.size(), 2u);
  // Once they are done the memory serves any stream.
  Stream third = *Stream::create(on.device);
  long blocks = count("cuMemAllocFromPoolAsync");
  ASSERT_TRUE(on.executable.runAsync(inputs, outputs, third).ok());
  EXPECT_EQ(count("cuMemAllocFromPoolAsync"), blocks);
}

TEST_F(CudaProgram, WithoutMemoryForMoreARunWaitsOnTheGpu) {
  Fixture on;
  Stream other = *Stream::create(on.device);
  std::array inputs = {on.upload(1)}, moreInputs = {on.upload(2)};
  std::array outputs = {on.allocate()}, moreOutputs = {on.allocate()};
  ASSERT_TRUE(on.executable.runAsync(inputs, outputs, on.stream).ok());
  machine().failingCalls["cuMemAllocFromPoolAsync"] = detail::kCuOutOfMemory;
  forgetCalls();
  ASSERT_TRUE(on.executable.runAsync(moreInputs, moreOutputs, other).ok());
  EXPECT_EQ(waits(), 0);
  machine().failingCalls.clear();
  EXPECT_TRUE(isResult(*moreOutputs[0].toHost(other), 2));
  EXPECT_TRUE(isResult(*outputs[0].toHost(on.stream), 1));
}

TEST_F(CudaProgram, TheLastCopyWaitsForItsRuns) {
  Device device = *makeCudaDevice();
  Stream stream = *Stream::create(device);
  Buffer input = *Buffer::allocateOn(stream, vectorType());
  Buffer host = makeVector(7);
  ASSERT_TRUE(input.copyFrom(host, stream).ok());
  std::array inputs = {input};
  std::array outputs = {*Buffer::allocateOn(stream, vectorType())};
  {
    Executable executable = *makeCudaExecutable(device, makeCudaProgram());
    ASSERT_TRUE(executable.runAsync(inputs, outputs, stream).ok());
  }
  EXPECT_TRUE(isResult(*outputs[0].toHost(stream), 7));
}

TEST_F(CudaProgram, BuffersOfTheStreamMayGoAtOnce) {
  Fixture on;
  Buffer kept = on.allocate();
  {
    std::array inputs = {on.upload(9)};
    std::array outputs = {kept};
    ASSERT_TRUE(on.executable.runAsync(inputs, outputs, on.stream).ok());
  }
  EXPECT_TRUE(isResult(*kept.toHost(on.stream), 9));
}

TEST_F(CudaProgram, RunsFromSeveralThreadsDoNotMeet) {
  Fixture on;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 10; ++round) {
        float start = float(100 * t + round);
        std::array inputs = {makeVector(start)};
        Result<std::vector<Buffer>> results = on.executable.run(inputs);
        ASSERT_TRUE(results.ok()) << results.status().toString();
        EXPECT_TRUE(isResult(results->front(), start));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
}

// Launch times exclude the overhead of the host and of the
// events.
TEST_F(CudaProgram, TimesLaunchesWithinOneGraph) {
  Fixture on;
  std::vector<double> milliseconds;
  RunOptions options;
  options.launchMilliseconds = &milliseconds;
  std::array inputs = {makeVector(3)};
  Result<std::vector<Buffer>> results = on.executable.run(inputs, options);
  ASSERT_TRUE(results.ok()) << results.status().toString();
  EXPECT_TRUE(isResult(results->front(), 3));
  EXPECT_EQ(milliseconds, (std::vector<double>{0.25, 0.25}));
  EXPECT_EQ(count("cuGraphLaunch"), 1);
  for (const KernelRun &run : kernelRuns())
    EXPECT_TRUE(run.inGraph) << run.kernel;
}

TEST_F(CudaProgram, TimesRunsByTheGpusClock) {
  Fixture on;
  std::array inputs = {on.upload(3)};
  std::array outputs = {on.allocate()};
  std::array<double, 3> milliseconds = {};
  forgetCalls();
  ASSERT_TRUE(
      on.executable.timeRuns(inputs, outputs, on.stream, milliseconds).ok());
  EXPECT_EQ(milliseconds, (std::array<double, 3>{0.5, 0.5, 0.5}));
  EXPECT_TRUE(isResult(*outputs[0].toHost(on.stream), 3));
  // One run warms up; the host waits at the end alone.
  EXPECT_EQ(count("cuGraphLaunch"), 4);
  EXPECT_EQ(count("cuStreamSynchronize"), 2);
}

// Sets of buffers rotate, so that no cache holds them; all graphs are
// instantiated before the first is timed.
TEST_F(CudaProgram, TimesRunsOnSetsInTurn) {
  Fixture on;
  std::vector<RunBuffers> sets(20);
  for (size_t i = 0; i < sets.size(); ++i)
    sets[i] = {{on.upload(float(i))}, {on.allocate()}};
  std::array<double, 45> milliseconds = {};
  forgetCalls();
  ASSERT_TRUE(on.executable.timeRuns(sets, on.stream, milliseconds).ok());
  EXPECT_EQ(count("cuGraphInstantiateWithFlags"), 20);
  EXPECT_EQ(count("cuGraphExecUpdate"), 0);
  EXPECT_EQ(count("cuGraphLaunch"), 20 + 45);
  EXPECT_EQ(milliseconds.back(), 0.5);
  for (size_t i = 0; i < sets.size(); ++i)
    EXPECT_TRUE(isResult(*sets[i].results[0].toHost(on.stream), float(i)));
  std::vector<KernelRun> runs = kernelRuns();
  ASSERT_GT(runs.size(), 4u);
  EXPECT_NE(runs[0].parameters[0], runs[2].parameters[0]);
  EXPECT_FALSE(
      on.executable.timeRuns(std::span<RunBuffers>(), on.stream, milliseconds)
          .ok());
}

TEST_F(CudaProgram, ABlockingRunTakesBuffersOnTheDeviceToo) {
  Fixture on;
  std::array inputs = {on.upload(6)};
  std::array outputs = {*Buffer::allocate(vectorType())};
  ASSERT_TRUE(on.executable.runInto(inputs, outputs).ok());
  EXPECT_TRUE(isResult(outputs[0], 6));
}

TEST_F(CudaProgram, SkipsLaunchesWithoutWork) {
  Device device = *makeCudaDevice();
  Program program = makeCudaProgram();
  program.launches[0].grid.blocks = {0, 1, 1};
  Executable executable = *makeCudaExecutable(device, program);
  std::array inputs = {makeVector(0)};
  ASSERT_TRUE(executable.run(inputs).ok());
  ASSERT_EQ(kernelRuns().size(), 1u);
  EXPECT_EQ(kernelRuns()[0].kernel, "add");
}

TEST_F(CudaProgram, AProgramWithoutLaunchesNeedsNoCode) {
  Device device = *makeCudaDevice();
  Program program;
  program.name = "main";
  Result<Executable> executable = makeCudaExecutable(device, program);
  ASSERT_TRUE(executable.ok()) << executable.status().toString();
  EXPECT_TRUE(executable->run({}).ok());
}

TEST_F(CudaProgram, WorksWithoutMemoryPools) {
  machine().memoryPools = false;
  Fixture on;
  std::array inputs = {makeVector(3)};
  Result<std::vector<Buffer>> results = on.executable.run(inputs);
  ASSERT_TRUE(results.ok()) << results.status().toString();
  EXPECT_TRUE(isResult(results->front(), 3));
  EXPECT_EQ(count("cuMemAllocFromPoolAsync"), 0);
}

//===----------------------------------------------------------------------===//
// Buffers and streams that are refused
//===----------------------------------------------------------------------===//

TEST_F(CudaProgram, AnAsynchronousRunRefusesHostMemory) {
  Fixture on;
  std::array inputs = {makeVector(1)};
  std::array outputs = {on.allocate()};
  EXPECT_EQ(on.executable.runAsync(inputs, outputs, on.stream).toString(),
            "input 'x': is in host memory, but an asynchronous run needs "
            "buffers on the device; copy it to the device first");
}

TEST_F(CudaProgram, RefusesBuffersAndStreamsOfOthers) {
  Fixture on;
  Device other = *makeCudaDevice();
  Stream elsewhere = *Stream::create(other);
  std::array inputs = {on.upload(1)};
  std::array outputs = {*Buffer::allocateOn(elsewhere, vectorType())};
  EXPECT_EQ(on.executable.runAsync(inputs, outputs, on.stream).text(),
            "is on another device than 'cuda', which runs the program");
  std::array own = {on.allocate()};
  EXPECT_EQ(on.executable.runAsync(inputs, own, elsewhere).code(),
            StatusCode::InvalidArgument);
}

TEST_F(CudaProgram, RefusesAStreamUnderCapture) {
  Fixture on;
  std::array inputs = {on.upload(1)};
  std::array outputs = {on.allocate()};
  detail::CudaDriver cu = driver();
  detail::CuHandle graph = nullptr;
  cu.ctxPushCurrent(nullptr);
  ASSERT_EQ(cu.streamBeginCapture(on.stream.handle(), 0), 0);
  EXPECT_EQ(on.executable.runAsync(inputs, outputs, on.stream).text(),
            "the stream is under capture; end the capture first");
  ASSERT_EQ(cu.streamEndCapture(on.stream.handle(), &graph), 0);
  cu.graphDestroy(graph);
  cu.ctxPopCurrent(&graph);
}
