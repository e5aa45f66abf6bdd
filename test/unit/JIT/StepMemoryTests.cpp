//===- StepMemoryTests.cpp - memory of a training step --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory that a step holds between kernels, without parameters and states.
//
//===----------------------------------------------------------------------===//

#include "../TemporaryModel.h"

#include "mpc/JIT/Engine.h"

#include <gtest/gtest.h>

using namespace mpc;

namespace {

/// A small convolutional network at batch 256. Values do not matter.
constexpr char kNetwork[] = R"(
func.func @main(%x: tensor<256x1x28x28xf32> {mpc.role = #mpc.role<input>, mpc.name = "image"})
    -> (tensor<256x10xf32> {mpc.role = #mpc.role<output>, mpc.name = "logits"}) {
  %w1 = mpc.constant dense<0.01> : tensor<32x1x3x3xf32> loc("conv1.weight")
  %b1 = mpc.constant dense<0.02> : tensor<1x32x1x1xf32> loc("conv1.bias")
  %w2 = mpc.constant dense<0.03> : tensor<64x32x3x3xf32> loc("conv2.weight")
  %b2 = mpc.constant dense<0.04> : tensor<1x64x1x1xf32> loc("conv2.bias")
  %w3 = mpc.constant dense<0.05> : tensor<9216x128xf32> loc("fc1.weight")
  %b3 = mpc.constant dense<0.06> : tensor<128xf32> loc("fc1.bias")
  %w4 = mpc.constant dense<0.07> : tensor<128x10xf32> loc("fc2.weight")
  %b4 = mpc.constant dense<0.08> : tensor<10xf32> loc("fc2.bias")
  %0 = mpc.conv %x, %w1 strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<256x1x28x28xf32>, tensor<32x1x3x3xf32>) -> tensor<256x32x26x26xf32>
  %1 = mpc.add %0, %b1 : (tensor<256x32x26x26xf32>, tensor<1x32x1x1xf32>) -> tensor<256x32x26x26xf32>
  %2 = mpc.relu %1 : tensor<256x32x26x26xf32>
  %3 = mpc.conv %2, %w2 strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<256x32x26x26xf32>, tensor<64x32x3x3xf32>) -> tensor<256x64x24x24xf32>
  %4 = mpc.add %3, %b2 : (tensor<256x64x24x24xf32>, tensor<1x64x1x1xf32>) -> tensor<256x64x24x24xf32>
  %5 = mpc.relu %4 : tensor<256x64x24x24xf32>
  %6 = mpc.max_pool %5 window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) : tensor<256x64x24x24xf32> -> tensor<256x64x12x12xf32>
  %7 = mpc.reshape %6 : tensor<256x64x12x12xf32> to tensor<256x9216xf32>
  %8 = mpc.matmul %7, %w3 : (tensor<256x9216xf32>, tensor<9216x128xf32>) -> tensor<256x128xf32>
  %9 = mpc.add %8, %b3 : (tensor<256x128xf32>, tensor<128xf32>) -> tensor<256x128xf32>
  %10 = mpc.relu %9 : tensor<256x128xf32>
  %11 = mpc.matmul %10, %w4 : (tensor<256x128xf32>, tensor<128x10xf32>) -> tensor<256x10xf32>
  %12 = mpc.add %11, %b4 : (tensor<256x10xf32>, tensor<10xf32>) -> tensor<256x10xf32>
  return %12 : tensor<256x10xf32>
}
)";

class StepMemory : public TemporaryFolder {
protected:
  /// A step under `policy`, for no device.
  Result<Executable> compile(const std::string &policy) {
    CompileOptions options;
    options.policy = policy;
    options.training.emplace();
    return Engine::create(Device::null())
        ->compile(writeModel(kNetwork), options);
  }
};

} // namespace

TEST_F(StepMemory, TheArenaIsAsSmallAsTheLaunchesAllow) {
  for (const char *policy : {"float32", "mixed_float16", "mixed_bfloat16"}) {
    Result<Executable> step = compile(policy);
    ASSERT_TRUE(step.ok()) << step.status().toString();
    int64_t live = step->program().liveArenaBytes();
    EXPECT_LE(step->program().arenaBytes, live + live / 100) << policy;
  }
}

TEST_F(StepMemory, HalfTypesTakeAtMostSixTenths) {
  Result<Executable> full = compile("float32");
  ASSERT_TRUE(full.ok()) << full.status().toString();
  for (const char *policy : {"mixed_float16", "mixed_bfloat16"}) {
    Result<Executable> half = compile(policy);
    ASSERT_TRUE(half.ok()) << half.status().toString();
    EXPECT_LE(double(half->program().arenaBytes),
              0.6 * double(full->program().arenaBytes))
        << policy;
  }
}

TEST_F(StepMemory, ParametersAndStatesLieWhereTheyWere) {
  Result<Executable> step = compile("mixed_float16");
  ASSERT_TRUE(step.ok()) << step.status().toString();
  const Program &program = step->program();
  for (const ProgramValue &value : program.results)
    if (value.role != "loss" && value.role != "output") {
      ASSERT_GE(value.alias, 0) << value.name;
      const ProgramValue &argument = program.arguments[size_t(value.alias)];
      EXPECT_EQ(argument.name, value.name);
      EXPECT_EQ(argument.role, value.role);
      EXPECT_EQ(argument.field, value.field);
    }
  for (const ProgramValue &value : program.arguments)
    if (value.role == "parameter")
      EXPECT_TRUE(value.initial) << value.name;
  // Nothing but scalars is copied at the end.
  for (const Launch &launch : program.launches)
    if (launch.kind == "copy")
      EXPECT_LE(launch.bytes, 16);
}
