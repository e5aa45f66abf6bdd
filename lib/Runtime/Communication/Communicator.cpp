//===- Communicator.cpp - communication among data-parallel ranks ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Communicator.h"
#include "mpc/Runtime/RankDevice.h"

#include "TransportHeader.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

using namespace mpc;

Communicator::~Communicator() = default;

void detail::printLine(const std::string &text) {
  std::string line = text + "\n";
  // A single unbuffered write, so that lines of several ranks do not mix and
  // nothing is lost if the process is terminated.
  const char *from = line.data();
  for (size_t left = line.size(); left > 0;) {
    ssize_t written = ::write(STDERR_FILENO, from, left);
    if (written <= 0)
      return;
    from += written;
    left -= size_t(written);
  }
}

Result<std::vector<std::string>> mpc::gatherTexts(Communicator &group,
                                                  const std::string &text) {
  uint64_t length = text.size();
  // Untrusted: a host's transport may return anything.
  constexpr uint64_t kMostBytes = uint64_t(1) << 24;
  std::vector<uint64_t> lengths(size_t(group.size()), ~uint64_t(0));
  if (Status status = group.allGather(&length, lengths.data(), sizeof(length));
      !status.ok())
    return status;
  auto wrong = [&group] {
    return Status(
        StatusCode::Unavailable, detail::rankName(group.rank(), group.size()),
        "the all-gather of its transport returns other bytes than were sent");
  };
  const size_t most = *std::max_element(lengths.begin(), lengths.end());
  if (most > kMostBytes || lengths[size_t(group.rank())] != length)
    return wrong();
  std::vector<std::string> texts(lengths.size());
  if (most == 0)
    return texts;
  std::string padded = text;
  padded.resize(most);
  std::string all(most * texts.size(), '\0');
  if (Status status = group.allGather(padded.data(), all.data(), most);
      !status.ok())
    return status;
  for (size_t rank = 0; rank < texts.size(); ++rank)
    texts[rank] = all.substr(rank * most, lengths[rank]);
  if (texts[size_t(group.rank())] != text)
    return wrong();
  return texts;
}

Status mpc::shareFailure(Communicator &group, const Status &own) {
  const std::string text = own.ok() ? "" : own.toString();
  Result<std::vector<std::string>> texts = gatherTexts(group, text);
  if (!texts.ok())
    return texts.status();
  for (size_t rank = 0; rank < texts->size(); ++rank) {
    const std::string &failed = (*texts)[rank];
    if (failed.empty() || (!own.ok() && failed != text))
      continue;
    if (own.ok())
      return Status(StatusCode::Unavailable, "rank " + std::to_string(rank),
                    "failed: " + failed)
          .withNote(kFailureTold);
    return own.withNote(int(rank) == group.rank() ? kFailureToTell
                                                  : kFailureTold);
  }
  return {};
}

std::string detail::rankName(int rank, int size) {
  return "rank " + std::to_string(rank) + " of " + std::to_string(size);
}

std::string detail::secondsText(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g s", seconds);
  return text;
}

Result<int> mpc::localRank(Communicator &group) {
  char name[256] = {};
  (void)::gethostname(name, sizeof(name) - 1);
  Result<std::vector<std::string>> names = gatherTexts(group, name);
  if (!names.ok())
    return names.status();
  return int(std::count(names->begin(), names->begin() + group.rank(),
                        (*names)[size_t(group.rank())]));
}
