//===- CudaTestProgram.h - a program for a recorded GPU ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A device on the recording driver and a program of two kernels, whose bodies
// are C++.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_RUNTIME_CUDA_CUDATESTPROGRAM_H
#define MPC_TEST_UNIT_RUNTIME_CUDA_CUDATESTPROGRAM_H

#include "CUDA/CudaDevice.h"
#include "RecordingDriver.h"
#include "mpc/Runtime/Executable.h"

#include <gtest/gtest.h>

#include <array>

namespace mpc::recording {

inline constexpr int64_t kElements = 1000;

/// f32[1000].
inline TensorType vectorType() { return {ElementType::F32, {kElements}}; }

/// `kernels` with text.
inline CudaCode textOf(std::initializer_list<const char *> kernels) {
  CudaCode code;
  for (const char *name : kernels)
    code.kernels.push_back({name, "// text"});
  return code;
}

/// A compiler for texts: machine code by the name of each kernel.
inline Result<std::vector<CudaCode::Binary>>
compileTexts(const CudaCode &code, const std::string &architecture) {
  std::vector<CudaCode::Binary> binaries;
  for (const CudaCode::Kernel &kernel : code.kernels)
    binaries.push_back(
        {architecture,
         {kernel.name},
         machineCode({{kernel.name, kernel.name == "double" ? 2 : 4}})});
  return binaries;
}

/// y = 2 x + c, with 2 x in the arena; the second kernel counts its runs in
/// scratch memory and clears it again.
inline Program makeCudaProgram() {
  auto ref = [](BufferRef::Kind kind, int64_t offset, bool written) {
    return BufferRef{kind, 0, offset, kElements * 4, written};
  };
  Program program;
  program.name = "main";
  program.target = "cuda:sm_80";
  program.arguments = {{"x", vectorType()}};
  program.results = {{"y", vectorType()}};
  std::shared_ptr<void> constant = allocateAligned(kElements * 4);
  for (int64_t i = 0; i < kElements; ++i)
    static_cast<float *>(constant.get())[i] = float(i);
  program.constants = {{"c", vectorType(), constant, kElements * 4}};
  program.arenaBytes = 256 + kElements * 4;
  Launch twice;
  twice.kernel = "double";
  twice.kind = "elementwise";
  twice.ops = {"mul"};
  twice.buffers = {ref(BufferRef::Kind::Argument, 0, false),
                   ref(BufferRef::Kind::Arena, 256, true)};
  twice.grid = {{8, 1, 1}, 128, 0};
  Launch add;
  add.kernel = "add";
  add.kind = "elementwise";
  add.ops = {"bias", "relu"};
  add.buffers = {ref(BufferRef::Kind::Arena, 256, false),
                 ref(BufferRef::Kind::Constant, 0, false),
                 ref(BufferRef::Kind::Result, 0, true)};
  add.grid = {{4, 2, 1}, 256, 64 << 10};
  add.scratchBytes = 4;
  program.launches = {twice, add};
  program.cuda = std::make_shared<const CudaCode>(textOf({"double", "add"}));
  return program;
}

/// A machine on which the program's kernels do what they are called.
inline Machine makeMachine() {
  Machine machine;
  machine.kernels["double"] = [](const std::vector<void *> &parameters) {
    const auto *x = static_cast<const float *>(parameters[0]);
    auto *y = static_cast<float *>(parameters[1]);
    for (int64_t i = 0; i < kElements; ++i)
      y[i] = 2 * x[i];
  };
  machine.kernels["add"] = [](const std::vector<void *> &parameters) {
    const auto *x = static_cast<const float *>(parameters[0]);
    const auto *c = static_cast<const float *>(parameters[1]);
    auto *y = static_cast<float *>(parameters[2]);
    int scratch = *static_cast<int *>(parameters[3]);
    for (int64_t i = 0; i < kElements; ++i)
      y[i] = x[i] + c[i] + float(scratch);
  };
  return machine;
}

/// A device on the recording driver, whose machine is not reset.
inline Result<Device> makeCudaDevice(const CudaDeviceOptions &options = {},
                                     detail::CudaServices services = {
                                         compileTexts, {}}) {
  Result<std::shared_ptr<detail::DeviceImpl>> impl =
      detail::createCudaDevice(driver(), options, std::move(services));
  if (!impl.ok())
    return impl.status();
  return detail::DeviceAccess::make(std::move(*impl));
}

inline Result<Executable> makeCudaExecutable(const Device &device,
                                             Program program) {
  return Executable::create(
      device, std::make_shared<const Program>(std::move(program)));
}

/// x[i] = start + i, in host memory.
inline Buffer makeVector(float start) {
  Buffer buffer = *Buffer::allocate(vectorType());
  for (int64_t i = 0; i < kElements; ++i)
    buffer.as<float>()[i] = start + float(i);
  return buffer;
}

/// Whether `y` is the program's result for makeVector(start).
inline bool isResult(const Buffer &y, float start) {
  std::span<const float> values = y.as<float>();
  for (int64_t i = 0; i < kElements; ++i)
    if (values[i] != 2 * (start + float(i)) + float(i))
      return false;
  return values.size() == size_t(kElements);
}

/// Starts on a fresh machine; at the end nothing may be left and nothing may
/// have been done that a driver forbids.
class CudaTest : public testing::Test {
protected:
  void SetUp() override { restart(makeMachine()); }
  void TearDown() override {
    EXPECT_EQ(alive(), std::vector<std::string>());
    EXPECT_EQ(complaints(), std::vector<std::string>());
    EXPECT_EQ(contextDepth(), 0u);
  }
};

} // namespace mpc::recording

#endif // MPC_TEST_UNIT_RUNTIME_CUDA_CUDATESTPROGRAM_H
