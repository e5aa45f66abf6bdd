//===- CudaAlignmentTests.cpp - tests of misaligned device memory ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels load 16 bytes at once. Misaligned arguments of a caller, such as a
// row of a tensor, are copied through aligned memory; the recording driver
// reports kernels that get a misaligned pointer.
//
//===----------------------------------------------------------------------===//

#include "CudaTestProgram.h"

using namespace mpc;
using namespace mpc::recording;

namespace {

/// Memory on the device, and a vector in it at an offset of some bytes.
struct Shifted {
  Buffer whole, vector;

  Shifted(const Device &device, const Stream &stream, size_t bytes) {
    whole = *Buffer::allocateOn(stream, {ElementType::F32, {kElements + 64}});
    vector = *Buffer::fromDevice(device, vectorType(), whole.address() + bytes,
                                 kElements * 4);
  }
};

struct Fixture {
  Device device = *makeCudaDevice();
  Stream stream = *Stream::create(device);
};

} // namespace

using CudaAlignment = CudaTest;

TEST_F(CudaAlignment, AnAsynchronousRunStagesWhatIsMisaligned) {
  Fixture on;
  Executable executable = *makeCudaExecutable(on.device, makeCudaProgram());
  Shifted x(on.device, on.stream, 4), y(on.device, on.stream, 12);
  std::array inputs = {x.vector}, outputs = {y.vector};
  for (float start : {3.0f, 5.0f}) {
    Buffer host = makeVector(start);
    ASSERT_TRUE(x.vector.copyFrom(host, on.stream).ok());
    ASSERT_TRUE(executable.runAsync(inputs, outputs, on.stream).ok());
    EXPECT_TRUE(isResult(*y.vector.toHost(on.stream), start));
  }
  // On another stream as well, with the staging memory of the first stream.
  Stream other = *Stream::create(on.device);
  ASSERT_TRUE(executable.runAsync(inputs, outputs, other).ok());
  EXPECT_TRUE(isResult(*y.vector.toHost(other), 5));
}

TEST_F(CudaAlignment, ABlockingRunStagesWhatIsMisaligned) {
  Fixture on;
  Executable executable = *makeCudaExecutable(on.device, makeCudaProgram());
  Shifted x(on.device, on.stream, 8);
  Buffer host = makeVector(2);
  ASSERT_TRUE(x.vector.copyFrom(host, on.stream).ok());
  ASSERT_TRUE(on.stream.synchronize().ok());
  std::array inputs = {x.vector};
  Result<std::vector<Buffer>> results = executable.run(inputs);
  ASSERT_TRUE(results.ok()) << results.status().toString();
  EXPECT_TRUE(isResult(results->front(), 2));
}

// In-place updates of a misaligned argument are written to its own memory.
TEST_F(CudaAlignment, AMisalignedArgumentIsRenewedAtHome) {
  Fixture on;
  Program step = makeCudaProgram();
  step.results.front().alias = 0;
  Executable executable = *makeCudaExecutable(on.device, std::move(step));
  Shifted x(on.device, on.stream, 4);
  Buffer host = makeVector(1);
  ASSERT_TRUE(x.vector.copyFrom(host, on.stream).ok());
  std::array arguments = {x.vector};
  std::array<Buffer, 1> results;
  ASSERT_TRUE(executable.runAsync(arguments, results, on.stream).ok());
  EXPECT_EQ(results[0].address(), x.vector.address());
  EXPECT_TRUE(isResult(*x.vector.toHost(on.stream), 1));
}

TEST_F(CudaAlignment, AlignedMemoryIsUsedInPlace) {
  Fixture on;
  Executable executable = *makeCudaExecutable(on.device, makeCudaProgram());
  Shifted x(on.device, on.stream, 16), y(on.device, on.stream, 240);
  Buffer host = makeVector(4);
  ASSERT_TRUE(x.vector.copyFrom(host, on.stream).ok());
  ASSERT_TRUE(on.stream.synchronize().ok());
  std::array inputs = {x.vector}, outputs = {y.vector};
  forgetCalls();
  ASSERT_TRUE(executable.runAsync(inputs, outputs, on.stream).ok());
  EXPECT_EQ(count("cuMemcpyDtoDAsync"), 0);
  // Intermediate memory alone.
  EXPECT_EQ(count("cuMemAllocFromPoolAsync"), 1);
  EXPECT_TRUE(isResult(*y.vector.toHost(on.stream), 4));
}

TEST_F(CudaAlignment, WithoutMemoryForTheCopyTheRunFails) {
  Fixture on;
  Executable executable = *makeCudaExecutable(on.device, makeCudaProgram());
  Shifted x(on.device, on.stream, 4), y(on.device, on.stream, 0);
  std::array inputs = {y.vector}, outputs = {y.vector};
  ASSERT_TRUE(executable.runAsync(inputs, outputs, on.stream).ok());
  machine().failingCalls["cuMemAllocFromPoolAsync"] = detail::kCuOutOfMemory;
  inputs = {x.vector};
  Status status = executable.runAsync(inputs, outputs, on.stream);
  EXPECT_EQ(status.code(), StatusCode::ResourceExhausted);
  machine().failingCalls.clear();
  EXPECT_TRUE(executable.runAsync(inputs, outputs, on.stream).ok());
  EXPECT_TRUE(on.stream.synchronize().ok());
}
