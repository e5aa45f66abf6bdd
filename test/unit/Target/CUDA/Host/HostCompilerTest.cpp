//===- HostCompilerTest.cpp - the compiler of kernels on the host ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Target/CUDA/Host/HostCompiler.h"
#include "mpc/Target/CUDA/Host/HostKernel.h"

#include "gtest/gtest.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace mpc;
using namespace mpc::host;
namespace fs = std::filesystem;

namespace {

/// Folders with programs of given names, in a place that goes away.
class HostCompiler : public ::testing::Test {
protected:
  HostCompiler() {
    std::string pattern = (fs::temp_directory_path() / "mpc-XXXXXX").string();
    root = mkdtemp(pattern.data());
  }
  ~HostCompiler() override { fs::remove_all(root); }

  std::string folder(const std::string &name,
                     std::initializer_list<const char *> programs) {
    fs::create_directories(root / name);
    for (const char *program : programs) {
      std::ofstream(root / name / program) << "#!/bin/sh\n";
      fs::permissions(root / name / program, fs::perms::owner_all);
    }
    return (root / name).string();
  }

  fs::path root;
};

// Whatever the machine calls its compiler: a plain name, then new versions.
TEST_F(HostCompiler, FindsEveryNameOfACompiler) {
  std::string a = folder("a", {"g++-11", "g++-13", "c++", "ld", "clang++-cl"});
  std::string b = folder("b", {"g++", "clang++-18"});
  std::ofstream(root / "b" / "clang++") << "not executable";
  EXPECT_EQ(
      listCompilers({a, b, (root / "absent").string()}),
      (std::vector<std::string>{b + "/clang++-18", b + "/g++", a + "/g++-13",
                                a + "/g++-11", a + "/c++"}));
}

/// Whether kernels compile in a process that finds programs in `path` alone.
int compileWithPath(const std::string &path) {
  setenv("PATH", path.c_str(), 1);
  HostKernelOptions options;
  options.checks = false;
  auto module = HostModule::compile(
      "MPC_KERNEL(1) void k(float *x) { x[0] = 1; }", {"k"}, options);
  if (!module.ok()) {
    std::fputs(module.status().toString().c_str(), stderr);
    return 1;
  }
  return hostCompiler().rfind(path.substr(0, path.find(':')), 0) == 0 ? 0 : 2;
}

// One that is there but does not do is passed over.
TEST_F(HostCompiler, TakesTheFirstThatCompilesThePrelude) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  std::string broken = folder("broken", {});
  std::ofstream(root / "broken" / "clang++") << "#!/bin/sh\nexit 1\n";
  fs::permissions(root / "broken" / "clang++", fs::perms::owner_all);
  std::string good = folder("good", {});
  std::ofstream(root / "good" / "g++-99")
      << "#!/bin/sh\nPATH=/usr/bin:/bin exec " MPC_HOST_KERNEL_COMPILER
         " \"$@\"\n";
  fs::permissions(root / "good" / "g++-99", fs::perms::owner_all);
  EXPECT_EXIT(_exit(compileWithPath(good + ":" + broken)),
              ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(_exit(compileWithPath(broken)), ::testing::ExitedWithCode(1),
              "install clang or g\\+\\+");
}

} // namespace
