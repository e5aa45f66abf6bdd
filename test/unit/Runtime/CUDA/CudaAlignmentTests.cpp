//===- CudaAlignmentTests.cpp - tests of misaligned device memory ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels load 16 bytes at once. What a caller has at another place, such as a
// row of a tensor, passes through memory that is aligned; the recording driver
// complains where a kernel gets anything else.
//
//===----------------------------------------------------------------------===//

#include "CudaTestProgram.h"

using namespace mpc;
using namespace mpc::recording;

namespace {

/// Memory on the device, and a vector in it that begins some bytes later.
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
  // On another stream as well, where the memory between was made on the first.
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

// What is renewed in place is renewed at its own place.
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

TEST_F(CudaAlignment, AlignedMemoryIsUsedWhereItLies) {
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
