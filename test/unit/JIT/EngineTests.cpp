//===- EngineTests.cpp - tests of the public compile call -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/JIT/Engine.h"

#include "../TemporaryModel.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

using namespace mpc;

namespace {

class EngineTest : public TemporaryFolder {
protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    path = writeModel(R"(
func.func @main(%x: tensor<2x3xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<2x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %w = mpc.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %b = mpc.constant dense<[0.5, -100.0]> : tensor<2xf32>
  %0 = mpc.matmul %x, %w : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %1 = mpc.add %0, %b : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  %2 = mpc.relu %1 : tensor<2x2xf32>
  return %2 : tensor<2x2xf32>
})",
                      "m.mlir");
  }

  Engine engine = *Engine::create(*Device::cpu({.threads = 2}));
  Buffer input = *Buffer::fromValues<float>(
      {ElementType::F32, {2, 3}}, std::array<float, 6>{1, 2, 3, 4, 5, 6});
  std::string path;
};

} // namespace

TEST_F(EngineTest, CompilesAndRuns) {
  for (const char *policy : {"float32", "mixed_bfloat16", "mixed_float16"}) {
    CompileOptions options;
    options.policy = policy;
    Result<Executable> model = engine.compile(path, options);
    ASSERT_TRUE(model.ok()) << model.status().toString();
    EXPECT_EQ(model->program().arguments[0].name, "x");
    EXPECT_EQ(model->program().results[0].type.toString(), "f32[2,2]");
    std::array inputs = {input};
    Result<std::vector<Buffer>> results = model->run(inputs);
    ASSERT_TRUE(results.ok()) << results.status().toString();
    // Small integers are exact in every policy.
    std::span<float> y = results->front().as<float>();
    EXPECT_EQ(y[0], 22.5f);
    EXPECT_EQ(y[1], 0);
    EXPECT_EQ(y[2], 49.5f);
    EXPECT_EQ(y[3], 0);
  }
}

TEST_F(EngineTest, EndsWhereItIsAskedToStop) {
  // As often as a complete compile checks for cancellation, so that each check
  // is once the one that cancels.
  std::atomic<int> asked = 0;
  CompileOptions options;
  options.useCache = false;
  options.shouldStop = [&] {
    ++asked;
    return false;
  };
  ASSERT_TRUE(engine.compile(path, options).ok());
  int questions = asked;
  ASSERT_GT(questions, 5);
  for (int last = 1; last <= questions; ++last) {
    asked = 0;
    std::vector<Diagnostic> heard;
    options.shouldStop = [&] { return ++asked >= last; };
    options.onDiagnostic = [&](const Diagnostic &message) {
      heard.push_back(message);
    };
    Result<Executable> model = engine.compile(path, options);
    // Time decides how often a wait asks.
    if (asked < last)
      continue;
    ASSERT_FALSE(model.ok()) << last;
    EXPECT_EQ(model.status().code(), StatusCode::Unavailable) << last;
    EXPECT_EQ(model.status().text(), "was stopped by the caller") << last;
    EXPECT_TRUE(heard.empty()) << last;
  }
}

TEST_F(EngineTest, FailuresAreStatusAndDiagnostic) {
  std::ofstream(path) << "func.func @main() { mpc.nothing }";
  std::vector<Diagnostic> heard;
  CompileOptions options;
  options.onDiagnostic = [&](const Diagnostic &message) {
    heard.push_back(message);
  };
  Result<Executable> model = engine.compile(path, options);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), StatusCode::InvalidArgument);
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].text, model.status().text());
  EXPECT_EQ(heard[0].stage, "import");
  EXPECT_EQ(engine.compile((folder / "none.mlir").string()).status().code(),
            StatusCode::NotFound);
}

TEST_F(EngineTest, UnknownPolicyIsRefused) {
  CompileOptions options;
  options.policy = "mixed_float15";
  Result<Executable> model = engine.compile(path, options);
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.status().toString().find("mixed_float15"), std::string::npos);
}

TEST_F(EngineTest, CompilesFromTwoThreads) {
  std::array<bool, 2> good = {};
  std::array<std::thread, 2> threads;
  for (int t = 0; t < 2; ++t)
    threads[t] = std::thread([&, t] {
      Result<Executable> model = engine.compile(path);
      std::array inputs = {input};
      good[t] = model.ok() && model->run(inputs).ok();
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_TRUE(good[0] && good[1]);
}

TEST_F(EngineTest, NullDeviceNeedsNoCode) {
  Engine null = *Engine::create(Device::null());
  Result<Executable> model = null.compile(path);
  ASSERT_TRUE(model.ok()) << model.status().toString();
  EXPECT_EQ(model->program().launches.front().function, nullptr);
  std::array inputs = {input};
  EXPECT_TRUE(model->run(inputs).ok());
}

TEST_F(EngineTest, DumpsEveryStage) {
  CompileOptions options;
  options.dumpDir = (folder / "dumps").string();
  std::vector<std::string> stages;
  options.onStage = [&](const std::string &stage) { stages.push_back(stage); };
  ASSERT_TRUE(engine.compile(path, options).ok());
  EXPECT_EQ(stages.front(), "import");
  EXPECT_EQ(stages.back(), "codegen");
  // Files of numbered stages, and files of kernels during code generation.
  size_t files = 0;
  std::set<std::string> kernels;
  for (const auto &entry :
       std::filesystem::directory_iterator(options.dumpDir)) {
    std::string name = entry.path().filename().string();
    if (std::isdigit(name.front()) == 0)
      kernels.insert(name);
    else
      files += entry.path().extension() == ".mlir";
  }
  EXPECT_EQ(files, stages.size());
  EXPECT_EQ(kernels, (std::set<std::string>{"kernels.scheduled.mlir",
                                            "kernels.tiles.mlir",
                                            "kernels.vectors.mlir"}));
  std::ifstream first(folder / "dumps" / "00-import.mlir");
  std::string line;
  std::getline(first, line);
  EXPECT_EQ(line.rfind("// next: mpc-opt --mpc-pipeline-simplify=", 0), 0u)
      << line;
}

// The value that decides a shape is no argument any more; others are never
// read, and a compile without it names it.
TEST_F(EngineTest, CompilesTheValuesThatShapesDependOn) {
  const char *root = std::getenv("MPC_SOURCE_DIR");
  if (!root)
    GTEST_SKIP() << "MPC_SOURCE_DIR names no source tree";
  std::string model = std::string(root) + "/test/Inputs/onnx/top-k-input.onnx";
  Buffer x = *Buffer::allocate({ElementType::F32, {4, 8}});
  x.as<float>()[7] = 2.5f;
  for (int64_t k : {3, 5, 3}) {
    CompileOptions options;
    options.inputValues["x"] = x;
    options.inputValues["k"] = *Buffer::fromValues<int64_t>(
        {ElementType::I64, {1}}, std::array<int64_t, 1>{k});
    Result<Executable> compiled = engine.compile(model, options);
    ASSERT_TRUE(compiled.ok()) << compiled.status().toString();
    ASSERT_EQ(compiled->program().arguments.size(), 1u);
    EXPECT_EQ(compiled->program().arguments[0].name, "x");
    std::array inputs = {x};
    Result<std::vector<Buffer>> results = compiled->run(inputs);
    ASSERT_TRUE(results.ok()) << results.status().toString();
    EXPECT_EQ((*results)[0].type().shape, (std::vector<int64_t>{4, k}));
    EXPECT_EQ((*results)[0].as<float>()[0], 2.5f * float(k));
  }
  Result<Executable> without = engine.compile(model);
  ASSERT_FALSE(without.ok());
  EXPECT_NE(without.status().toString().find("depends on graph input 'k'"),
            std::string::npos);
}
