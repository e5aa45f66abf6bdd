//===- MpiRanks.cpp - one rank of a test under mpirun ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MpcMpiRanks SCENARIO: does a rank's part in it. MpiTests.cpp starts it.
//
//===----------------------------------------------------------------------===//

#include "Communication/MpiCommunicator.h"
#include "MessageProgram.h"

#include <csignal>
#include <cstdio>
#include <string>

using namespace mpc;
using namespace mpc::testing;

/// MPI does not free all memory, which LeakSanitizer must ignore.
extern "C" int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() { return 1; }

/// Messages small enough for a test to be sent in pieces.
static constexpr size_t kMostBytes = 10000;

/// Returns true if every message gives the same bits as with threads.
static bool agreesWithThreads(Communicator &ranks) {
  for (const MessageCase &entry : messageCases(ranks.size())) {
    Executable executable = load(messageProgram(entry.how, entry.sizes));
    Result<std::vector<Bytes>> found =
        runMessage(executable, ranks.rank(), &ranks);
    if (!found.ok()) {
      std::printf("%s\n", found.status().toString().c_str());
      return false;
    }
    std::vector<Bytes> wanted;
    onThreads(ranks.size(), [&](int rank, Communicator &group) {
      Result<std::vector<Bytes>> results = runMessage(executable, rank, &group);
      if (rank == ranks.rank() && results.ok())
        wanted = *results;
    });
    if (*found != wanted) {
      std::printf("rank %d: %s differs\n", ranks.rank(),
                  entry.how.toString().c_str());
      return false;
    }
  }
  return true;
}

int main(int count, char **words) {
  std::string scenario = count > 1 ? words[1] : "";
  if (!isStartedByMpi()) {
    std::printf("no launcher started this\n");
    return 2;
  }
  CommunicatorOptions options;
  options.patience = scenario == "hang" || scenario == "stop" ? 2 : 60;
  Result<std::shared_ptr<Communicator>> joined =
      detail::joinMpi(options, kMostBytes);
  if (!joined.ok()) {
    std::printf("%s\n", joined.status().toString().c_str());
    return 2;
  }
  Communicator &ranks = **joined;
  const int rank = ranks.rank();
  if (scenario == "messages") {
    if (!agreesWithThreads(ranks))
      return 1;
    if (joinMpi().status().code() != StatusCode::InvalidArgument)
      return 1;
    std::printf("rank %d of %d agrees\n", rank, ranks.size());
    return 0;
  }

  Collective how;
  how.ranks = ranks.size();
  Executable executable = load(messageProgram(how, {100}));
  if (!runMessage(executable, rank, &ranks).ok())
    return 1;
  if (rank == 1) {
    if (scenario == "hang")
      std::this_thread::sleep_for(std::chrono::seconds(300));
    else if (scenario == "stop")
      std::raise(SIGSTOP);
    else if (scenario == "kill")
      std::raise(SIGKILL);
    else if (scenario == "exit")
      return 3;
    else if (scenario == "abort")
      ranks.abort("cannot read its data");
  }
  // The others wait for a message that never arrives.
  std::printf("%s\n",
              runMessage(executable, rank, &ranks).status().toString().c_str());
  return 1;
}
