//===- StepTests.cpp - programs that update arguments in place ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A hand-written optimizer update through all stages: parameters and states are
// updated in place, with lengths that are no multiple of a vector.
//
//===----------------------------------------------------------------------===//

#include "../TemporaryModel.h"

#include "mpc/JIT/CompileFile.h"
#include "mpc/JIT/Engine.h"
#include "mpc/Target/CUDA/Host/HostDevice.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace mpc;

namespace {

/// m = 0.75 m + g, w = w - m / (step + 1), copy = f16(w), step = step + 1.
constexpr char kStep[] = R"(
func.func @main(
    %g: tensor<Nxf32> {mpc.role = #mpc.role<input>, mpc.name = "g"},
    %w: tensor<Nxf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w",
                       mpc.initial = dense<0.5> : tensor<Nxf32>},
    %m: tensor<Nxf32> {mpc.role = #mpc.role<optimizer_state>, mpc.name = "w.momentum"},
    %c: tensor<Nxf16> {mpc.role = #mpc.role<parameter_copy>, mpc.name = "w.copy"},
    %s: tensor<i64> {mpc.role = #mpc.role<optimizer_step>, mpc.name = "step"})
    -> (tensor<Nxf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w", mpc.alias = 1 : i64},
        tensor<Nxf32> {mpc.role = #mpc.role<optimizer_state>, mpc.name = "w.momentum", mpc.alias = 2 : i64},
        tensor<Nxf16> {mpc.role = #mpc.role<parameter_copy>, mpc.name = "w.copy", mpc.alias = 3 : i64},
        tensor<i64> {mpc.role = #mpc.role<optimizer_step>, mpc.name = "step", mpc.alias = 4 : i64}) {
  %decay = mpc.constant dense<0.75> : tensor<f32>
  %one = mpc.constant dense<1> : tensor<i64>
  %d = mpc.mul %m, %decay : (tensor<Nxf32>, tensor<f32>) -> tensor<Nxf32>
  %m1 = mpc.add %d, %g : (tensor<Nxf32>, tensor<Nxf32>) -> tensor<Nxf32>
  %s1 = mpc.add %s, %one : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %t = mpc.cast %s1 : tensor<i64> to tensor<f32>
  %u = mpc.div %m1, %t : (tensor<Nxf32>, tensor<f32>) -> tensor<Nxf32>
  %w1 = mpc.sub %w, %u : (tensor<Nxf32>, tensor<Nxf32>) -> tensor<Nxf32>
  %c1 = mpc.cast %w1 : tensor<Nxf32> to tensor<Nxf16>
  return %w1, %m1, %c1, %s1 : tensor<Nxf32>, tensor<Nxf32>, tensor<Nxf16>, tensor<i64>
}
)";

class StepTest : public TemporaryFolder {
protected:
  std::string writeStep(int64_t count) {
    std::string text = kStep;
    for (size_t at; (at = text.find("<Nx")) != std::string::npos;)
      text.replace(at + 1, 1, std::to_string(count));
    return writeModel(text);
  }

  /// Runs three steps and compares every bit.
  void check(const Executable &executable, int64_t count) {
    const Program &program = executable.program();
    std::vector<Buffer> arguments;
    arguments.reserve(program.arguments.size());
    for (const ProgramValue &value : program.arguments)
      arguments.push_back(*Buffer::allocate(value.type));
    std::span<float> g = arguments[0].as<float>(), w = arguments[1].as<float>(),
                     m = arguments[2].as<float>();
    std::memcpy(w.data(), program.arguments[1].initial.get(),
                arguments[1].size());
    for (int64_t i = 0; i < count; ++i) {
      g[i] = float(i % 37) / 16 - 1;
      m[i] = float(i % 11) / 8;
    }
    std::vector<float> wantedW(w.begin(), w.end()), wantedM(m.begin(), m.end());
    for (int64_t step = 1; step <= 3; ++step) {
      Result<std::vector<Buffer>> results = executable.run(arguments);
      ASSERT_TRUE(results.ok()) << results.status().toString();
      auto copies = arguments[3].as<_Float16>();
      for (int64_t i = 0; i < count; ++i) {
        // Each operation rounds by itself.
        volatile float decayed = 0.75f * wantedM[i];
        wantedM[i] = decayed + g[i];
        volatile float update = wantedM[i] / float(step);
        wantedW[i] = wantedW[i] - update;
        ASSERT_EQ(m[i], wantedM[i]) << "step " << step << ", element " << i;
        ASSERT_EQ(w[i], wantedW[i]) << "step " << step << ", element " << i;
        ASSERT_EQ(float(copies[i]), float(_Float16(wantedW[i])));
      }
      EXPECT_EQ(arguments[4].as<int64_t>()[0], step);
    }
  }
};

} // namespace

TEST_F(StepTest, StatesAreWrittenInPlaceOnTheCpu) {
  // Scalars only, less than a vector, vectors and a remainder, many blocks.
  for (int64_t count : {1, 7, 1003, 100003})
    for (int threads : {1, 3}) {
      Engine engine = *Engine::create(*Device::cpu({.threads = threads}));
      Result<Executable> executable = engine.compile(writeStep(count));
      ASSERT_TRUE(executable.ok()) << executable.status().toString();
      const Program &program = executable->program();
      EXPECT_EQ(program.arguments[1].role, "parameter");
      ASSERT_TRUE(program.arguments[1].initial);
      EXPECT_FALSE(program.arguments[2].initial);
      EXPECT_EQ(program.results[3].alias, 4);
      check(*executable, count);
      if (HasFatalFailure())
        return;
    }
}

TEST_F(StepTest, AStepCopiesNothingOnAGpu) {
  Engine engine = *Engine::create(cudaHostDevice());
  for (int64_t count : {7, 5003}) {
    Result<Executable> executable = engine.compile(writeStep(count));
    ASSERT_TRUE(executable.ok()) << executable.status().toString();
    for (const Launch &launch : executable->program().launches)
      EXPECT_NE(launch.kind, "copy");
    check(*executable, count);
    if (HasFatalFailure())
      return;
  }
}

TEST_F(StepTest, AFileKeepsRolesAndInitialValues) {
  std::string path = (folder / "step.mpcx").string();
  Result<CompiledFile> file = compileToFile(writeStep(7), path, {"cpu:native"});
  ASSERT_TRUE(file.ok()) << file.status().toString();
  Result<Executable> executable =
      loadExecutable(*Device::cpu({.threads = 1}), path, {.trusted = true});
  ASSERT_TRUE(executable.ok()) << executable.status().toString();
  EXPECT_EQ(executable->program().arguments[4].role, "optimizer_step");
  check(*executable, 7);
}
