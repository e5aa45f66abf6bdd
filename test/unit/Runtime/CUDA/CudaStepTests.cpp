//===- CudaStepTests.cpp - tests of training steps on a GPU ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program that updates its arguments: every step is one graph launch on the
// same buffers, and the host does not wait.
//
//===----------------------------------------------------------------------===//

#include "CudaTestProgram.h"

using namespace mpc;
using namespace mpc::recording;

namespace {

/// x = 2 x + c, updated in place.
Program makeStep() {
  Program program = makeCudaProgram();
  program.results.front().name = "x";
  program.results.front().alias = 0;
  return program;
}

/// x after `steps` steps from `start`.
float expected(float start, int steps, int64_t i) {
  float value = start + float(i);
  while (steps-- > 0)
    value = 2 * value + float(i);
  return value;
}

} // namespace

using CudaStep = CudaTest;

TEST_F(CudaStep, StepsAreOneGraphLaunchEachAndNoWait) {
  Device device = *makeCudaDevice();
  Executable executable = *makeCudaExecutable(device, makeStep());
  Stream stream = *Stream::create(device);
  Buffer host = makeVector(3);
  std::array arguments = {*Buffer::allocateOn(stream, vectorType())};
  ASSERT_TRUE(arguments[0].copyFrom(host, stream).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  std::array<Buffer, 1> results;
  ASSERT_TRUE(executable.runAsync(arguments, results, stream).ok());
  EXPECT_EQ(results[0].address(), arguments[0].address());
  forgetCalls();
  for (int step = 0; step < 3; ++step)
    ASSERT_TRUE(executable.runAsync(arguments, results, stream).ok());
  EXPECT_EQ(count("cuGraphLaunch"), 3);
  for (const Call &made : calls()) {
    EXPECT_EQ(made.name.find("Synchronize"), std::string::npos) << made.name;
    EXPECT_EQ(made.name.find("Memcpy"), std::string::npos) << made.name;
    EXPECT_NE(made.name, "cuStreamBeginCapture");
  }
  Buffer after = *arguments[0].toHost(stream);
  for (int64_t i = 0; i < kElements; ++i)
    ASSERT_EQ(after.as<float>()[i], expected(3, 4, i));
}

TEST_F(CudaStep, ABlockingRunWritesBackToHostMemory) {
  Device device = *makeCudaDevice();
  Executable executable = *makeCudaExecutable(device, makeStep());
  std::array arguments = {makeVector(1)};
  for (int step = 1; step <= 2; ++step) {
    Result<std::vector<Buffer>> results = executable.run(arguments);
    ASSERT_TRUE(results.ok()) << results.status().toString();
    EXPECT_EQ(results->front().address(), arguments[0].address());
    for (int64_t i = 0; i < kElements; ++i)
      ASSERT_EQ(arguments[0].as<float>()[i], expected(1, step, i));
  }
}
