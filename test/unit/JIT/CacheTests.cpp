//===- CacheTests.cpp - tests of the compile cache ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../TemporaryModel.h"

#include "mpc/JIT/CompileFile.h"
#include "mpc/JIT/Engine.h"
#include "mpc/Target/TargetInfo.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

using namespace mpc;
namespace fs = std::filesystem;

namespace {

class CacheTest : public TemporaryFolder {
protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    if (const char *kept = std::getenv("MPC_CACHE_DIR"))
      before = kept;
    cache = folder / "cache";
    setenv("MPC_CACHE_DIR", cache.c_str(), 1);
    writeBias("0.25");
  }
  void TearDown() override {
    if (before.empty())
      unsetenv("MPC_CACHE_DIR");
    else
      setenv("MPC_CACHE_DIR", before.c_str(), 1);
    TemporaryFolder::TearDown();
  }

  void writeBias(const std::string &bias, const std::string &weight = "0.375") {
    model = writeModel(R"(
func.func @main(%x: tensor<4x40xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x8xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %w = mpc.constant dense<)" +
                       weight + R"(> : tensor<40x8xf32>
  %b = mpc.constant dense<)" +
                       bias +
                       R"(> : tensor<8xf32>
  %0 = mpc.matmul %x, %w : (tensor<4x40xf32>, tensor<40x8xf32>) -> tensor<4x8xf32>
  %1 = mpc.add %0, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %2 = mpc.gelu %1 : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
})");
  }

  /// The bytes of the result; sets `compiled` where stages ran.
  std::vector<char> run(CompileOptions options = {}) {
    compiled = false;
    options.onStage = [&](const std::string &) { compiled = true; };
    Result<Executable> executable = engine.compile(model, options);
    if (!executable.ok()) {
      ADD_FAILURE() << executable.status().toString();
      return {};
    }
    std::vector<float> values(160);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = 0.0625f * float(int(i % 17) - 8);
    std::array inputs = {
        *Buffer::fromValues<float>({ElementType::F32, {4, 40}}, values)};
    Result<std::vector<Buffer>> results = executable->run(inputs);
    if (!results.ok()) {
      ADD_FAILURE() << results.status().toString();
      return {};
    }
    std::span<char> bytes = results->front().as<char>();
    return {bytes.begin(), bytes.end()};
  }

  std::vector<fs::path> entries() const {
    std::vector<fs::path> found;
    std::error_code none;
    for (const auto &entry : fs::directory_iterator(cache / "compiles", none))
      found.push_back(entry.path());
    return found;
  }

  Engine engine = *Engine::create(*Device::cpu({.threads = 1}));
  fs::path cache;
  std::string model, before;
  bool compiled = false;
};

} // namespace

TEST_F(CacheTest, TheSecondCompileIsFound) {
  std::vector<char> first = run();
  EXPECT_TRUE(compiled);
  ASSERT_EQ(entries().size(), 1u);
  EXPECT_EQ(run(), first);
  EXPECT_FALSE(compiled);
  // A file uses the same entry.
  CompileOptions options;
  options.onStage = [&](const std::string &) { compiled = true; };
  ASSERT_TRUE(
      compileToFile(model, folder / "m.mpcx", {"cpu:native"}, options).ok());
  EXPECT_FALSE(compiled);
  // The code of a process without the cache is bit-identical.
  CompileOptions alone;
  alone.useCache = false;
  EXPECT_EQ(run(alone), first);
  EXPECT_TRUE(compiled);
  EXPECT_EQ(entries().size(), 1u);
}

TEST_F(CacheTest, ProgramsShareTheirWeights) {
  // 2 MiB of weights, which programs for two batches pack alike.
  constexpr int64_t kRows = 512, kColumns = 1024;
  std::string hex;
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    auto value = float(i % 1021) * 0x1p-10f;
    auto bytes = std::bit_cast<std::array<uint8_t, 4>>(value);
    for (uint8_t byte : bytes) {
      constexpr const char *kDigits = "0123456789ABCDEF";
      hex += kDigits[byte >> 4];
      hex += kDigits[byte & 15];
    }
  }
  auto compile = [&](int64_t batch) {
    std::string x = "tensor<" + std::to_string(batch) + "x512xf32>",
                y = "tensor<" + std::to_string(batch) + "x1024xf32>";
    std::string text =
        "func.func @main(%x: " + x +
        " {mpc.role = #mpc.role<input>, mpc.name = \"x\"}) -> (" + y +
        " {mpc.role = #mpc.role<output>, mpc.name = \"y\"}) {\n"
        "  %w = mpc.constant dense<\"0x" +
        hex +
        "\"> : tensor<512x1024xf32>\n"
        "  %0 = mpc.matmul %x, %w : (" +
        x + ", tensor<512x1024xf32>) -> " + y + "\n  return %0 : " + y + "\n}";
    Result<Executable> made = engine.compile(
        writeModel(text, ("m" + std::to_string(batch) + ".mlir").c_str()));
    EXPECT_TRUE(made.ok()) << made.status().toString();
    return *made;
  };
  auto weights = [&] {
    std::vector<fs::path> found;
    for (const auto &entry : fs::directory_iterator(cache / "weights"))
      found.push_back(entry.path());
    return found;
  };
  Executable first = compile(16);
  ASSERT_EQ(weights().size(), 1u);
  Executable second = compile(24);
  EXPECT_EQ(weights().size(), 1u);
  ASSERT_EQ(entries().size(), 2u);
  for (const fs::path &entry : entries())
    EXPECT_LT(fs::file_size(entry), size_t(1) << 20);
  EXPECT_EQ(first.program().constants.front().data,
            second.program().constants.front().data);
  // Loaded from the cache, and compiled again without the weights' file.
  auto bytesOf = [](const Executable &executable) {
    const ProgramConstant &constant = executable.program().constants.front();
    auto *bytes = static_cast<const char *>(constant.data.get());
    return std::vector<char>(bytes, bytes + constant.bytes);
  };
  std::vector<char> expected = bytesOf(first);
  EXPECT_EQ(bytesOf(compile(16)), expected);
  fs::remove(weights().front());
  EXPECT_EQ(bytesOf(compile(16)), expected);
  // A file for the user has its weights.
  ASSERT_TRUE(
      compileToFile(path("m16.mlir"), folder / "m.mpcx", {"cpu:native"}).ok());
  EXPECT_GT(fs::file_size(folder / "m.mpcx"), size_t(2) << 20);
}

TEST_F(CacheTest, WhatDiffersIsAnotherEntry) {
  run();
  CompileOptions options;
  options.policy = "mixed_bfloat16";
  run(options);
  EXPECT_TRUE(compiled);
  options = {};
  options.target = "cpu:avx2";
  run(options);
  // Where the processor is no more than that it is the first entry.
  bool isOther = TargetInfo::native()->name() != "cpu:avx2";
  EXPECT_EQ(compiled, isOther);
  writeBias("0.5");
  run();
  EXPECT_TRUE(compiled);
  EXPECT_EQ(entries().size(), isOther ? 4u : 3u);
  // Threads change no result.
  options = {};
  options.threads = 2;
  run(options);
  EXPECT_FALSE(compiled);
}

TEST_F(CacheTest, DamageIsMissingNotWrong) {
  std::vector<char> first = run();
  ASSERT_EQ(entries().size(), 1u);
  fs::path entry = entries().front();
  std::ifstream in(entry, std::ios::binary);
  std::string whole((std::istreambuf_iterator<char>(in)),
                    std::istreambuf_iterator<char>());
  for (size_t at = 0; at < whole.size(); at += 1 + whole.size() / 16) {
    std::string changed = whole;
    changed[at] ^= 4;
    fs::remove(entry);
    std::ofstream(entry, std::ios::binary) << changed;
    EXPECT_EQ(run(), first) << "byte " << at;
    EXPECT_TRUE(compiled) << "byte " << at;
    EXPECT_EQ(fs::file_size(entry), whole.size()) << "not written again";
  }
}

// The compile may have read either; the entry would be wrong for good.
TEST_F(CacheTest, InputThatChangesMeanwhileIsNotKept) {
  CompileOptions options;
  options.onStage = [&](const std::string &) { writeBias("0.5"); };
  ASSERT_TRUE(engine.compile(model, options).ok());
  EXPECT_TRUE(entries().empty());
  writeBias("0.25");
  run();
  EXPECT_TRUE(compiled);
}

// Code that somebody else could have written is not run.
TEST_F(CacheTest, FolderOfOthersIsNotTrusted) {
  run();
  EXPECT_EQ(fs::status(cache / "compiles").permissions(), fs::perms::owner_all);
  fs::permissions(cache / "compiles",
                  fs::perms::owner_all | fs::perms::group_all);
  run();
  EXPECT_TRUE(compiled);
}

// Nor is an entry that is another user's, which is written again, nor a folder
// that is, which stays as it was.
TEST_F(CacheTest, WhatAnotherUserOwnsIsNotTrusted) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root gives files away";
  constexpr uid_t kOther = 4242;
  run();
  ASSERT_EQ(entries().size(), 1u);
  fs::path entry = entries().front();
  ASSERT_EQ(chown(entry.c_str(), kOther, gid_t(-1)), 0);
  run();
  EXPECT_TRUE(compiled);
  run();
  EXPECT_FALSE(compiled);

  ASSERT_EQ(chown((cache / "compiles").c_str(), kOther, gid_t(-1)), 0);
  ASSERT_EQ(chmod((cache / "compiles").c_str(), 0755), 0);
  auto time = fs::last_write_time(entry);
  CompileOptions options;
  std::string heard;
  options.onDiagnostic = [&](const Diagnostic &message) {
    heard = message.where + ": " + message.text;
  };
  bool compiledAgain = false;
  options.onStage = [&](const std::string &) { compiledAgain = true; };
  ASSERT_TRUE(engine.compile(model, options).ok());
  EXPECT_TRUE(compiledAgain);
  EXPECT_NE(heard.find("compiles: belongs to user 4242"), std::string::npos)
      << heard;
  EXPECT_EQ(fs::last_write_time(entry), time);
  EXPECT_EQ(fs::status(cache / "compiles").permissions(), fs::perms(0755));
}

TEST_F(CacheTest, SaysTheMessagesAgain) {
  writeBias("0.25", /*weight=*/"1.0e+06"); // beyond f16
  CompileOptions options;
  options.policy = "float16";
  auto messages = [&] {
    std::vector<std::string> heard;
    options.onDiagnostic = [&](const Diagnostic &message) {
      heard.push_back(message.where + ": " + message.text);
    };
    EXPECT_TRUE(engine.compile(model, options).ok());
    return heard;
  };
  std::vector<std::string> first = messages();
  EXPECT_FALSE(first.empty());
  ASSERT_EQ(entries().size(), 1u);
  EXPECT_EQ(messages(), first);
}

TEST_F(CacheTest, KeepsWhichOverridesOfAPartMatchNothing) {
  CompileOptions options;
  options.sets = {{"op:matmul", "bfloat16"}, {"layer:tail", "float32"}};
  EXPECT_FALSE(engine.compile(model, options).ok());
  options.isPartOfModel = true;
  for (int time = 0; time < 2; ++time) {
    std::vector<std::string> unused;
    options.onDiagnostic = [&](const Diagnostic &message) {
      EXPECT_EQ(message.severity, Diagnostic::Severity::Warning);
      unused.push_back(message.unusedOverride);
    };
    EXPECT_TRUE(engine.compile(model, options).ok());
    EXPECT_EQ(unused, std::vector<std::string>{"layer:tail=float32"});
  }
}

TEST_F(CacheTest, KeepsNothingWhereItMayNot) {
  setenv("MPC_CACHE_SIZE", "0", 1);
  run();
  unsetenv("MPC_CACHE_SIZE");
  EXPECT_TRUE(entries().empty());
  setenv("MPC_CACHE_DIR", "", 1);
  run();
  EXPECT_TRUE(entries().empty());
}

TEST_F(CacheTest, TwoThreadsStoreOneEntry) {
  std::array<bool, 4> good = {};
  std::array<std::thread, 4> threads;
  for (size_t t = 0; t < threads.size(); ++t)
    threads[t] = std::thread([&, t] { good[t] = engine.compile(model).ok(); });
  for (std::thread &thread : threads)
    thread.join();
  for (bool each : good)
    EXPECT_TRUE(each);
  EXPECT_EQ(entries().size(), 1u);
}
