//===- CudaCompileTests.cpp - compiling for GPUs --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Needs no GPU: kernels run on the host, machine code is NVRTC's.
//
//===----------------------------------------------------------------------===//

#include "../TemporaryModel.h"
#include "Runtime/CUDA/Nvrtc.h"

#include "mpc/JIT/CompileFile.h"
#include "mpc/JIT/Engine.h"
#include "mpc/Reference/Compare.h"
#include "mpc/Target/CUDA/Host/HostDevice.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

using namespace mpc;
namespace fs = std::filesystem;

namespace {

std::string readText(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

std::vector<Buffer> makeInputs(const Program &program) {
  std::vector<Buffer> inputs;
  std::mt19937 random(1);
  for (const ProgramValue &value : program.arguments) {
    Buffer buffer = *Buffer::allocate(value.type);
    if (value.type.element == ElementType::F32)
      for (float &element : buffer.as<float>())
        element = float(random()) * 0x1p-31f - 1;
    inputs.push_back(std::move(buffer));
  }
  return inputs;
}

class CudaCompileTest : public TemporaryFolder {
protected:
  void SetUp() override {
    const char *root = std::getenv("MPC_SOURCE_DIR");
    if (!root)
      GTEST_SKIP() << "MPC_SOURCE_DIR names no source tree";
    tests = std::string(root) + "/test/";
    TemporaryFolder::SetUp();
    path = (folder / "m.mpcx").string();
    if (const char *kept = std::getenv("MPC_CACHE_DIR"))
      cacheBefore = kept;
  }
  void TearDown() override {
    TemporaryFolder::TearDown();
    if (cacheBefore.empty())
      unsetenv("MPC_CACHE_DIR");
    else
      setenv("MPC_CACHE_DIR", cacheBefore.c_str(), 1);
  }
  /// A cache of the test's own.
  void useOwnCache() { setenv("MPC_CACHE_DIR", (folder / "cache").c_str(), 1); }
  /// Whether the machine has what files for GPUs need; else why not.
  static std::string whyNoNvrtc() {
    Result<const detail::Nvrtc *> nvrtc = detail::installedNvrtc();
    return nvrtc.ok() ? "" : nvrtc.status().text();
  }

  std::string tests;
  std::string path, cacheBefore;
};

TEST_F(CudaCompileTest, EngineRunsOnTheHostWhatTheCpuComputes) {
  Engine cuda = *Engine::create(cudaHostDevice());
  Engine cpu = *Engine::create(*Device::cpu({.threads = 2}));
  std::string model = tests + "Integration/Inputs/dense.mlir";
  Result<Executable> a = cuda.compile(model);
  ASSERT_TRUE(a.ok()) << a.status().toString();
  EXPECT_EQ(a->program().target, "cuda:sm_80");
  ASSERT_TRUE(a->program().cuda);
  Result<Executable> b = cpu.compile(model);
  ASSERT_TRUE(b.ok()) << b.status().toString();
  std::vector<Buffer> inputs = makeInputs(a->program());
  Result<std::vector<Buffer>> fromCuda = a->run(inputs);
  ASSERT_TRUE(fromCuda.ok()) << fromCuda.status().toString();
  Result<std::vector<Buffer>> fromCpu = b->run(inputs);
  ASSERT_TRUE(fromCpu.ok());
  ASSERT_EQ(fromCuda->size(), fromCpu->size());
  mlir::MLIRContext context;
  int judged = 0;
  for (size_t i = 0; i < fromCuda->size(); ++i) {
    const Buffer &x = (*fromCuda)[i], &y = (*fromCpu)[i];
    if (x.type().element != ElementType::F32)
      continue;
    auto type = mlir::RankedTensorType::get(x.type().shape,
                                            mlir::Float32Type::get(&context));
    auto wanted = reference::Tensor::fromBytes(type, y.data());
    // Both sides round sums of the model's eight terms.
    reference::OutputError error = reference::compareOutput(
        reference::Tensor::fromBytes(type, x.data()), wanted, wanted,
        /*longestReduction=*/2 * 8, /*fatalIntegers=*/false);
    EXPECT_TRUE(error.ok) << error.rmsRelativeError << " " << error.tolerance;
    ++judged;
  }
  EXPECT_GT(judged, 0);
}

TEST_F(CudaCompileTest, FileHoldsSeveralTargetsAndRunsAsTheEngineDoes) {
  if (std::string why = whyNoNvrtc(); !why.empty())
    GTEST_SKIP() << why;
  std::string model = tests + "Integration/Inputs/block.mlir";
  CompileOptions options;
  options.policy = "mixed_bfloat16";
  Result<CompiledFile> written = compileToFile(
      model, path, {"cuda:sm_80", "cpu:native", "cuda:sm_90a"}, options);
  ASSERT_TRUE(written.ok()) << written.status().toString();
  ASSERT_EQ(written->specialisations[0].targets.size(), 3u);
  EXPECT_EQ(written->specialisations[0].targets[0].name, "cuda:sm_80");
  EXPECT_GT(written->specialisations[0].targets[0].codeBytes, 0);
  EXPECT_EQ(written->specialisations[0].targets[2].name, "cuda:sm_90a");

  Result<Executable> stored =
      loadExecutable(cudaHostDevice(), path, {.trusted = true});
  ASSERT_TRUE(stored.ok()) << stored.status().toString();
  EXPECT_EQ(stored->program().target, "cuda:sm_80");
  Result<Executable> compiled =
      Engine::create(cudaHostDevice())->compile(model, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().toString();
  std::vector<Buffer> inputs = makeInputs(stored->program());
  Result<std::vector<Buffer>> a = stored->run(inputs);
  Result<std::vector<Buffer>> b = compiled->run(inputs);
  ASSERT_TRUE(a.ok()) << a.status().toString();
  ASSERT_TRUE(b.ok()) << b.status().toString();
  for (size_t i = 0; i < a->size(); ++i) {
    auto x = (*a)[i].as<uint8_t>(), y = (*b)[i].as<uint8_t>();
    EXPECT_TRUE(std::equal(x.begin(), x.end(), y.begin(), y.end()));
  }
  EXPECT_TRUE(loadExecutable(*Device::cpu(), path, {.trusted = true}).ok());
}

TEST_F(CudaCompileTest, OldArchitecturesGetNoCode) {
  Result<CompiledFile> written = compileToFile(
      tests + "Integration/Inputs/dense.mlir", path, {"cuda:sm_70"});
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.status().code(), StatusCode::Unavailable);
  EXPECT_EQ(written.status().where(), "target 'cuda:sm_70'");
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(CudaCompileTest, SecondCompileComesFromTheCache) {
  useOwnCache();
  std::string model = (folder / "m.mlir").string();
  fs::copy(tests + "Integration/Inputs/dense.mlir", model);
  std::vector<std::string> stages;
  CompileOptions options;
  options.policy = "mixed_bfloat16";
  options.onStage = [&](const std::string &stage) { stages.push_back(stage); };
  auto compiles = [&] {
    stages.clear();
    Result<CompiledFile> written =
        compileToFile(model, path, {"cpu:avx2"}, options);
    EXPECT_TRUE(written.ok()) << written.status().toString();
    return !stages.empty();
  };
  EXPECT_TRUE(compiles());
  std::string first = readText(path);
  EXPECT_FALSE(compiles());
  EXPECT_EQ(readText(path), first);
  options.policy = "mixed_float16";
  EXPECT_TRUE(compiles());
  EXPECT_NE(readText(path), first);
  options.policy = "mixed_bfloat16";
  EXPECT_FALSE(compiles());
  options.rounding = RoundingMode::Relaxed;
  EXPECT_TRUE(compiles());
  options.rounding = RoundingMode::Strict;
  std::ofstream(model, std::ios::app) << "\n";
  EXPECT_TRUE(compiles()) << "the model's bytes count";
  // Corrupt cache entries are detected and replaced.
  for (const auto &entry : fs::recursive_directory_iterator(folder / "cache"))
    if (entry.is_regular_file())
      fs::resize_file(entry.path(), fs::file_size(entry.path()) / 2);
  EXPECT_TRUE(compiles());
  EXPECT_FALSE(compiles());
  // No folder, no cache.
  setenv("MPC_CACHE_DIR", "", 1);
  EXPECT_TRUE(compiles());
}

TEST_F(CudaCompileTest, ExternalDataAndPolicyFilesCount) {
  useOwnCache();
  for (const char *name : {"external-data.onnx", "external.bin"})
    fs::copy(tests + "Inputs/onnx/" + name, folder / name);
  std::string policy = (folder / "p.json").string();
  auto writePolicy = [&](const std::string &base) {
    std::ofstream(policy) << "{\"name\": \"p\", \"extends\": \"" << base
                          << "\"}";
  };
  writePolicy("mixed_bfloat16");
  CompileOptions options;
  options.policy = policy;
  bool ran = false;
  options.onStage = [&](const std::string &) { ran = true; };
  auto compiles = [&] {
    ran = false;
    Result<CompiledFile> written = compileToFile(
        (folder / "external-data.onnx").string(), path, {"cpu:avx2"}, options);
    EXPECT_TRUE(written.ok()) << written.status().toString();
    return ran;
  };
  EXPECT_TRUE(compiles());
  EXPECT_FALSE(compiles());
  writePolicy("mixed_float16");
  EXPECT_TRUE(compiles());
  std::string data = readText(folder / "external.bin");
  ASSERT_FALSE(data.empty());
  data[0] ^= 1;
  std::ofstream(folder / "external.bin", std::ios::binary) << data;
  EXPECT_TRUE(compiles());
  EXPECT_FALSE(compiles());
}

TEST_F(CudaCompileTest, MessagesAreKeptToo) {
  useOwnCache();
  std::string model = tests + "Inputs/onnx/small-cnn.onnx";
  std::vector<std::string> first, second;
  for (std::vector<std::string> *list : {&first, &second}) {
    CompileOptions options;
    // A named override of no effect is worth a word.
    options.policy = "float16";
    options.onDiagnostic = [&](const Diagnostic &message) {
      list->push_back(message.stage + message.where + message.text);
      for (const std::string &note : message.notes)
        list->push_back(note);
    };
    Result<CompiledFile> written =
        compileToFile(model, path, {"cpu:avx2"}, options);
    ASSERT_TRUE(written.ok()) << written.status().toString();
  }
  EXPECT_EQ(first, second);
}

} // namespace
