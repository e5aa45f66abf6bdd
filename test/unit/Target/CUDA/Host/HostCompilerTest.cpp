//===- HostCompilerTest.cpp - the compiler of kernels on the host ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Target/CUDA/Host/HostCompiler.h"
#include "../../../TemporaryModel.h"

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

/// Folders with programs of given names, in a temporary folder.
class HostCompiler : public TemporaryFolder {
protected:
  std::string makeFolder(const std::string &name,
                         std::initializer_list<const char *> programs) {
    fs::create_directories(folder / name);
    for (const char *program : programs) {
      std::ofstream(folder / name / program) << "#!/bin/sh\n";
      fs::permissions(folder / name / program, fs::perms::owner_all);
    }
    return (folder / name).string();
  }
};

// Compiler names on a machine: a plain name, then new versions.
TEST_F(HostCompiler, FindsEveryNameOfACompiler) {
  std::string a =
      makeFolder("a", {"g++-11", "g++-13", "c++", "ld", "clang++-cl"});
  std::string b = makeFolder("b", {"g++", "clang++-18"});
  std::ofstream(folder / "b" / "clang++") << "not executable";
  EXPECT_EQ(
      listCompilers({a, b, (folder / "absent").string()}),
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
  std::string broken = makeFolder("broken", {});
  std::ofstream(folder / "broken" / "clang++") << "#!/bin/sh\nexit 1\n";
  fs::permissions(folder / "broken" / "clang++", fs::perms::owner_all);
  std::string good = makeFolder("good", {});
  std::ofstream(folder / "good" / "g++-99")
      << "#!/bin/sh\nPATH=/usr/bin:/bin exec " MPC_HOST_KERNEL_COMPILER
         " \"$@\"\n";
  fs::permissions(folder / "good" / "g++-99", fs::perms::owner_all);
  EXPECT_EXIT(_exit(compileWithPath(good + ":" + broken)),
              ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(_exit(compileWithPath(broken)), ::testing::ExitedWithCode(1),
              "install clang or g\\+\\+");
}

} // namespace
