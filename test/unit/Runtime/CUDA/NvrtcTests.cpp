//===- NvrtcTests.cpp - NVIDIA's run-time compiler ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CUDA/Nvrtc.h"

#include "FakeNvrtc.h"

#include <gtest/gtest.h>

using namespace mpc;
using namespace mpc::detail;

namespace {

TEST(Nvrtc, MissingLibraryIsUnavailable) {
  Result<Nvrtc> nvrtc =
      loadNvrtc(std::vector<std::string>{"libmpc-no-such-nvrtc.so.13"});
  ASSERT_FALSE(nvrtc.ok());
  EXPECT_EQ(nvrtc.status().code(), StatusCode::Unavailable);
  EXPECT_NE(nvrtc.status().text().find("MPC_CUDA_DIR"), std::string::npos);
}

TEST(Nvrtc, AnotherLibraryIsNamed) {
  // A library that exists everywhere and is no compiler.
  Result<Nvrtc> nvrtc = loadNvrtc(std::vector<std::string>{"libc.so.6"});
  ASSERT_FALSE(nvrtc.ok());
  EXPECT_EQ(nvrtc.status().text().rfind("libc.so.6 lacks nvrtc", 0), 0u)
      << nvrtc.status().text();
}

TEST(Nvrtc, OldVersionIsRefused) {
  FakeNvrtc::reset();
  FakeNvrtc::state().major = 11;
  FakeNvrtc::state().minor = 8;
  Nvrtc nvrtc = FakeNvrtc::table();
  Status status = identify(nvrtc, "libold.so");
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_EQ(status.text(), "libold.so is version 11.8, but kernels need 12.0 "
                           "or later; install a newer CUDA toolkit");
}

TEST(Nvrtc, FailuresOfQuestionsAreReported) {
  FakeNvrtc::reset();
  Nvrtc nvrtc = FakeNvrtc::table();
  FakeNvrtc::state().versionError = 1;
  EXPECT_EQ(identify(nvrtc, "l").text(), "l does not report its version");
  FakeNvrtc::reset();
  FakeNvrtc::state().architecturesError = 1;
  EXPECT_EQ(identify(nvrtc, "l").text(), "l does not report its architectures");
}

TEST(Nvrtc, ArchitecturesThatItLacksAreNamed) {
  FakeNvrtc::reset();
  Nvrtc nvrtc = FakeNvrtc::ready();
  EXPECT_TRUE(checkArchitecture(nvrtc, "sm_80").ok());
  EXPECT_TRUE(checkArchitecture(nvrtc, "sm_90a").ok());
  for (const char *absent : {"sm_70", "sm_120", "compute_80", ""}) {
    Status status = checkArchitecture(nvrtc, absent);
    EXPECT_EQ(status.code(), StatusCode::Unavailable) << absent;
    EXPECT_NE(status.text().find("sm_75, sm_80, sm_90"), std::string::npos);
  }
}

TEST(Nvrtc, NothingLeaksAfterFailures) {
  FakeNvrtc::reset();
  Nvrtc nvrtc = FakeNvrtc::ready();
  EXPECT_EQ(compileProgram(nvrtc, "good", {}).failure, "");
  NvrtcOutput bad = compileProgram(nvrtc, "error(line 3)", {});
  EXPECT_EQ(bad.failure, "nvrtcCompileProgram failed with "
                         "NVRTC_ERROR_COMPILATION");
  EXPECT_EQ(bad.log, "line 3");
  EXPECT_TRUE(bad.cubin.empty());
  EXPECT_EQ(compileProgram(nvrtc, "empty", {}).failure,
            "the compiler returned no machine code");
  EXPECT_EQ(compileProgram(nvrtc, "refused", {}).failure,
            "nvrtcCreateProgram failed with NVRTC_ERROR_OTHER");
  EXPECT_EQ(FakeNvrtc::state().created, 3);
  EXPECT_EQ(FakeNvrtc::state().destroyed, 3);
}

TEST(Nvrtc, TheRealOneCompiles) {
  Result<const Nvrtc *> nvrtc = installedNvrtc();
  if (!nvrtc.ok())
    GTEST_SKIP() << nvrtc.status().text();
  const char *text = "extern \"C\" __global__ void twice(float *x) {\n"
                     "  x[threadIdx.x] *= 2.0f;\n}\n";
  NvrtcOutput output =
      compileProgram(**nvrtc, text, {"--gpu-architecture=sm_80"});
  ASSERT_EQ(output.failure, "") << output.log;
  ASSERT_GT(output.cubin.size(), 64u);
  EXPECT_EQ(std::memcmp(output.cubin.data(), "\177ELF", 4), 0);
  output = compileProgram(**nvrtc, "__global__ void f() { x = 1; }", {});
  EXPECT_NE(output.log.find("identifier \"x\" is undefined"),
            std::string::npos);
}

} // namespace
