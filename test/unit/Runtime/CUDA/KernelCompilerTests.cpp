//===- KernelCompilerTests.cpp - CUDA C++ to machine code -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CUDA/KernelCompiler.h"

#include "DiskCache.h"
#include "FakeNvrtc.h"

#include "../../TemporaryModel.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

using namespace mpc;
using namespace mpc::detail;
namespace fs = std::filesystem;

namespace {

class KernelCompilerTest : public TemporaryFolder {
protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    FakeNvrtc::reset();
    nvrtc = FakeNvrtc::ready();
    options.nvrtc = &nvrtc;
    options.cacheFolder = folder.string();
    code.prelude = "prelude";
    for (int i = 0; i < 10; ++i)
      code.kernels.push_back(
          {"k" + std::to_string(i), "text of k" + std::to_string(i)});
  }
  static std::string textOf(const CudaCode::Binary &binary) {
    return {reinterpret_cast<const char *>(binary.cubin.data()),
            binary.cubin.size()};
  }

  Nvrtc nvrtc;
  CudaCode code;
  KernelCompileOptions options;
  KernelCompileReport report;
};

TEST_F(KernelCompilerTest, EveryKernelAfterThePreludeInOrder) {
  auto binaries = compileKernels(code, "sm_80", options, &report);
  ASSERT_TRUE(binaries.ok()) << binaries.status().toString();
  std::vector<std::string> names;
  for (const CudaCode::Binary &binary : *binaries) {
    EXPECT_EQ(binary.architecture, "sm_80");
    EXPECT_EQ(textOf(binary).rfind("prelude\n#line 1 \"", 0), 0u);
    for (const std::string &kernel : binary.kernels) {
      names.push_back(kernel);
      EXPECT_NE(textOf(binary).find("text of " + kernel), std::string::npos);
    }
  }
  ASSERT_EQ(names.size(), code.kernels.size());
  for (size_t i = 0; i < names.size(); ++i)
    EXPECT_EQ(names[i], code.kernels[i].name);
  EXPECT_LT(binaries->size(), code.kernels.size()) << "several per program";
  EXPECT_EQ(report.compiled, int(binaries->size()));
  EXPECT_EQ(report.fromCache, 0);
}

// The portions, and so what the cache finds, do not depend on the threads.
TEST_F(KernelCompilerTest, SecondTimeComesFromTheCache) {
  auto first = compileKernels(code, "sm_80", options);
  ASSERT_TRUE(first.ok());
  int compiled = FakeNvrtc::state().compiled;
  for (int threads : {1, 2, 7}) {
    options.threads = threads;
    auto second = compileKernels(code, "sm_80", options, &report);
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(report.compiled, 0);
    EXPECT_EQ(report.fromCache, int(first->size()));
    for (size_t i = 0; i < first->size(); ++i)
      EXPECT_EQ(textOf((*first)[i]), textOf((*second)[i]));
  }
  EXPECT_EQ(FakeNvrtc::state().compiled, compiled);
}

TEST_F(KernelCompilerTest, TextArchitectureAndCompilerMakeTheKey) {
  auto compiledAnew = [&](const CudaCode &code, const char *architecture) {
    EXPECT_TRUE(compileKernels(code, architecture, options, &report).ok());
    return report.compiled;
  };
  EXPECT_EQ(compiledAnew(code, "sm_80"), 3);
  EXPECT_EQ(compiledAnew(code, "sm_90"), 3);
  EXPECT_EQ(compiledAnew(code, "sm_80"), 0);
  CudaCode changed = code;
  changed.kernels[0].source += " ";
  EXPECT_EQ(compiledAnew(changed, "sm_80"), 1);
  changed.prelude += " ";
  EXPECT_EQ(compiledAnew(changed, "sm_80"), 3);
  FakeNvrtc::state().minor = 1;
  nvrtc = FakeNvrtc::ready();
  EXPECT_EQ(compiledAnew(code, "sm_80"), 3);
}

TEST_F(KernelCompilerTest, DamagedEntriesAreRebuilt) {
  ASSERT_TRUE(compileKernels(code, "sm_80", options).ok());
  for (const auto &entry : fs::directory_iterator(folder))
    fs::resize_file(entry.path(), fs::file_size(entry.path()) - 1);
  auto again = compileKernels(code, "sm_80", options, &report);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(report.compiled, 3);
  ASSERT_TRUE(compileKernels(code, "sm_80", options, &report).ok());
  EXPECT_EQ(report.fromCache, 3);
}

TEST_F(KernelCompilerTest, BinariesThatAreThereAreKept) {
  CudaCode::Binary binary;
  binary.architecture = "sm_80";
  binary.kernels = {"k1", "k2"};
  binary.cubin.resize(5);
  code.binaries.push_back(binary);
  auto result = compileKernels(code, "sm_80", options, &report);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->front().kernels, binary.kernels);
  size_t others = 0;
  for (const CudaCode::Binary &made : *result)
    others += made.kernels.size();
  EXPECT_EQ(others, code.kernels.size());
  // All there: the compiler is not even looked for.
  result = compileKernels({"", {code.kernels[1]}, {binary}}, "sm_80",
                          {.threads = 1}, &report);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->size(), 1u);
}

TEST_F(KernelCompilerTest, FailureNamesTheKernel) {
  code.kernels[6].source = "error(k6.cu, line 3)";
  auto result = compileKernels(code, "sm_80", options);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().where(), "kernel 'k6'");
  EXPECT_EQ(result.status().text(),
            "does not compile for sm_80: nvrtcCompileProgram failed with "
            "NVRTC_ERROR_COMPILATION\nk6.cu, line 3");
  EXPECT_EQ(FakeNvrtc::state().created, FakeNvrtc::state().destroyed);
}

TEST_F(KernelCompilerTest, UnknownArchitectureIsRefused) {
  auto result = compileKernels(code, "sm_120", options);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::Unavailable);
  EXPECT_EQ(result.status().where(), "sm_120");
  EXPECT_EQ(FakeNvrtc::state().created, 0);
}

TEST_F(KernelCompilerTest, NoKernelsNoCompiler) {
  options.nvrtc = nullptr;
  auto result = compileKernels({}, "sm_80", options);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->empty());
}

TEST_F(KernelCompilerTest, ManyCallersAtOnce) {
  std::vector<std::thread> callers;
  std::atomic<int> good{0};
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&] {
      auto result = compileKernels(code, "sm_80", options);
      good += result.ok() && result->size() == 3;
    });
  for (std::thread &caller : callers)
    caller.join();
  EXPECT_EQ(good, 4);
}

TEST_F(KernelCompilerTest, WhatSpillsIsCompiledForOneBlockPerProcessor) {
  code.kernels[1].source = "spills(k1)";
  auto binaries = compileKernels(code, "sm_80", options, &report);
  ASSERT_TRUE(binaries.ok()) << binaries.status().toString();
  EXPECT_EQ(report.compiled, int(binaries->size()));
  EXPECT_EQ(FakeNvrtc::state().compiled, int(binaries->size()) + 1);
  // That kernel alone, and only in its own portion.
  std::string text = textOf(binaries->front());
  EXPECT_NE(text.find("#define MPC_RESIDENT , 1\n#line 1 \"k1.cu\""),
            std::string::npos);
  EXPECT_NE(text.find("#define MPC_RESIDENT\n#line 1 \"k2.cu\""),
            std::string::npos);
  EXPECT_EQ(textOf(binaries->back()).find("MPC_RESIDENT"), std::string::npos);
}

TEST_F(KernelCompilerTest, TheRealCompilerReportsSpills) {
  Result<const Nvrtc *> installed = installedNvrtc();
  if (!installed.ok())
    GTEST_SKIP() << installed.status().text();
  options.nvrtc = *installed;
  options.verbose = true;
  CudaCode real;
  real.prelude = "#define KERNEL extern \"C\" __global__ void\n";
  for (const char *name : {"one", "two"})
    real.kernels.push_back(
        {name, std::string("KERNEL ") + name +
                   "(float *x) { x[threadIdx.x] += 1.0f; }\n"});
  auto result = compileKernels(real, "sm_80", options, &report);
  ASSERT_TRUE(result.ok()) << result.status().toString();
  EXPECT_NE(report.log.find("registers"), std::string::npos) << report.log;
  real.kernels[1].source += "int wrong = nothing;\n";
  result = compileKernels(real, "sm_80", options);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().where(), "kernel 'two'");
  EXPECT_NE(result.status().text().find("two.cu(2): error: identifier "
                                        "\"nothing\" is undefined"),
            std::string::npos)
      << result.status().text();
}

} // namespace
