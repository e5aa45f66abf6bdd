//===- CompileFileTests.cpp - tests of compiling into files ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/JIT/CompileFile.h"

#include "../TemporaryModel.h"

#include "mpc/JIT/Engine.h"
#include "mpc/Target/CPU/CpuTarget.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

using namespace mpc;
using namespace mpc::cpu;

namespace {

std::string readText(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

/// Data for `values`: floats between -1 and 1, integers inside their bounds.
std::vector<Buffer> makeInputs(std::span<const ProgramValue> values) {
  std::vector<Buffer> inputs;
  std::mt19937 random(1);
  for (const ProgramValue &value : values) {
    Buffer buffer = *Buffer::allocate(value.type);
    int64_t bound = std::max<int64_t>(value.integerBound, 2);
    switch (value.type.element) {
    case ElementType::F32:
      for (float &element : buffer.as<float>())
        element = float(random()) * 0x1p-31f - 1;
      break;
    case ElementType::I64:
      for (int64_t &element : buffer.as<int64_t>())
        element = int64_t(random()) % bound;
      break;
    default: // zeros
      break;
    }
    inputs.push_back(std::move(buffer));
  }
  return inputs;
}

bool sameBytes(const std::vector<Buffer> &a, const std::vector<Buffer> &b) {
  if (a.size() != b.size())
    return false;
  for (size_t i = 0; i < a.size(); ++i) {
    auto left = a[i].as<uint8_t>(), right = b[i].as<uint8_t>();
    if (!std::equal(left.begin(), left.end(), right.begin(), right.end()))
      return false;
  }
  return true;
}

class CompileFileTest : public TemporaryFolder {
protected:
  void SetUp() override {
    const char *root = std::getenv("MPC_SOURCE_DIR");
    if (!root)
      GTEST_SKIP() << "MPC_SOURCE_DIR names no source tree";
    tests = std::string(root) + "/test/";
    TemporaryFolder::SetUp();
    path = (folder / "m.mpcx").string();
  }

  std::string tests;
  std::string path;
  Device cpu = *Device::cpu({.threads = 2});
};

} // namespace

TEST_F(CompileFileTest, RunsBitForBitAsTheJitDoes) {
  Engine engine = *Engine::create(cpu);
  for (const char *model :
       {"Integration/Inputs/dense.mlir", "Integration/Inputs/block.mlir",
        "Inputs/odd-transformer.mlir", "Inputs/mnist-cnn/model.onnx"})
    for (const char *policy : {"float32", "mixed_bfloat16", "mixed_float16"}) {
      SCOPED_TRACE(std::string(model) + " " + policy);
      CompileOptions options;
      options.policy = policy;
      std::vector<std::string> targets;
      for (CpuIsa isa : CpuTarget::available())
        targets.push_back("cpu:" + CpuTarget{isa}.name().str());
      Result<CompiledFile> written =
          compileToFile(tests + model, path, targets, options);
      ASSERT_TRUE(written.ok()) << written.status().toString();
      EXPECT_EQ(written->fileBytes, int64_t(std::filesystem::file_size(path)));
      Result<ExecutableFile> file = ExecutableFile::open(path);
      ASSERT_TRUE(file.ok()) << file.status().toString();
      EXPECT_EQ(file->policy(), policy);
      std::vector<Buffer> inputs = makeInputs(file->arguments());
      for (CpuIsa isa : CpuTarget::available()) {
        std::string level = CpuTarget{isa}.name().str();
        LoadOptions load;
        load.trusted = true;
        load.isa = level;
        Result<Executable> stored = file->load(cpu, load);
        ASSERT_TRUE(stored.ok()) << stored.status().toString();
        options.target = "cpu:" + level;
        options.useCache = false; // which holds the file
        Result<Executable> compiled = engine.compile(tests + model, options);
        ASSERT_TRUE(compiled.ok()) << compiled.status().toString();
        Result<std::vector<Buffer>> a = stored->run(inputs);
        Result<std::vector<Buffer>> b = compiled->run(inputs);
        ASSERT_TRUE(a.ok() && b.ok());
        EXPECT_TRUE(sameBytes(*a, *b)) << level;
        // The programs agree in all that is reported of them.
        const Program &p = stored->program(), &q = compiled->program();
        EXPECT_EQ(p.target, q.target);
        EXPECT_EQ(p.arenaBytes, q.arenaBytes);
        EXPECT_EQ(p.constantBytes(), q.constantBytes());
        EXPECT_EQ(p.flops(), q.flops());
        EXPECT_EQ(p.bytesMoved(), q.bytesMoved());
        EXPECT_EQ(p.layers, q.layers);
        ASSERT_EQ(p.launches.size(), q.launches.size());
        for (size_t i = 0; i < p.launches.size(); ++i) {
          EXPECT_EQ(p.launches[i].kernel, q.launches[i].kernel);
          EXPECT_EQ(p.launches[i].ops, q.launches[i].ops);
        }
      }
    }
}

TEST_F(CompileFileTest, EqualInputGivesEqualBytes) {
  std::string model = tests + "Integration/Inputs/block.mlir";
  std::vector<std::string> texts;
  for (int threads : {1, 2, 3}) {
    CompileOptions options;
    options.policy = "mixed_bfloat16";
    options.threads = threads;
    ASSERT_TRUE(
        compileToFile(model, path, {"cpu:avx2", "cpu:avx512"}, options).ok());
    texts.push_back(readText(path));
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(texts[0], texts[2]);
}

TEST_F(CompileFileTest, StoresWhatErrorBoundsAndDataNeed) {
  CompileOptions options;
  options.policy = "mixed_bfloat16";
  ASSERT_TRUE(compileToFile(tests + "Integration/Inputs/block.mlir", path,
                            {"cpu:avx2"}, options)
                  .ok());
  ExecutableFile file = *ExecutableFile::open(path);
  EXPECT_EQ(file.model(), "block.mlir");
  EXPECT_EQ(file.narrowestType(), ElementType::BF16);
  EXPECT_EQ(file.longestReduction(), 128);
  EXPECT_GE(file.longestChain(), 10);
  EXPECT_EQ(file.arguments()[0].role, "input");
  EXPECT_EQ(file.arguments()[0].integerBound, 0);
  // The ids index a table of 16 rows.
  EXPECT_EQ(file.arguments()[1].integerBound, 16);
  EXPECT_EQ(file.results()[0].role, "output");
}

TEST_F(CompileFileTest, NamesEachTargetOnce) {
  std::string host = TargetInfo::native()->name();
  Result<CompiledFile> file =
      compileToFile(tests + "Integration/Inputs/dense.mlir", path,
                    {"cpu:native", host, "cpu:native"});
  ASSERT_TRUE(file.ok()) << file.status().toString();
  ASSERT_EQ(file->specialisations[0].targets.size(), 1u);
  EXPECT_EQ(file->specialisations[0].targets[0].name, host);
  EXPECT_GT(file->specialisations[0].targets[0].kernels, 0);
  EXPECT_GT(file->specialisations[0].targets[0].codeBytes, 0);
}

TEST_F(CompileFileTest, MutantsAreRefused) {
  ASSERT_TRUE(compileToFile(tests + "Integration/Inputs/dense.mlir", path,
                            {"cpu:native"})
                  .ok());
  std::string text = readText(path);
  auto refused = [](const std::string &mutant) {
    return !ExecutableFile::fromBytes(std::as_bytes(std::span(mutant)), "m")
                .ok();
  };
  EXPECT_FALSE(refused(text));
  std::mt19937_64 random(3);
  for (int i = 0; i < 500; ++i) {
    std::string mutant = text;
    mutant[random() % mutant.size()] ^= char(1u << random() % 8);
    EXPECT_TRUE(refused(mutant));
    mutant = text.substr(0, random() % text.size());
    EXPECT_TRUE(refused(mutant));
  }
}

TEST_F(CompileFileTest, FailuresLeaveNoFile) {
  std::string model = tests + "Integration/Inputs/dense.mlir";
  auto failure = [&](const std::string &from, const std::string &to,
                     const std::vector<std::string> &targets) {
    return compileToFile(from, to, targets).status();
  };
  EXPECT_EQ(failure(tests + "none.mlir", path, {"cpu:native"}).code(),
            StatusCode::NotFound);
  EXPECT_EQ(
      failure(model, (folder / "none" / "m.mpcx").string(), {"cpu:native"})
          .code(),
      StatusCode::NotFound);
  // A folder cannot be replaced by a file.
  EXPECT_EQ(failure(model, folder.string(), {"cpu:native"}).code(),
            StatusCode::NotFound);
  EXPECT_EQ(failure(model, path, {"cpu:sse2"}).code(), StatusCode::Unavailable);
  EXPECT_EQ(failure(model, path, {"cuda:sm_70"}).code(),
            StatusCode::Unavailable);
  EXPECT_EQ(failure(model, path, {""}).code(), StatusCode::InvalidArgument);
  EXPECT_EQ(failure(model, path, {}).code(), StatusCode::InvalidArgument);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  for (const auto &entry :
       std::filesystem::directory_iterator(folder.parent_path()))
    EXPECT_EQ(
        entry.path().filename().string().find(folder.filename().string() + "."),
        std::string::npos)
        << entry.path();
}
