//===- TrainRanks.cpp - data-parallel ranks of mpc train ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Set-up of a group, and ending all ranks if one cannot start.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Train.h"

#include "mpc/Runtime/RankDevice.h"

#include <algorithm>
#include <charconv>

using namespace mpc;
using namespace mpc::tool;

static bool hasNote(const Status &status, const char *note) {
  return std::ranges::find(status.notes(), note) != status.notes().end();
}

bool tool::isTold(const Status &failure) {
  return hasNote(failure, kFailureTold);
}

bool tool::isKnown(const Status &failure) {
  return hasNote(failure, kFailureToTell) || isTold(failure);
}

Result<std::shared_ptr<Communicator>>
tool::joinRanks(const TrainArguments &arguments) {
  if (!arguments.relay.empty()) {
    int numbers[3] = {};
    const char *at = arguments.relay.data(), *end = at + arguments.relay.size();
    for (int &number : numbers) {
      auto [stop, error] = std::from_chars(at, end, number);
      const bool isLast = &number == &numbers[2];
      if (error != std::errc() || (isLast ? stop != end : stop == end) ||
          (!isLast && *stop != ','))
        return Status(StatusCode::InvalidArgument, "--relay " + arguments.relay,
                      "is not DESCRIPTOR,RANK,RANKS");
      at = stop + 1;
    }
    return joinRelay(numbers[0], numbers[1], numbers[2]);
  }
  if (isStartedByMpi())
    return joinMpi({.patience = arguments.rankTimeout});
  return std::shared_ptr<Communicator>();
}

Result<Device>
tool::makeRankDevice(const CommonOptions &common,
                     const std::shared_ptr<Communicator> &group) {
  const bool isGpu =
      common.device == "cuda" || common.device.rfind("cuda:", 0) == 0;
  if (!isGpu || !group || group->size() == 1)
    return makeDevice(common);
  // The first collective of all ranks: has one failed already?
  if (Status status = shareFailure(*group, {}); !status.ok())
    return status;
  CudaDeviceOptions cuda;
  Result<int> local = localRank(*group);
  if (!local.ok())
    return local.status();
  cuda.ordinal = common.device == "cuda" ? *local : gpuNumber(common);
  cuda.compileThreads = common.threads;
  return cudaForRanks(cuda, group);
}

std::optional<int> tool::refuseTraining(const std::vector<std::string> &words,
                                        const Status &why) {
  TrainArguments arguments;
  if (auto found = std::ranges::find(words, "--relay");
      found != words.end() && found + 1 != words.end())
    arguments.relay = found[1];
  Result<std::shared_ptr<Communicator>> joined = joinRanks(arguments);
  if (!joined.ok() || !*joined)
    return std::nullopt;
  const std::shared_ptr<Communicator> &group = *joined;
  // Matches the first collective of the other ranks.
  Status shared = shareFailure(*group, why);
  if (!isTold(shared))
    Reporter(std::ranges::find(words, "--json") != words.end(),
             /*quiet=*/false, group->rank())
        .fail(why);
  group->part();
  return kBadUsage;
}
