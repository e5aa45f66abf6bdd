//===- EnvironmentTests.cpp - tests of environment variables --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Environment.h"

#include "mpc/Runtime/Communicator.h"

#include <gtest/gtest.h>

#include <cstdlib>
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
