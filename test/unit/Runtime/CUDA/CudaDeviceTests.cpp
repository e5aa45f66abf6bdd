//===- CudaDeviceTests.cpp - tests of the device cuda ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Devices, streams and buffers of a recorded GPU.
//
//===----------------------------------------------------------------------===//

#include "CudaTestProgram.h"

using namespace mpc;
using namespace mpc::recording;

using CudaDevice = CudaTest;

TEST_F(CudaDevice, SaysWhatItIs) {
  Device device = *makeCudaDevice();
  EXPECT_EQ(device.name(), "cuda");
  EXPECT_EQ(device.architecture(), "sm_90a");
  EXPECT_TRUE(device.hasOwnMemory());
  EXPECT_TRUE(device.needsCode());
  EXPECT_EQ(device.threads(), 1);
  machine().gpus = 2;
  EXPECT_EQ(makeCudaDevice({.ordinal = 1})->name(), "cuda:1");
  EXPECT_EQ(Device::null().architecture(), "");
  EXPECT_FALSE(Device::null().hasOwnMemory());
}

TEST_F(CudaDevice, AGpuThatIsNotThereIsUnavailable) {
  for (int ordinal : {-1, 1}) {
    Status status = makeCudaDevice({.ordinal = ordinal}).status();
    EXPECT_EQ(status.code(), StatusCode::Unavailable);
    EXPECT_EQ(status.text(),
              "the driver finds 1 GPUs on this machine, numbered from 0");
  }
  machine().gpus = 0;
  EXPECT_EQ(makeCudaDevice().status().text(),
            "the driver finds no GPU on this machine");
}

TEST_F(CudaDevice, LeavesTheHostsContextCurrent) {
  detail::CudaDriver cu = driver();
  int mark = 0;
  cu.ctxPushCurrent(&mark);
  {
    Device device = *makeCudaDevice();
    Executable executable = *makeCudaExecutable(device, makeCudaProgram());
    std::array inputs = {makeVector(1)};
    ASSERT_TRUE(executable.run(inputs).ok());
    EXPECT_EQ(contextDepth(), 1u);
  }
  detail::CuHandle popped = nullptr;
  cu.ctxPopCurrent(&popped);
  EXPECT_EQ(popped, &mark);
}

TEST_F(CudaDevice, CopiesToAndFro) {
  Device device = *makeCudaDevice();
  Stream stream = *Stream::create(device);
  Buffer host = makeVector(2);
  Buffer first = *Buffer::allocateOn(stream, vectorType());
  Buffer second = *Buffer::allocateOn(stream, vectorType());
  EXPECT_TRUE(first.onDevice());
  EXPECT_EQ(first.data(), nullptr);
  EXPECT_TRUE(first.as<float>().empty());
  EXPECT_NE(first.address(), 0u);
  ASSERT_TRUE(first.copyFrom(host, stream).ok());
  ASSERT_TRUE(second.copyFrom(first, stream).ok());
  Result<Buffer> back = second.toHost(stream);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->as<float>()[10], 12);
}

TEST_F(CudaDevice, OneStreamWaitsForAnother) {
  Device device = *makeCudaDevice();
  Stream first = *Stream::create(device), second = *Stream::create(device);
  Buffer host = makeVector(2);
  Buffer shared = *Buffer::allocateOn(first, vectorType());
  ASSERT_TRUE(shared.copyFrom(host, first).ok());
  EXPECT_EQ(shared.toHost(second)->as<uint32_t>()[10], 0xCDCDCDCD);
  ASSERT_TRUE(second.waitFor(first).ok());
  EXPECT_EQ(shared.toHost(second)->as<float>()[10], 12);
  // Nothing waits for itself, nor in host memory.
  long events = count("cuEventRecord");
  EXPECT_TRUE(first.waitFor(first).ok());
  EXPECT_EQ(count("cuEventRecord"), events);
  Stream host1 = *Stream::create(Device::null());
  EXPECT_TRUE(host1.waitFor(*Stream::create(Device::null())).ok());
  machine().failingCalls["cuStreamWaitEvent"] = detail::kCuUnknown;
  EXPECT_FALSE(second.waitFor(first).ok());
}

TEST_F(CudaDevice, RefusesCopiesThatMakeNoSense) {
  Device device = *makeCudaDevice(), other = *makeCudaDevice();
  Stream stream = *Stream::create(device), elsewhere = *Stream::create(other);
  Buffer host = makeVector(0);
  Buffer buffer = *Buffer::allocateOn(stream, vectorType());
  Buffer shorter = *Buffer::allocateOn(stream, {ElementType::F32, {3}});
  EXPECT_EQ(shorter.copyFrom(host, stream).text(),
            "the source has 4000 bytes, but the destination 12");
  EXPECT_FALSE(Buffer().copyFrom(host, stream).ok());
  EXPECT_FALSE(Buffer().toHost(stream).ok());
  EXPECT_FALSE(buffer.copyFrom(host, elsewhere).ok());
  Buffer hostToo = makeVector(1);
  EXPECT_EQ(hostToo.copyFrom(host, stream).text(),
            "neither buffer is on device 'cuda'");
}

TEST_F(CudaDevice, MemoryThatIsNotThereIsExhausted) {
  Device device = *makeCudaDevice();
  Stream stream = *Stream::create(device);
  TensorType huge = {ElementType::F32, {int64_t(1) << 40}};
  Status status = Buffer::allocateOn(stream, huge).status();
  EXPECT_EQ(status.code(), StatusCode::ResourceExhausted);
  EXPECT_EQ(status.toString(), "buffer: cuMemAllocFromPoolAsync failed with "
                               "CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
  ASSERT_EQ(status.notes().size(), 1u);
  EXPECT_EQ(status.notes()[0],
            "asked for 4398046511104 bytes on Recording GPU");
  EXPECT_FALSE(Buffer::allocateOn(stream, {ElementType::F32, {-1}}).ok());
}

TEST_F(CudaDevice, TakesTheHostProgramsStreamAndMemory) {
  // The host program's side: its own context, stream, events and memory.
  detail::CudaDriver cu = driver();
  detail::CuHandle context = nullptr, queue = nullptr, ready = nullptr,
                   done = nullptr;
  detail::CuAddress x = 0, y = 0;
  cu.devicePrimaryCtxRetain(&context, 0);
  cu.ctxPushCurrent(context);
  cu.streamCreate(&queue, 0);
  cu.eventCreate(&ready, 0);
  cu.eventCreate(&done, 0);
  cu.memAlloc(&x, kElements * 4);
  cu.memAlloc(&y, kElements * 4);
  Buffer host = makeVector(11), result = makeVector(0);
  cu.memcpyHtoDAsync(x, host.data(), kElements * 4, nullptr);
  cu.eventRecord(ready, nullptr);

  int released = 0;
  {
    Device device = *makeCudaDevice();
    Executable executable = *makeCudaExecutable(device, makeCudaProgram());
    Stream stream = *Stream::fromHandle(device, queue);
    EXPECT_EQ(stream.handle(), queue);
    // Its input comes from another stream.
    ASSERT_TRUE(stream.waitFor(ready).ok());
    std::array inputs = {*Buffer::fromDevice(
        device, vectorType(), x, kElements * 4, [&] { ++released; })};
    std::array outputs = {
        *Buffer::fromDevice(device, vectorType(), y, kElements * 4)};
    EXPECT_TRUE(inputs[0].onDevice());
    ASSERT_TRUE(executable.runAsync(inputs, outputs, stream).ok());
    ASSERT_TRUE(stream.record(done).ok());
    EXPECT_EQ(cu.eventQuery(done), int(detail::kCuNotReady));
    cu.eventSynchronize(done);
  }
  EXPECT_EQ(released, 1);
  cu.memcpyDtoHAsync(result.data(), y, kElements * 4, queue);
  cu.streamSynchronize(queue);
  EXPECT_TRUE(isResult(result, 11));
  for (detail::CuHandle event : {ready, done})
    cu.eventDestroy(event);
  cu.memFree(x);
  cu.memFree(y);
  // The stream was not mpc's to destroy.
  EXPECT_EQ(cu.streamDestroy(queue), 0);
  cu.ctxPopCurrent(&context);
  cu.devicePrimaryCtxRelease(0);
}

TEST_F(CudaDevice, MemoryOfTheHostProgramsIsChecked) {
  Device device = *makeCudaDevice();
  EXPECT_FALSE(Buffer::fromDevice(device, vectorType(), 0, 4000).ok());
  EXPECT_FALSE(Buffer::fromDevice(device, vectorType(), 4096, 12).ok());
  EXPECT_FALSE(Buffer::fromDevice(device, vectorType(), 4098, 4000).ok());
}

TEST_F(CudaDevice, CallsBackAfterTheWork) {
  Device device = *makeCudaDevice();
  Executable executable = *makeCudaExecutable(device, makeCudaProgram());
  Stream stream = *Stream::create(device);
  std::array inputs = {*Buffer::allocateOn(stream, vectorType())};
  std::array outputs = {*Buffer::allocateOn(stream, vectorType())};
  int calls = 0;
  auto count = [&](const Status &status) {
    EXPECT_TRUE(status.ok());
    EXPECT_EQ(kernelRuns().size(), size_t(2 + calls * 2));
    ++calls;
  };
  ASSERT_TRUE(executable.runAsync(inputs, outputs, stream, count).ok());
  ASSERT_TRUE(executable.runAsync(inputs, outputs, stream, count).ok());
  EXPECT_EQ(calls, 0);
  EXPECT_FALSE(*stream.finished());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_TRUE(*stream.finished());
  EXPECT_EQ(calls, 2);
  EXPECT_FALSE(stream.then({}).ok());
}

TEST_F(CudaDevice, PinnedMemoryIsHostMemory) {
  Device device = *makeCudaDevice();
  Result<Buffer> buffer = Buffer::allocatePinned(device, vectorType());
  ASSERT_TRUE(buffer.ok());
  EXPECT_FALSE(buffer->onDevice());
  buffer->as<float>()[0] = 1;
  EXPECT_EQ(count("cuMemHostAlloc"), 1);
}

TEST_F(CudaDevice, BuffersAndStreamsKeepTheirDevice) {
  std::optional<Buffer> buffer;
  std::optional<Stream> stream;
  {
    Device device = *makeCudaDevice();
    stream = *Stream::create(device);
    buffer = *Buffer::allocateOn(*stream, vectorType());
  }
  stream.reset();
  EXPECT_FALSE(alive().empty());
  buffer.reset();
  EXPECT_TRUE(alive().empty());
}

TEST_F(CudaDevice, RefusesMessagesAmongRanks) {
  Program program = makeCudaProgram();
  Launch &launch = program.launches.emplace_back();
  launch.kernel = "all_reduce_0";
  launch.collective.emplace();
  launch.buffers = {{BufferRef::Kind::Argument, 0, 0, 4, false},
                    {BufferRef::Kind::Result, 0, 0, 4, true}};
  Status status = makeCudaExecutable(*makeCudaDevice(), program).status();
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_EQ(status.text(), "has collective 'all_reduce_0', but this device "
                           "was made for one rank; use cudaForRanks()");
}

//===----------------------------------------------------------------------===//
// Devices in host memory take the same calls
//===----------------------------------------------------------------------===//

TEST(HostStream, DoesEverythingAtOnce) {
  Device device = *Device::cpu({.threads = 1});
  Stream stream = *Stream::create(device);
  EXPECT_EQ(stream.handle(), nullptr);
  Buffer buffer = *Buffer::allocateOn(stream, vectorType());
  EXPECT_FALSE(buffer.onDevice());
  Buffer source = makeVector(1);
  ASSERT_TRUE(buffer.copyFrom(source, stream).ok());
  EXPECT_EQ(buffer.as<float>()[1], 2);
  EXPECT_EQ(buffer.toHost(stream)->as<float>()[2], 3);
  EXPECT_TRUE(*stream.finished());
  EXPECT_TRUE(stream.synchronize().ok());
  bool called = false;
  ASSERT_TRUE(stream.then([&](const Status &) { called = true; }).ok());
  EXPECT_TRUE(called);
  EXPECT_EQ(stream.waitFor(nullptr).code(), StatusCode::InvalidArgument);
  EXPECT_EQ(stream.record(nullptr).code(), StatusCode::InvalidArgument);
  EXPECT_EQ(Stream::fromHandle(device, nullptr).status().code(),
            StatusCode::InvalidArgument);
}
