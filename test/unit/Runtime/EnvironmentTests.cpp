//===- EnvironmentTests.cpp - tests of environment variables --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Environment.h"
#include "LibraryFunctions.h"

#include "mpc/Runtime/Communicator.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

using namespace mpc;

TEST(Environment, ALauncherIsKnownByItsVariables) {
  static const char *const kNames[] = {"OMPI_COMM_WORLD_SIZE",
                                       "PMI_SIZE",
                                       "PMI_RANK",
                                       "PMIX_RANK",
                                       "SLURM_NTASKS",
                                       "SLURM_STEP_NUM_TASKS"};
  std::vector<std::optional<std::string>> before;
  for (const char *name : kNames) {
    const char *value = std::getenv(name);
    before.push_back(value ? std::optional<std::string>(value) : std::nullopt);
    ::unsetenv(name);
  }
  EXPECT_EQ(detail::launchedRanks(), 0);
  EXPECT_FALSE(isStartedByMpi());
  EXPECT_EQ(detail::mpiLibraries()[0], "libmpi.so.40");
  // A batch script is no rank.
  ::setenv("SLURM_NTASKS", "8", 1);
  EXPECT_FALSE(isStartedByMpi());
  ::setenv("PMIX_RANK", "0", 1);
  EXPECT_EQ(detail::launchedRanks(), 8);
  ::setenv("PMI_SIZE", "3", 1);
  EXPECT_EQ(detail::launchedRanks(), 3);
  EXPECT_EQ(detail::mpiLibraries()[0], "libmpi.so.12");
  ::setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  EXPECT_EQ(detail::launchedRanks(), 4);
  EXPECT_EQ(detail::mpiLibraries()[0], "libmpi.so.40");
  ::setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  EXPECT_FALSE(isStartedByMpi());
  for (size_t i = 0; i < before.size(); ++i)
    if (before[i])
      ::setenv(kNames[i], before[i]->c_str(), 1);
    else
      ::unsetenv(kNames[i]);
}

TEST(Environment, NvidiaPackagesAreFoundNextToThePythonPackage) {
  namespace fs = std::filesystem;
  const fs::path site =
      fs::temp_directory_path() / ("mpc-site-" + std::to_string(::getpid()));
  // CUDA 13 has one folder for all packages, CUDA 12 one per package.
  for (const char *folder : {"cu13/lib", "cublas/lib", "cuda_nvrtc/include"})
    fs::create_directories(site / "nvidia" / folder);
  std::ofstream(site / "nvidia" / "__init__.py") << "\n";
  EXPECT_EQ(detail::cudaPackageFolders(site),
            (std::vector<std::string>{site / "nvidia/cu13/lib",
                                      site / "nvidia/cublas/lib"}));
  fs::remove_all(site);
  EXPECT_TRUE(detail::cudaPackageFolders(site).empty());
}

TEST(Environment, NvidiaPackagesComeAfterTheSystemsLibraries) {
  // Folder in whose position site-packages is for a package's library.
  const std::filesystem::path site =
      std::filesystem::path(
          detail::fileOfCode(reinterpret_cast<const void *>(&isStartedByMpi)))
          .parent_path()
          .parent_path();
  const std::filesystem::path own = site / "nvidia" / "mpc_test" / "lib";
  std::filesystem::create_directories(own);
  const std::vector<std::string> paths =
      detail::cudaLibraryPaths({"libx.so.2", "libx.so.1"});
  std::filesystem::remove_all(own.parent_path());
  ASSERT_GE(paths.size(), 8u);
  const auto byName = std::find(paths.begin(), paths.end(), "libx.so.2");
  ASSERT_NE(byName, paths.end());
  EXPECT_EQ(*(paths.end() - 2), own / "libx.so.2");
  EXPECT_EQ(paths.back(), own / "libx.so.1");
}

/// Returns quotaCores() with these files in place of the system's.
static int quotaWith(const std::map<std::string, std::string> &files) {
  namespace fs = std::filesystem;
  const fs::path root =
      fs::temp_directory_path() / ("mpc-quota-" + std::to_string(::getpid()));
  for (const auto &[name, text] : files) {
    fs::path file = root.string() + name;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  int cores = detail::quotaCores(root.string());
  fs::remove_all(root);
  return cores;
}

TEST(Environment, QuotasOfControlGroupsLimitTheCores) {
  const std::string mounts = "22 1 0:21 / /proc rw - proc proc rw\n"
                             "30 23 0:26 / /sys/fs/cgroup rw,nosuid "
                             "shared:4 - cgroup2 cgroup2 rw\n";
  // A container with its own namespace: its group is the root.
  std::map<std::string, std::string> files = {
      {"/proc/self/mountinfo", mounts},
      {"/proc/self/cgroup", "0::/\n"},
      {"/sys/fs/cgroup/cpu.max", "200000 100000\n"}};
  EXPECT_EQ(quotaWith(files), 2);
  files["/sys/fs/cgroup/cpu.max"] = "150000 100000\n";
  EXPECT_EQ(quotaWith(files), 2);
  files["/sys/fs/cgroup/cpu.max"] = "5000 100000\n";
  EXPECT_EQ(quotaWith(files), 1);
  for (const char *text : {"max 100000\n", "", "0 100000\n", "5000 0\n",
                           "99999999999999999999 1\n", "many 100000\n"}) {
    files["/sys/fs/cgroup/cpu.max"] = text;
    EXPECT_EQ(quotaWith(files), INT_MAX) << text;
  }
  // A service: the least quota of its group and the group's parents counts,
  // besides the hierarchies of version 1.
  files = {{"/proc/self/mountinfo", mounts},
           {"/proc/self/cgroup", "4:cpu:/other\n0::/a.slice/b.service\n"},
           {"/sys/fs/cgroup/a.slice/cpu.max", "300000 100000\n"},
           {"/sys/fs/cgroup/a.slice/b.service/cpu.max", "800000 100000\n"}};
  EXPECT_EQ(quotaWith(files), 3);
  files["/sys/fs/cgroup/a.slice/b.service/cpu.max"] = "100000 100000\n";
  EXPECT_EQ(quotaWith(files), 1);
  // A container without its own namespace: the mount shows its group alone.
  const std::string part = "30 23 0:26 /box/1 /sys/fs/cgroup rw - cgroup2 c rw";
  files = {{"/proc/self/mountinfo", part},
           {"/proc/self/cgroup", "0::/box/1/in\n"},
           {"/sys/fs/cgroup/cpu.max", "400000 100000\n"},
           {"/sys/fs/cgroup/in/cpu.max", "max 100000\n"}};
  EXPECT_EQ(quotaWith(files), 4);
  // A group outside of the mount: what the mount shows counts.
  files["/proc/self/cgroup"] = "0::/../host\n";
  EXPECT_EQ(quotaWith(files), 4);
  // Bind mounts of another group and of a part of the own group's parents, and
  // a mount point with a space.
  files = {{"/proc/self/mountinfo",
            "28 1 0:26 /other /srv/other rw - cgroup2 c rw\n"
            "29 1 0:26 /a/b /srv/part rw - cgroup2 c rw\n"
            "30 1 0:26 / /srv/all\\040groups rw - cgroup2 c rw\n"},
           {"/proc/self/cgroup", "0::/a/b\n"},
           {"/srv/other/cpu.max", "100000 100000\n"},
           {"/srv/part/cpu.max", "500000 100000\n"},
           {"/srv/all groups/a/cpu.max", "300000 100000\n"},
           {"/srv/all groups/a/b/cpu.max", "500000 100000\n"}};
  EXPECT_EQ(quotaWith(files), 3);
  // Version 1 alone, and no files at all.
  files["/proc/self/mountinfo"] =
      "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
  EXPECT_EQ(quotaWith(files), INT_MAX);
  EXPECT_EQ(quotaWith({}), INT_MAX);
}
