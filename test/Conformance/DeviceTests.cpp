//===- DeviceTests.cpp - contract of every device -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The parts of the runtime's contract that do not depend on the computation.
//
//===----------------------------------------------------------------------===//

#include "CUDA/CudaDevice.h"
#include "RecordingDriver.h"
#include "mpc/Runtime/Executable.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>

using namespace mpc;

namespace {

void copyKernel(void *const *buffers, int64_t begin, int64_t end, void *) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<int32_t *>(buffers[1])[i] =
        static_cast<const int32_t *>(buffers[0])[i];
}

Program makeCopy() {
  TensorType type{ElementType::I32, {4}};
  Program program;
  program.name = "main";
  program.arguments = {{"in", type}};
  program.results = {{"out", type}};
  Launch copy;
  copy.kernel = "copy";
  copy.kind = "copy";
  copy.function = copyKernel;
  copy.items = 4;
  copy.buffers = {{BufferRef::Kind::Argument, 0, 0, 16, false},
                  {BufferRef::Kind::Result, 0, 0, 16, true}};
  program.launches = {copy};
  CudaCode code;
  code.kernels = {{"copy", "// text"}};
  program.cuda = std::make_shared<const CudaCode>(code);
  return program;
}

/// The device cuda on a driver that needs no GPU.
Device makeCudaDevice() {
  recording::Machine machine;
  machine.kernels["copy"] = [](const std::vector<void *> &parameters) {
    copyKernel(parameters.data(), 0, 4, nullptr);
  };
  recording::restart(machine);
  detail::CudaServices services;
  services.compile = [](const CudaCode &, const std::string &architecture)
      -> Result<std::vector<CudaCode::Binary>> {
    return std::vector<CudaCode::Binary>{
        {architecture, {"copy"}, recording::machineCode({{"copy", 2}})}};
  };
  return detail::DeviceAccess::make(
      *detail::createCudaDevice(recording::driver(), {}, services));
}

Device makeDevice(const std::string &name) {
  if (name == "cuda")
    return makeCudaDevice();
  return name == "null" ? Device::null() : *Device::cpu({.threads = 2});
}

class DeviceTest : public testing::TestWithParam<const char *> {
protected:
  Device device = makeDevice(GetParam());
  Executable executable =
      *Executable::create(device, std::make_shared<const Program>(makeCopy()));
  Buffer input = *Buffer::fromValues<int32_t>(
      {ElementType::I32, {4}}, std::array<int32_t, 4>{1, 2, 3, 4});
};

} // namespace

TEST_P(DeviceTest, HasItsName) {
  EXPECT_EQ(device.name(), GetParam());
  EXPECT_GE(device.threads(), 1);
}

TEST_P(DeviceTest, ResultsAreDefined) {
  std::array inputs = {input};
  Result<std::vector<Buffer>> results = executable.run(inputs);
  ASSERT_TRUE(results.ok());
  ASSERT_EQ(results->size(), 1u);
  std::span<int32_t> out = results->front().as<int32_t>();
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(out[i], device.needsCode() ? int32_t(i) + 1 : 0);
}

TEST_P(DeviceTest, OverwritesCallersBuffers) {
  std::array outputs = {*Buffer::fromValues<int32_t>(
      {ElementType::I32, {4}}, std::array<int32_t, 4>{9, 9, 9, 9})};
  std::array inputs = {input};
  ASSERT_TRUE(executable.runInto(inputs, outputs).ok());
  for (int32_t value : outputs[0].as<int32_t>())
    EXPECT_NE(value, 9);
}

TEST_P(DeviceTest, RefusesWrongBuffers) {
  EXPECT_FALSE(executable.run({}).ok());
  std::array missing = {Buffer()};
  EXPECT_EQ(executable.run(missing).status().text(), "no buffer was given");
  std::array shape = {*Buffer::allocate({ElementType::I32, {5}})};
  EXPECT_EQ(executable.run(shape).status().toString(),
            "input 'in': must be i32[4], but i32[5] was given");
  std::array element = {*Buffer::allocate({ElementType::F32, {4}})};
  EXPECT_FALSE(executable.run(element).ok());
  std::array inputs = {input};
  EXPECT_FALSE(executable.runInto(inputs, shape).ok());
}

TEST_P(DeviceTest, TimesEachLaunch) {
  std::vector<double> milliseconds = {1, 2, 3};
  RunOptions options;
  options.launchMilliseconds = &milliseconds;
  std::array inputs = {input};
  ASSERT_TRUE(executable.run(inputs, options).ok());
  ASSERT_EQ(milliseconds.size(), 1u);
  EXPECT_GE(milliseconds[0], 0);
}

TEST_P(DeviceTest, TimesWholeRuns) {
  Stream stream = *Stream::create(device);
  std::array inputs = {*Buffer::allocateOn(stream, input.type())};
  std::array outputs = {*Buffer::allocateOn(stream, input.type())};
  std::array<double, 3> milliseconds = {-1, -1, -1};
  ASSERT_TRUE(executable.timeRuns(inputs, outputs, stream, milliseconds).ok());
  for (double entry : milliseconds)
    EXPECT_GE(entry, 0);
}

TEST_P(DeviceTest, RunsFromSeveralThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      std::array inputs = {input};
      for (int i = 0; i < 50; ++i)
        EXPECT_TRUE(executable.run(inputs).ok());
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST_P(DeviceTest, RunsOnAStream) {
  Stream stream = *Stream::create(device);
  std::array inputs = {*Buffer::allocateOn(stream, input.type())};
  std::array outputs = {*Buffer::allocateOn(stream, input.type())};
  EXPECT_EQ(inputs[0].onDevice(), device.hasOwnMemory());
  ASSERT_TRUE(inputs[0].copyFrom(input, stream).ok());
  int called = 0;
  for (int i = 0; i < 3; ++i) {
    Status status =
        executable.runAsync(inputs, outputs, stream, [&](const Status &status) {
          called += status.ok();
        });
    ASSERT_TRUE(status.ok()) << status.toString();
  }
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_TRUE(*stream.finished());
  EXPECT_EQ(called, 3);
  Result<Buffer> result = outputs[0].toHost(stream);
  ASSERT_TRUE(result.ok()) << result.status().toString();
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(result->as<int32_t>()[i],
              device.needsCode() ? int32_t(i) + 1 : 0);
}

TEST_P(DeviceTest, RefusesWrongBuffersOnAStream) {
  Stream stream = *Stream::create(device);
  std::array inputs = {*Buffer::allocateOn(stream, {ElementType::I32, {5}})};
  std::array outputs = {*Buffer::allocateOn(stream, input.type())};
  EXPECT_EQ(executable.runAsync(inputs, outputs, stream).toString(),
            "input 'in': must be i32[4], but i32[5] was given");
  Stream other = *Stream::create(Device::null());
  std::array right = {*Buffer::allocateOn(stream, input.type())};
  EXPECT_EQ(executable.runAsync(right, outputs, other).code(),
            StatusCode::InvalidArgument);
}

TEST_P(DeviceTest, PinnedMemoryIsHostMemory) {
  Result<Buffer> pinned = Buffer::allocatePinned(device, input.type());
  ASSERT_TRUE(pinned.ok());
  std::copy_n(input.as<int32_t>().begin(), 4, pinned->as<int32_t>().begin());
  std::array inputs = {*pinned};
  EXPECT_TRUE(executable.run(inputs).ok());
}

TEST_P(DeviceTest, RefusesMissingProgram) {
  EXPECT_FALSE(Executable::create(device, nullptr).ok());
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceTest,
                         testing::Values("cpu", "cuda", "null"),
                         [](const testing::TestParamInfo<const char *> &info) {
                           return std::string(info.param);
                         });
