//===- ThreadCommunicator.cpp - communication among threads ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A call is a rendezvous: every rank publishes its send buffer, and after the
// last one has arrived, each copies its part from the others' memory. A second
// barrier keeps the buffers valid until all have copied.
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Communicator.h"

#include "TransportHeader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>

using namespace mpc;
using namespace mpc::detail;

namespace {

/// Parameters of a call; must be equal on all ranks.
struct CollectiveCall {
  const char *name = "";
  size_t bytes = 0;
  int root = 0;

  bool operator==(const CollectiveCall &other) const {
    return std::strcmp(name, other.name) == 0 && bytes == other.bytes &&
           root == other.root;
  }
  std::string toString() const {
    return std::string(name) + " of " + std::to_string(bytes) + " bytes";
  }
};

/// State shared by the endpoints of a group.
class Group {
public:
  Group(int size, const CommunicatorOptions &options)
      : size(size), patience(options.patience), sent(size_t(size)),
        calls(size_t(size)) {}

  /// Rendezvous with the other ranks; then calls `copy` with the send buffers
  /// of all.
  Status
  meet(int rank, const CollectiveCall &call, const void *send,
       const std::string &purpose,
       const std::function<void(const std::vector<const void *> &)> &copy);
  /// Makes every later call fail, except those past the rendezvous. Returns
  /// false if the group has already failed.
  bool fail(const std::string &why);

  const int size;

private:
  Status failure(const std::string &where) const {
    return Status(StatusCode::Unavailable, where, *failed);
  }
  /// Waits for `ready` until the timeout.
  template <typename Ready>
  bool wait(std::unique_lock<std::mutex> &lock, Ready ready) {
    if (patience > 0)
      return changed.wait_for(lock, std::chrono::duration<double>(patience),
                              ready);
    changed.wait(lock, ready);
    return true;
  }
  std::string missingRanks() const;

  const double patience;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<const void *> sent;
  /// Calls of the ranks that have arrived.
  std::vector<std::optional<CollectiveCall>> calls;
  /// True for each rank with a call in progress; only one is allowed.
  std::vector<bool> inside = std::vector<bool>(size_t(size));
  /// Number of ranks that arrived and that have copied, and number of
  /// rendezvous reached and ended.
  int arrived = 0, copied = 0;
  uint64_t met = 0, ended = 0;
  std::optional<std::string> failed;
};

class ThreadCommunicator : public Communicator {
public:
  ThreadCommunicator(std::shared_ptr<Group> group, int rank)
      : group(std::move(group)), self(rank) {}
  ~ThreadCommunicator() override {
    (void)group->fail(rankName(self, size()) + " has left");
  }

  int rank() const override { return self; }
  int size() const override { return group->size; }

  Status allGather(const void *send, void *receive, size_t bytes) override {
    return group->meet(
        self, {"an all-gather", bytes}, send, purpose,
        [&](const std::vector<const void *> &sent) {
          for (size_t from = 0; bytes && from < sent.size(); ++from)
            std::memcpy(static_cast<char *>(receive) + from * bytes, sent[from],
                        bytes);
        });
  }

  Status allToAll(const void *send, void *receive, size_t bytes) override {
    return group->meet(
        self, {"an all-to-all", bytes}, send, purpose,
        [&](const std::vector<const void *> &sent) {
          for (size_t from = 0; bytes && from < sent.size(); ++from)
            std::memcpy(static_cast<char *>(receive) + from * bytes,
                        static_cast<const char *>(sent[from]) +
                            size_t(self) * bytes,
                        bytes);
        });
  }

  Status broadcast(void *data, size_t bytes, int root) override {
    return group->meet(self, {"a broadcast", bytes, root}, data, purpose,
                       [&](const std::vector<const void *> &sent) {
                         if (bytes && root != self)
                           std::memcpy(data, sent[size_t(root)], bytes);
                       });
  }

  void abort(const std::string &why) override {
    std::string text = rankName(self, size()) + ": " + why;
    if (group->fail(text))
      printLine(text);
  }

private:
  std::shared_ptr<Group> group;
  const int self;
};

} // namespace

bool Group::fail(const std::string &why) {
  std::lock_guard<std::mutex> lock(mutex);
  bool isFirst = !failed;
  if (isFirst)
    failed = why;
  changed.notify_all();
  return isFirst;
}

std::string Group::missingRanks() const {
  std::string text;
  int count = 0;
  for (size_t rank = 0; rank < calls.size(); ++rank)
    if (!calls[rank]) {
      text += (count++ ? ", " : "") + std::to_string(rank);
    }
  return (count == 1 ? "rank " : "ranks ") + text;
}

Status Group::meet(
    int rank, const CollectiveCall &call, const void *send,
    const std::string &purpose,
    const std::function<void(const std::vector<const void *> &)> &copy) {
  std::string where =
      rankName(rank, size) + (purpose.empty() ? "" : ": " + purpose);
  std::unique_lock<std::mutex> lock(mutex);
  if (failed)
    return failure(where);
  for (int other = 0; other < size; ++other)
    if (calls[size_t(other)] && *calls[size_t(other)] != call) {
      failed = "rank " + std::to_string(rank) + " wants " + call.toString() +
               ", rank " + std::to_string(other) + " " +
               calls[size_t(other)]->toString();
      changed.notify_all();
      return failure(where);
    }
  if (inside[size_t(rank)]) {
    failed = rankName(rank, size) + " is called by two threads at once";
    changed.notify_all();
    return failure(where);
  }
  inside[size_t(rank)] = true;
  sent[size_t(rank)] = send;
  calls[size_t(rank)] = call;
  const uint64_t number = met;
  if (++arrived == size) {
    arrived = 0;
    copied = 0;
    std::fill(calls.begin(), calls.end(), std::nullopt);
    ++met;
    changed.notify_all();
  } else if (!wait(lock, [&] { return met != number || failed; })) {
    failed = rankName(rank, size) + " waited " + secondsText(patience) +
             " for " + missingRanks() + " in " + call.toString();
    changed.notify_all();
  }
  if (met == number) {
    inside[size_t(rank)] = false;
    return failure(where);
  }

  lock.unlock();
  copy(sent);
  lock.lock();
  // Other ranks still read this rank's memory: wait for them even after a
  // failure.
  if (++copied == size) {
    ++ended;
    changed.notify_all();
  } else {
    changed.wait(lock, [&] { return ended > number; });
  }
  inside[size_t(rank)] = false;
  return {};
}

std::vector<std::shared_ptr<Communicator>>
mpc::connectThreads(int ranks, const CommunicatorOptions &options) {
  std::vector<std::shared_ptr<Communicator>> ends;
  ends.reserve(size_t(std::max(ranks, 0)));
  auto group = std::make_shared<Group>(ranks, options);
  for (int rank = 0; rank < ranks; ++rank)
    ends.push_back(std::make_shared<ThreadCommunicator>(group, rank));
  return ends;
}
