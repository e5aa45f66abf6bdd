//===- MpiCommunicator.cpp - communication by MPI -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Uses nonblocking MPI calls and polls them, so that a waiting rank can time
// out, and yields its core to kernels.
//
//===----------------------------------------------------------------------===//

#include "MpiCommunicator.h"

#include "../Environment.h"
#include "MpiLibrary.h"
#include "TransportHeader.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

using namespace mpc;
using namespace mpc::detail;

using Clock = std::chrono::steady_clock;

namespace {

/// Terminates the process if a blocking MPI call exceeds the timeout: there is
/// no other way to cancel it.
class Deadline {
public:
  Deadline(double patience, const std::string &sentence) {
    if (patience <= 0)
      return;
    watch = std::thread([this, patience, sentence] {
      std::unique_lock<std::mutex> lock(mutex);
      if (changed.wait_for(lock, std::chrono::duration<double>(patience),
                           [&] { return passed; }))
        return;
      printLine(sentence);
      _exit(1);
    });
  }
  ~Deadline() {
    if (!watch.joinable())
      return;
    {
      std::lock_guard<std::mutex> lock(mutex);
      passed = true;
    }
    changed.notify_all();
    watch.join();
  }

private:
  std::mutex mutex;
  std::condition_variable changed;
  bool passed = false;
  std::thread watch;
};

/// Used at process exit, so it is never destroyed.
template <typename Handle> struct MpiState {
  MpiCalls<Handle> calls;
  Handle group = {};
  int rank = 0, size = 1;
  double patience = 0;
  bool isOurs = false;
  std::atomic<bool> aborted = false, parted = false;

  [[noreturn]] void endAll(const std::string &why) {
    if (!aborted.exchange(true)) {
      printLine(rankName(rank, size) + ": " + why);
      // Killed ranks lose output that the launcher has not yet forwarded.
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    (void)calls.abort(calls.world, 1);
    _exit(1); // MPI_Abort may return
  }

  /// Exit handler. Ranks waiting for this one would wait forever, and
  /// MPI_Finalize waits for all ranks.
  static void leave(int code, void *self) {
    auto &state = *static_cast<MpiState *>(self);
    int finalized = 0;
    (void)state.calls.finalized(&finalized);
    if (finalized || state.aborted)
      return;
    if (code != 0 && !state.parted)
      state.endAll("exits with status " + std::to_string(code) +
                   ", which stops all ranks");
    if (!state.isOurs)
      return;
    Deadline deadline(state.patience,
                      rankName(state.rank, state.size) + ": waited " +
                          secondsText(state.patience) +
                          " for the other ranks in MPI_Finalize");
    (void)state.calls.finalize();
  }
};

template <typename Handle> class MpiCommunicator : public Communicator {
public:
  MpiCommunicator(MpiState<Handle> &state, size_t mostBytes)
      : state(state), calls(state.calls),
        pieceBytes(std::max<size_t>(mostBytes / size_t(state.size), 1)) {}

  int rank() const override { return state.rank; }
  int size() const override { return state.size; }
  Status allGather(const void *send, void *receive, size_t bytes) override;
  Status allToAll(const void *send, void *receive, size_t bytes) override;
  Status broadcast(void *data, size_t bytes, int root) override;
  void abort(const std::string &why) override { state.endAll(why); }
  void part() override { state.parted = true; }

private:
  Status wait(int code, Handle request, const char *name, size_t bytes);

  MpiState<Handle> &state;
  const MpiCalls<Handle> &calls;
  /// Maximum bytes of one rank per call.
  const size_t pieceBytes;
  /// Send and receive staging of one chunk of all ranks.
  std::vector<char> sent, received;
};

} // namespace

template <typename Handle>
static Status failure(const MpiState<Handle> &state, const char *name, int code,
                      const std::string &purpose) {
  char text[kMpiMostErrorBytes] = "";
  int length = 0;
  if (state.calls.errorString(code, text, &length) != 0 || length <= 0)
    std::snprintf(text, sizeof(text), "error %d", code);
  std::string where = rankName(state.rank, state.size);
  if (!purpose.empty())
    where += ": " + purpose;
  return Status(StatusCode::Unavailable, where,
                std::string(name) + " failed with " + text);
}

/// Waits for the nonblocking call `name` that returned `code`.
template <typename Handle>
Status MpiCommunicator<Handle>::wait(int code, Handle request, const char *name,
                                     size_t bytes) {
  // A call usually finishes within a time proportional to its size. After that
  // other ranks are computing, and polling less often frees the core for them.
  constexpr double kSeconds = 200e-6, kBytesPerSecond = 4e9;
  constexpr int kLooksPerClock = 16;
  std::optional<Clock::time_point> start;
  for (int looks = 1;; ++looks) {
    if (code != 0)
      return failure(state, name, code, purpose);
    int done = 0;
    alignas(16) char status[kMpiMostStatusBytes];
    code = calls.test(&request, &done, status);
    if (code == 0 && done)
      return {};
    if (looks % kLooksPerClock == 0) {
      if (!start)
        start = Clock::now();
      double waited =
          std::chrono::duration<double>(Clock::now() - *start).count();
      if (state.patience > 0 && waited > state.patience)
        state.endAll("waited " + secondsText(state.patience) +
                     " for the other ranks in " +
                     (purpose.empty() ? "a message" : purpose) + " (" + name +
                     " of " + std::to_string(bytes) +
                     " bytes); stopping all ranks");
      if (waited > kSeconds + double(bytes) * state.size / kBytesPerSecond)
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    sched_yield();
  }
}

template <typename Handle>
Status MpiCommunicator<Handle>::allGather(const void *send, void *receive,
                                          size_t bytes) {
  auto call = [&](const void *from, void *to, size_t count) {
    Handle request = {};
    int code = calls.allGather(from, int(count), calls.byte, to, int(count),
                               calls.byte, state.group, &request);
    return wait(code, request, "MPI_Iallgather", count);
  };
  if (bytes <= pieceBytes)
    return call(send, receive, bytes);
  received.resize(pieceBytes * size_t(state.size));
  for (size_t begin = 0; begin < bytes; begin += pieceBytes) {
    size_t count = std::min(pieceBytes, bytes - begin);
    if (Status status = call(static_cast<const char *>(send) + begin,
                             received.data(), count);
        !status.ok())
      return status;
    for (size_t from = 0; from < size_t(state.size); ++from)
      std::memcpy(static_cast<char *>(receive) + from * bytes + begin,
                  received.data() + from * count, count);
  }
  return {};
}

template <typename Handle>
Status MpiCommunicator<Handle>::allToAll(const void *send, void *receive,
                                         size_t bytes) {
  auto call = [&](const void *from, void *to, size_t count) {
    Handle request = {};
    int code = calls.allToAll(from, int(count), calls.byte, to, int(count),
                              calls.byte, state.group, &request);
    return wait(code, request, "MPI_Ialltoall", count);
  };
  if (bytes <= pieceBytes)
    return call(send, receive, bytes);
  const auto ranks = size_t(state.size);
  sent.resize(pieceBytes * ranks);
  received.resize(pieceBytes * ranks);
  for (size_t begin = 0; begin < bytes; begin += pieceBytes) {
    size_t count = std::min(pieceBytes, bytes - begin);
    for (size_t to = 0; to < ranks; ++to)
      std::memcpy(sent.data() + to * count,
                  static_cast<const char *>(send) + to * bytes + begin, count);
    if (Status status = call(sent.data(), received.data(), count); !status.ok())
      return status;
    for (size_t from = 0; from < ranks; ++from)
      std::memcpy(static_cast<char *>(receive) + from * bytes + begin,
                  received.data() + from * count, count);
  }
  return {};
}

template <typename Handle>
Status MpiCommunicator<Handle>::broadcast(void *data, size_t bytes, int root) {
  for (size_t begin = 0; begin < bytes; begin += pieceBytes) {
    size_t count = std::min(pieceBytes, bytes - begin);
    Handle request = {};
    int code = calls.broadcast(static_cast<char *>(data) + begin, int(count),
                               calls.byte, root, state.group, &request);
    if (Status status = wait(code, request, "MPI_Ibcast", count); !status.ok())
      return status;
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Joining
//===----------------------------------------------------------------------===//

template <typename Handle>
static Result<std::shared_ptr<Communicator>>
join(const MpiCalls<Handle> &calls, const std::string &library,
     const CommunicatorOptions &options, size_t mostBytes) {
  // Lives as long as the process: leave() needs it.
  auto &state = *new MpiState<Handle>;
  state.calls = calls;
  state.patience = options.patience;
  Deadline deadline(options.patience, "mpi: waited " +
                                          secondsText(options.patience) +
                                          " for the other ranks to start");
  int begun = 0, threads = 0;
  if (calls.initialized(&begun) != 0)
    return mpiUnavailable("MPI_Initialized of " + library + " failed");
  state.isOurs = !begun;
  if (int code = begun ? calls.queryThread(&threads)
                       : calls.initThread(nullptr, nullptr,
                                          kMpiThreadSerialized, &threads))
    return failure(state, begun ? "MPI_Query_thread" : "MPI_Init_thread", code,
                   "");
  if (threads < kMpiThreadSerialized)
    return mpiUnavailable(
        "MPI allows calls from one thread only; initialize it "
        "with MPI_THREAD_SERIALIZED");
  // A private communicator, separate from the host program's messages.
  const char *name = "MPI_Comm_dup";
  int code = calls.commDup(calls.world, &state.group);
  if (code == 0) {
    name = "MPI_Comm_rank";
    code = calls.commRank(state.group, &state.rank);
  }
  if (code == 0) {
    name = "MPI_Comm_size";
    code = calls.commSize(state.group, &state.size);
  }
  if (code == 0) {
    name = "MPI_Comm_set_errhandler";
    code = calls.setErrorHandler(state.group, calls.errorsReturn);
  }
  if (code != 0)
    return failure(state, name, code, "");
  if (::on_exit(MpiState<Handle>::leave, &state) != 0)
    return mpiUnavailable("on_exit() cannot register a handler");
  if (int launched = launchedRanks(); launched > 1 && state.size == 1)
    return mpiUnavailable("a launcher started " + std::to_string(launched) +
                          " ranks, but " + library +
                          " sees one: it is not the MPI of the launcher");
  return std::shared_ptr<Communicator>(
      std::make_shared<MpiCommunicator<Handle>>(state, mostBytes));
}

Result<std::shared_ptr<Communicator>>
detail::joinMpi(const CommunicatorOptions &options, size_t mostBytes) {
  static std::atomic<bool> joined = false;
  if (joined.exchange(true))
    return Status(StatusCode::InvalidArgument, "mpi",
                  "this process has joined its ranks already");
  Result<MpiLibrary> library = openMpiLibrary(mpiLibraries());
  if (!library.ok()) {
    joined = false;
    return library.status();
  }
  return library->isOpenMpi
             ? join(library->openMpi, library->path, options, mostBytes)
             : join(library->mpich, library->path, options, mostBytes);
}

Result<std::shared_ptr<Communicator>>
mpc::joinMpi(const CommunicatorOptions &options) {
  return detail::joinMpi(options, kMostMpiBytes);
}

bool mpc::isStartedByMpi() { return launchedRanks() > 1; }
