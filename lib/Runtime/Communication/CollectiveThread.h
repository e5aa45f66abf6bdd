//===- CollectiveThread.h - asynchronous collectives ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_COMMUNICATION_COLLECTIVETHREAD_H
#define MPC_LIB_RUNTIME_COMMUNICATION_COLLECTIVETHREAD_H

#include "../DeviceImpl.h"
#include "CollectiveDependences.h"
#include "CollectiveTransfer.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace mpc::detail {

/// Performs the collectives of one run at a time, in order, on a background
/// thread that overlaps with the launches. A collective that is needed at once
/// is performed by the waiting thread: waking another one takes longer than a
/// small message.
class CollectiveThread {
public:
  /// `program` and its `plan` must outlive this.
  CollectiveThread(const Program &program, const CollectiveDependences &plan)
      : program(program), plan(plan) {}
  CollectiveThread(const CollectiveThread &) = delete;
  ~CollectiveThread();

  /// Starts a run. The communicator of `options` has the program's ranks, or is
  /// null for one rank; the milliseconds, if set, have one entry per launch,
  /// which for a collective is how long the launches waited for it.
  void begin(const Addresses &addresses, const RunOptions &options);

  /// Called before each launch in order: waits for the collectives that it
  /// depends on, and starts it if it is a collective.
  Status reach(size_t launch);

  /// Ends the run, also after a failure: no collective is in progress
  /// afterwards.
  Status end();

private:
  Status wait(size_t count);
  double now() const;
  /// Ends the trace span of the last reach().
  void endSpan();
  void work();
  void runNextCollective(std::unique_lock<std::mutex> &lock);
  Status send(size_t launch);

  const Program &program;
  const CollectiveDependences &plan;

  // State of the run.
  const Addresses *addresses = nullptr;
  Communicator *communicator = nullptr;
  std::span<double> milliseconds;
  RunTrace *trace = nullptr;
  std::chrono::steady_clock::time_point beginning;
  /// Next collective that reach() will start.
  size_t next = 0;

  // Shared with the background thread.
  std::mutex mutex;
  std::condition_variable changed;
  /// Number of collectives started, and number done.
  size_t started = 0, done = 0;
  /// True while a thread performs a collective; failure of the first failed
  /// one.
  bool busy = false, stopping = false;
  Status failure;
  std::thread thread;

  // Used by the thread that performs a collective.
  CollectiveBuffers memory;
  std::vector<char *> buffers;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_COMMUNICATION_COLLECTIVETHREAD_H
