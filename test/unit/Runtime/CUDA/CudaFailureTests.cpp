//===- CudaFailureTests.cpp - tests of failures of the driver -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every call of the driver fails in turn. Each failure is a Status, and no
// resource leaks.
//
//===----------------------------------------------------------------------===//

#include "CudaTestProgram.h"

#include <functional>

using namespace mpc;
using namespace mpc::recording;

namespace {

/// Finishes the work of the GPU before its objects are destroyed.
struct Finish {
  ~Finish() { finishWork(); }
};

/// Creates a device and an executable, runs it in all ways, and checks results.
Status everything() {
  Result<Device> device = makeCudaDevice();
  if (!device.ok())
    return device.status();
  Result<Executable> executable =
      makeCudaExecutable(*device, makeCudaProgram());
  if (!executable.ok())
    return executable.status();
  std::array inputs = {makeVector(3)};
  Result<std::vector<Buffer>> results = executable->run(inputs);
  if (!results.ok())
    return results.status();
  EXPECT_TRUE(isResult(results->front(), 3));
  std::vector<double> milliseconds;
  RunOptions options;
  options.launchMilliseconds = &milliseconds;
  if (Status status = executable->runInto(inputs, *results, options);
      !status.ok())
    return status;

  Result<Stream> stream = Stream::create(*device);
  if (!stream.ok())
    return stream.status();
  std::vector<Buffer> buffers;
  for (int i = 0; i < 11; ++i) {
    Result<Buffer> buffer = Buffer::allocateOn(*stream, vectorType());
    if (!buffer.ok())
      return buffer.status();
    buffers.push_back(*buffer);
  }
  int calledBack = 0;
  Finish finish;
  if (Status status = buffers[0].copyFrom(inputs[0], *stream); !status.ok())
    return status;
  Status failed;
  // More sets of buffers than cached graphs.
  for (int i = 1; failed.ok() && i < 11; ++i)
    failed = executable->runAsync(
        std::span(&buffers[0], 1), std::span(&buffers[i], 1), *stream,
        [&](const Status &status) { calledBack += status.ok(); });
  Status done = stream->synchronize();
  if (!failed.ok())
    return failed;
  if (!done.ok())
    return done;
  EXPECT_EQ(calledBack, 10);
  std::array<double, 2> times = {};
  if (Status status =
          executable->timeRuns(std::span(&buffers[0], 1),
                               std::span(&buffers[10], 1), *stream, times);
      !status.ok())
    return status;
  Result<Buffer> result = buffers[10].toHost(*stream);
  if (!result.ok())
    return result.status();
  EXPECT_TRUE(isResult(*result, 3));
  Result<Buffer> pinned = Buffer::allocatePinned(*device, vectorType());
  return pinned.ok() ? Status() : pinned.status();
}

/// Functions whose failure belongs to earlier work, does not affect the caller,
/// or has a fallback: a new graph for an update, waiting for more memory.
bool mayBeSwallowed(const std::string &name) {
  for (const char *quiet :
       {"cuCtxPopCurrent", "cuMemFreeAsync", "cuMemPoolDestroy",
        "cuDevicePrimaryCtxRelease", "cuStreamDestroy", "cuEventDestroy",
        "cuGraphDestroy", "cuGraphExecDestroy", "cuModuleUnload",
        "cuEventSynchronize", "cuMemFreeHost", "cuGraphExecUpdate",
        "cuDeviceGetName", "cuDeviceTotalMem", "cuDeviceGetAttribute"})
    if (name == quiet)
      return true;
  return false;
}

} // namespace

using CudaFailure = CudaTest;

TEST_F(CudaFailure, NothingFailsByItself) {
  Status status = everything();
  EXPECT_TRUE(status.ok()) << status.toString();
}

TEST_F(CudaFailure, EveryCallMayFail) {
  (void)everything();
  std::vector<Call> good = calls();
  ASSERT_GT(good.size(), 150u);
  for (int error : {detail::kCuOutOfMemory, detail::kCuUnknown})
    for (size_t n = 0; n < good.size(); ++n) {
      Machine broken = makeMachine();
      broken.failAt = long(n);
      broken.failure = error;
      restart(broken);
      Status status = everything();
      std::string where = "call " + std::to_string(n) + ", " + good[n].name +
                          " " + good[n].detail + ": " + status.toString();
      // A context that cannot be entered cannot be cleaned in either.
      if (good[n].name == "cuCtxPushCurrent" && status.ok())
        continue;
      ASSERT_EQ(alive(), std::vector<std::string>()) << where;
      ASSERT_EQ(complaints(), std::vector<std::string>()) << where;
      ASSERT_EQ(contextDepth(), 0u) << where;
      if (mayBeSwallowed(good[n].name))
        continue;
      ASSERT_FALSE(status.ok()) << where;
      bool named = status.text().find(good[n].name) != std::string::npos;
      ASSERT_TRUE(named) << where;
      // Unavailable: the user has to fix the driver, whatever the error code.
      StatusCode expected = error == detail::kCuOutOfMemory
                                ? StatusCode::ResourceExhausted
                                : StatusCode::Internal;
      ASSERT_TRUE(status.code() == StatusCode::Unavailable ||
                  status.code() == expected)
          << where;
    }
  restart();
}

/// After a failure that passes, the same executable runs again.
TEST_F(CudaFailure, AnExecutableOutlivesFailuresOfRuns) {
  Device device = *makeCudaDevice();
  Executable executable = *makeCudaExecutable(device, makeCudaProgram());
  Stream stream = *Stream::create(device);
  Buffer host = makeVector(8);
  std::array inputs = {*Buffer::allocateOn(stream, vectorType())};
  ASSERT_TRUE(inputs[0].copyFrom(host, stream).ok());
  std::vector<Buffer> outputs;
  long n = 0;
  for (;; ++n) {
    // A set of buffers that there is no graph for.
    outputs.push_back(*Buffer::allocateOn(stream, vectorType()));
    std::span<Buffer> output(&outputs.back(), 1);
    forgetCalls();
    machine().failAt = n;
    (void)executable.runAsync(inputs, output, stream);
    bool reached = long(calls().size()) > n;
    machine().failAt = -1;
    if (!reached)
      break;
    ASSERT_TRUE(executable.runAsync(inputs, output, stream).ok()) << n;
    EXPECT_TRUE(isResult(*output[0].toHost(stream), 8)) << n;
  }
  // Entering, capturing two launches, launching, leaving.
  EXPECT_GE(n, 10);
}

TEST_F(CudaFailure, ALaunchThatFailsNamesKernelAndOps) {
  machine().failingCalls["cuLaunchKernel"] = detail::kCuUnknown;
  Device device = *makeCudaDevice();
  Executable executable = *makeCudaExecutable(device, makeCudaProgram());
  std::array inputs = {makeVector(0)};
  EXPECT_EQ(executable.run(inputs).status().toString(),
            "main: kernel 'double' (mul): cuLaunchKernel failed with "
            "CUDA_ERROR_UNKNOWN");
}

TEST_F(CudaFailure, AKernelThatIsNotInTheCodeIsNamed) {
  machine().failingCalls["cuModuleGetFunction"] = detail::kCuNotFound;
  Device device = *makeCudaDevice();
  EXPECT_EQ(makeCudaExecutable(device, makeCudaProgram()).status().toString(),
            "main: kernel 'double': cuModuleGetFunction failed with "
            "CUDA_ERROR_NOT_FOUND");
}

TEST_F(CudaFailure, DamagedMachineCodeIsRefused) {
  Device device =
      *makeCudaDevice({}, {[](const CudaCode &, const std::string &architecture)
                               -> Result<std::vector<CudaCode::Binary>> {
                             std::vector<std::byte> garbage(64);
                             return std::vector<CudaCode::Binary>{
                                 {architecture, {"double", "add"}, garbage}};
                           },
                           {}});
  Status status = makeCudaExecutable(device, makeCudaProgram()).status();
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(status.toString(),
            "main: cuModuleLoadData failed with CUDA_ERROR_INVALID_IMAGE");
  EXPECT_EQ(status.notes(),
            (std::vector<std::string>{
                "machine code for sm_90a on Recording GPU (sm_90)"}));
}

TEST_F(CudaFailure, AKernelThatCrashesEndsTheRun) {
  machine().failingKernels["add"] = detail::kCuIllegalAddress;
  Device device = *makeCudaDevice();
  Executable executable = *makeCudaExecutable(device, makeCudaProgram());
  std::array inputs = {makeVector(0)};
  Status status = executable.run(inputs).status();
  EXPECT_EQ(status.code(), StatusCode::Internal);
  EXPECT_EQ(status.toString(), "main: cuStreamSynchronize failed with "
                               "CUDA_ERROR_ILLEGAL_ADDRESS");
  ASSERT_EQ(status.notes().size(), 1u);
  EXPECT_NE(status.notes()[0].find("checkLaunches"), std::string::npos);
  // So does every later one; the device is lost.
  EXPECT_FALSE(executable.run(inputs).ok());
}

TEST_F(CudaFailure, ACheckedDeviceNamesTheKernelThatCrashed) {
  machine().failingKernels["add"] = detail::kCuIllegalAddress;
  Device device = *makeCudaDevice({.checkLaunches = true});
  Executable executable = *makeCudaExecutable(device, makeCudaProgram());
  std::array inputs = {makeVector(0)};
  EXPECT_EQ(executable.run(inputs).status().toString(),
            "main: kernel 'add' (bias, relu): the launch failed with "
            "CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST_F(CudaFailure, ACheckedDeviceComputesTheSame) {
  Device device = *makeCudaDevice({.checkLaunches = true});
  Executable executable = *makeCudaExecutable(device, makeCudaProgram());
  std::array inputs = {makeVector(4)};
  Result<std::vector<Buffer>> results = executable.run(inputs);
  ASSERT_TRUE(results.ok());
  EXPECT_TRUE(isResult(results->front(), 4));
  EXPECT_EQ(count("cuGraphLaunch"), 0);
}

TEST_F(CudaFailure, ACallbackHearsOfACrash) {
  machine().failingKernels["double"] = detail::kCuLaunchFailed;
  Device device = *makeCudaDevice();
  Executable executable = *makeCudaExecutable(device, makeCudaProgram());
  Stream stream = *Stream::create(device);
  std::array inputs = {*Buffer::allocateOn(stream, vectorType())};
  std::array outputs = {*Buffer::allocateOn(stream, vectorType())};
  Status heard;
  ASSERT_TRUE(executable
                  .runAsync(inputs, outputs, stream,
                            [&](const Status &status) { heard = status; })
                  .ok());
  EXPECT_FALSE(stream.synchronize().ok());
  EXPECT_EQ(heard.code(), StatusCode::Internal);
  EXPECT_EQ(heard.text(), "the work on the stream failed with error 719");
}

TEST_F(CudaFailure, TooLittleMemoryForTheModel) {
  machine().memoryBytes = 6000;
  Device device = *makeCudaDevice();
  Executable executable = *makeCudaExecutable(device, makeCudaProgram());
  std::array inputs = {makeVector(0)};
  Status status = executable.run(inputs).status();
  EXPECT_EQ(status.code(), StatusCode::ResourceExhausted);
  EXPECT_EQ(status.where(), "main: intermediate memory");
}
