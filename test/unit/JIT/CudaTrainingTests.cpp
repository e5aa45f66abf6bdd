//===- CudaTrainingTests.cpp - whole training steps of a GPU's kernels ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A model goes through all stages into a step for a GPU, and the printed
// kernels run on the host with checks for bounds and races. The CPU's step is
// beside it.
//
//===----------------------------------------------------------------------===//

#include "mpc/JIT/Engine.h"
#include "mpc/Target/CUDA/HostDevice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace mpc;
namespace fs = std::filesystem;

namespace {

constexpr char kMlp[] = R"(
func.func @main(%x: tensor<16x40xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<16x10xf32> {mpc.role = #mpc.role<output>, mpc.name = "logits"}) {
  %w1 = mpc.constant dense<0.01> : tensor<40x24xf32> loc("fc1/weight")
  %b1 = mpc.constant dense<0.5> : tensor<24xf32> loc("fc1/bias")
  %w2 = mpc.constant dense<0.02> : tensor<24x10xf32> loc("fc2/weight")
  %b2 = mpc.constant dense<0.25> : tensor<10xf32> loc("fc2/bias")
  %0 = mpc.matmul %x, %w1 : (tensor<16x40xf32>, tensor<40x24xf32>) -> tensor<16x24xf32> loc("fc1")
  %1 = mpc.add %0, %b1 : (tensor<16x24xf32>, tensor<24xf32>) -> tensor<16x24xf32> loc("fc1")
  %2 = mpc.relu %1 : tensor<16x24xf32> loc("relu")
  %3 = mpc.matmul %2, %w2 : (tensor<16x24xf32>, tensor<24x10xf32>) -> tensor<16x10xf32> loc("fc2")
  %4 = mpc.add %3, %b2 : (tensor<16x10xf32>, tensor<10xf32>) -> tensor<16x10xf32> loc("fc2")
  return %4 : tensor<16x10xf32>
}
)";

constexpr char kCnn[] = R"(
func.func @main(%x: tensor<4x2x10x10xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x10xf32> {mpc.role = #mpc.role<output>, mpc.name = "logits"}) {
  %f1 = mpc.constant dense<0.05> : tensor<8x2x3x3xf32> loc("conv1/weight")
  %f2 = mpc.constant dense<0.02> : tensor<4x8x3x3xf32> loc("conv2/weight")
  %w = mpc.constant dense<0.02> : tensor<36x10xf32> loc("fc/weight")
  %b = mpc.constant dense<0.25> : tensor<10xf32> loc("fc/bias")
  %0 = mpc.conv %x, %f1 strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<4x2x10x10xf32>, tensor<8x2x3x3xf32>) -> tensor<4x8x8x8xf32> loc("conv1")
  %1 = mpc.relu %0 : tensor<4x8x8x8xf32>
  %2 = mpc.conv %1, %f2 strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<4x8x8x8xf32>, tensor<4x8x3x3xf32>) -> tensor<4x4x6x6xf32> loc("conv2")
  %3 = mpc.max_pool %2 window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) : tensor<4x4x6x6xf32> -> tensor<4x4x3x3xf32>
  %4 = mpc.reshape %3 : tensor<4x4x3x3xf32> to tensor<4x36xf32>
  %5 = mpc.matmul %4, %w : (tensor<4x36xf32>, tensor<36x10xf32>) -> tensor<4x10xf32> loc("fc")
  %6 = mpc.add %5, %b : (tensor<4x10xf32>, tensor<10xf32>) -> tensor<4x10xf32> loc("fc")
  return %6 : tensor<4x10xf32>
}
)";

/// Channels last with biases: the filters' kernels sum them as well.
constexpr char kBiasedCnn[] = R"(
func.func @main(%x: tensor<4x10x10x1xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x10xf32> {mpc.role = #mpc.role<output>, mpc.name = "logits"}) {
  %f1 = mpc.constant dense<0.05> : tensor<8x1x3x3xf32> loc("conv1/weight")
  %b1 = mpc.constant dense<0.5> : tensor<8xf32> loc("conv1/bias")
  %f2 = mpc.constant dense<0.02> : tensor<4x8x3x3xf32> loc("conv2/weight")
  %b2 = mpc.constant dense<0.25> : tensor<4xf32> loc("conv2/bias")
  %w = mpc.constant dense<0.02> : tensor<36x10xf32> loc("fc/weight")
  %0 = mpc.conv %x, %f1 strides([1, 1]) pad([1, 1], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<4x10x10x1xf32>, tensor<8x1x3x3xf32>) -> tensor<4x9x9x8xf32> loc("conv1")
  %1 = mpc.add %0, %b1 : (tensor<4x9x9x8xf32>, tensor<8xf32>) -> tensor<4x9x9x8xf32> loc("conv1")
  %2 = mpc.relu %1 : tensor<4x9x9x8xf32>
  %3 = mpc.conv %2, %f2 strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<4x9x9x8xf32>, tensor<4x8x3x3xf32>) -> tensor<4x7x7x4xf32> loc("conv2")
  %4 = mpc.add %3, %b2 : (tensor<4x7x7x4xf32>, tensor<4xf32>) -> tensor<4x7x7x4xf32> loc("conv2")
  %5 = mpc.max_pool %4 window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : tensor<4x7x7x4xf32> -> tensor<4x3x3x4xf32>
  %6 = mpc.reshape %5 : tensor<4x3x3x4xf32> to tensor<4x36xf32>
  %7 = mpc.matmul %6, %w : (tensor<4x36xf32>, tensor<36x10xf32>) -> tensor<4x10xf32> loc("fc")
  return %7 : tensor<4x10xf32>
}
)";

constexpr char kNorm[] = R"(
func.func @main(%x: tensor<16x40xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<16x10xf32> {mpc.role = #mpc.role<output>, mpc.name = "logits"}) {
  %w1 = mpc.constant dense<0.01> : tensor<40x24xf32> loc("fc1/weight")
  %s = mpc.constant dense<1.0> : tensor<24xf32> loc("norm/weight")
  %b = mpc.constant dense<0.5> : tensor<24xf32> loc("norm/bias")
  %w2 = mpc.constant dense<0.02> : tensor<24x10xf32> loc("fc2/weight")
  %0 = mpc.matmul %x, %w1 : (tensor<16x40xf32>, tensor<40x24xf32>) -> tensor<16x24xf32> loc("fc1")
  %1 = mpc.layer_norm %0, %s, %b axis(1) epsilon(1.0e-5) : (tensor<16x24xf32>, tensor<24xf32>, tensor<24xf32>) -> tensor<16x24xf32> loc("norm")
  %2 = mpc.matmul %1, %w2 : (tensor<16x24xf32>, tensor<24x10xf32>) -> tensor<16x10xf32> loc("fc2")
  return %2 : tensor<16x10xf32>
}
)";

class CudaTraining : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "mpc-XXXXXX").string();
    folder = mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string write(const char *text) {
    std::string path = (folder / "model.mlir").string();
    std::ofstream(path) << text;
    return path;
  }

  /// The buffers after `steps` steps on one batch.
  std::vector<Buffer> train(const Executable &executable, int64_t steps) {
    std::vector<Buffer> arguments;
    for (const ProgramValue &value : executable.program().arguments) {
      arguments.push_back(*Buffer::allocate(value.type));
      Buffer &buffer = arguments.back();
      if (value.initial)
        std::memcpy(buffer.data(), value.initial.get(), buffer.size());
      if (value.role == "input")
        for (size_t i = 0; float &x : buffer.as<float>())
          x = std::sin(float(++i));
      if (value.role == "label")
        for (size_t i = 0; int32_t &label : buffer.as<int32_t>())
          label = int32_t(i++ * 7 % 10);
    }
    for (int64_t step = 0; step < steps; ++step) {
      Result<std::vector<Buffer>> results = executable.run(arguments);
      EXPECT_TRUE(results.ok()) << results.status().toString();
    }
    return arguments;
  }

  /// Trains on both and compares what is kept from step to step. `length` is
  /// the longest reduction. The momentum forgets, so each step's difference
  /// counts once.
  void compare(const std::string &path, const CompileOptions &options,
               double length) {
    const int64_t steps = 2;
    Engine host = *Engine::create(cudaHostDevice()),
           cpu = *Engine::create(*Device::cpu({.threads = 1}));
    Result<Executable> kernels = host.compileFile(path, options),
                       expected = cpu.compileFile(path, options);
    ASSERT_TRUE(kernels.ok()) << kernels.status().toString();
    ASSERT_TRUE(expected.ok()) << expected.status().toString();
    std::vector<Buffer> actual = train(*kernels, steps),
                        wanted = train(*expected, steps);
    const auto &values = kernels->program().arguments;
    ASSERT_EQ(actual.size(), wanted.size());
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].role != "parameter" &&
          values[i].role != "optimizer_state") {
        EXPECT_EQ(
            std::memcmp(actual[i].data(), wanted[i].data(), actual[i].size()),
            0)
            << values[i].name;
        continue;
      }
      auto a = actual[i].as<float>(), b = wanted[i].as<float>();
      double square = 0, largest = 0;
      for (size_t k = 0; k < a.size(); ++k) {
        square += double(b[k]) * b[k];
        largest = std::max(largest, std::abs(double(a[k]) - b[k]));
      }
      double magnitude = std::sqrt(square / double(a.size()));
      EXPECT_GT(magnitude, 0) << values[i].name;
      // Both sides differ from the exact sums.
      EXPECT_LE(largest, 2 * double(steps) * 4 * std::sqrt(length) *
                             std::ldexp(1, -24) * magnitude)
          << values[i].name;
    }
  }

  fs::path folder;
};

CompileOptions stepOptions() {
  CompileOptions options;
  options.training.emplace();
  options.training->optimizer.kind = "sgd";
  options.training->optimizer.numbers["momentum"] = 0.5;
  options.training->schedule.base = 0.01;
  options.training->initialSeed = 7;
  return options;
}

} // namespace

TEST_F(CudaTraining, StepOfAnMlp) { compare(write(kMlp), stepOptions(), 40); }

// The check and the norm of the gradients, the loss scale's state, the counter.
TEST_F(CudaTraining, ScaledAndClippedStep) {
  CompileOptions options = stepOptions();
  options.training->lossScale = "dynamic";
  options.training->clipNorm = 0.5;
  compare(write(kMlp), options, 40);
}

TEST_F(CudaTraining, StepOfAConvolutionNetwork) {
  compare(write(kCnn), stepOptions(), 4 * 64 * 9);
}

TEST_F(CudaTraining, StepOfConvolutionsWithBiases) {
  compare(write(kBiasedCnn), stepOptions(), 4 * 81 * 9);
}

// The filters' kernels narrow images and, for the check, what they store. The
// scale is small enough that no gradient overflows and the step counts. The
// first step makes the copies of the weights that the second one reads.
TEST_F(CudaTraining, StepOfConvolutionsInSixteenBits) {
  std::string path = write(kBiasedCnn);
  for (const char *policy : {"mixed_bfloat16", "mixed_float16"}) {
    CompileOptions options = stepOptions();
    options.policy = policy;
    options.training->lossScale = "dynamic,init=16";
    Engine host = *Engine::create(cudaHostDevice());
    Result<Executable> kernels = host.compileFile(path, options);
    ASSERT_TRUE(kernels.ok()) << kernels.status().toString();
    std::vector<Buffer> before = train(*kernels, 0), after = train(*kernels, 2);
    const auto &values = kernels->program().arguments;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].role != "parameter")
        continue;
      EXPECT_NE(std::memcmp(before[i].data(), after[i].data(), after[i].size()),
                0)
          << policy << ' ' << values[i].name;
      for (float value : after[i].as<float>())
        EXPECT_TRUE(std::isfinite(value)) << values[i].name;
    }
  }
}

TEST_F(CudaTraining, StepWithANorm) {
  compare(write(kNorm), stepOptions(), 40);
}
