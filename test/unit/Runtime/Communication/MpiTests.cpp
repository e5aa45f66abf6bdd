//===- MpiTests.cpp - tests of ranks that mpirun starts -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Communication/MpiLibrary.h"
#include "mpc/Runtime/Communicator.h"

#include <gtest/gtest.h>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

using namespace mpc;

namespace {

/// Output, exit status and duration of a command.
struct Outcome {
  std::string text;
  int code = -1;
  double seconds = 0;
};

Outcome runCommand(std::vector<std::string> words) {
  Outcome outcome;
  auto start = std::chrono::steady_clock::now();
  FILE *output = std::tmpfile();
  if (!output)
    return outcome;
  std::vector<char *> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string &word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (int stream : {STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_adddup2(&actions, fileno(output), stream);
  pid_t process = 0;
  int status = 0;
  if (posix_spawnp(&process, arguments[0], &actions, nullptr, arguments.data(),
                   environ) == 0 &&
      waitpid(process, &status, 0) == process)
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  posix_spawn_file_actions_destroy(&actions);
  if (std::fseek(output, 0, SEEK_SET) != 0)
    outcome.code = -1;
  char part[4096];
  while (size_t size = std::fread(part, 1, sizeof(part), output))
    outcome.text.append(part, size);
  std::fclose(output);
  outcome.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return outcome;
}

class Mpi : public testing::Test {
protected:
  void SetUp() override {
    Outcome version = runCommand({"mpirun", "--version"});
    if (version.code != 0)
      GTEST_SKIP() << "no mpirun is installed";
    if (version.text.find("Open MPI") != std::string::npos)
      choices = {"--oversubscribe", "--allow-run-as-root"};
  }
  /// A launcher that hangs fails the test.
  Outcome launch(int ranks, const std::string &scenario) {
    std::vector<std::string> words = {"timeout", "100", "mpirun"};
    words.insert(words.end(), choices.begin(), choices.end());
    for (const std::string &word : {std::string("-n"), std::to_string(ranks),
                                    std::string(MPC_MPI_RANKS), scenario})
      words.push_back(word);
    return runCommand(std::move(words));
  }
  std::vector<std::string> choices;
};

int countOf(const std::string &text, const std::string &word) {
  int count = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at)
    ++count;
  return count;
}

} // namespace

TEST_F(Mpi, MessagesGiveTheBitsThatThreadsGive) {
  for (int ranks : {2, 4}) {
    Outcome outcome = launch(ranks, "messages");
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_EQ(
        countOf(outcome.text, " of " + std::to_string(ranks) + " agrees\n"),
        ranks)
        << outcome.text;
  }
}

TEST_F(Mpi, ARankThatHangsEndsAllInTime) {
  for (const char *scenario : {"hang", "stop"}) {
    Outcome outcome = launch(2, scenario);
    EXPECT_NE(outcome.code, 0);
    EXPECT_LT(outcome.seconds, 60);
    EXPECT_EQ(countOf(outcome.text,
                      "rank 0 of 2: waited 2 s for the other ranks in "
                      "message 'exchanged' of main (MPI_Iallgather of "
                      "400 bytes); stopping all ranks\n"),
              1)
        << outcome.text;
  }
}

TEST_F(Mpi, ARankThatGivesUpEndsAllAtOnce) {
  Outcome outcome = launch(2, "abort");
  EXPECT_NE(outcome.code, 0);
  EXPECT_LT(outcome.seconds, 50);
  EXPECT_EQ(countOf(outcome.text, "rank 1 of 2: cannot read its data\n"), 1)
      << outcome.text;
  outcome = launch(2, "exit");
  EXPECT_NE(outcome.code, 0);
  EXPECT_LT(outcome.seconds, 50);
  EXPECT_EQ(
      countOf(outcome.text,
              "rank 1 of 2: exits with status 3, which stops all ranks\n"),
      1)
      << outcome.text;
}

TEST_F(Mpi, ARankThatIsKilledEndsAllAtOnce) {
  Outcome outcome = launch(2, "kill");
  EXPECT_NE(outcome.code, 0);
  EXPECT_LT(outcome.seconds, 50);
  // The launcher's words.
  EXPECT_NE(outcome.text.find("rank 1"), std::string::npos) << outcome.text;
}

TEST(MpiLibrary, SaysWhereItLooked) {
  Result<detail::MpiLibrary> library =
      detail::openMpiLibrary({"libnone-mpi.so.1", "libnone-mpi.so"});
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.status().code(), StatusCode::Unavailable);
  EXPECT_EQ(library.status().toString(),
            "mpi: no MPI library was found (libnone-mpi.so.1, libnone-mpi.so); "
            "install Open MPI or MPICH");
}

TEST(MpiLibrary, ALibraryThatIsNoMpiIsRefused) {
  Result<detail::MpiLibrary> library = detail::openMpiLibrary({"libm.so.6"});
  ASSERT_FALSE(library.ok());
  EXPECT_NE(library.status().text().find("it is not an MPI library"),
            std::string::npos);
}
