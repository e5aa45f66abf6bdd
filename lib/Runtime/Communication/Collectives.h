//===- Collectives.h - messages beside the launches -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_COMMUNICATION_COLLECTIVES_H
#define MPC_LIB_RUNTIME_COMMUNICATION_COLLECTIVES_H

#include "../DeviceImpl.h"
#include "Message.h"
#include "MessagePlan.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace mpc::detail {

/// Does the messages of one run at a time, in order, on a thread beside the one
/// that runs the launches. A message that is needed at once is done by the
/// thread that needs it: waking another one takes longer than a small message.
class Collectives {
public:
  /// `program` and its `plan` outlive this.
  Collectives(const Program &program, const MessagePlan &plan)
      : program(program), plan(plan) {}
  Collectives(const Collectives &) = delete;
  ~Collectives();

  /// Begins a run. The communicator of `options` has the program's ranks, or is
  /// null where there is one; their milliseconds, where set, have one entry per
  /// launch, and a message's is how long the launches waited for it.
  void begin(const Addresses &addresses, const RunOptions &options);

  /// Called before each launch in order: waits until all messages are over that
  /// it needs, and starts it where it is one.
  Status reach(size_t launch);

  /// Ends the run, however it went: no message is under way afterwards.
  Status end();

private:
  Status wait(size_t count);
  double now() const;
  /// What reach() was called for has ended.
  void endSpan();
  void work();
  void doNext(std::unique_lock<std::mutex> &lock);
  Status send(size_t launch);

  const Program &program;
  const MessagePlan &plan;

  // Of the run.
  const Addresses *addresses = nullptr;
  Communicator *communicator = nullptr;
  std::span<double> milliseconds;
  RunTrace *trace = nullptr;
  std::chrono::steady_clock::time_point beginning;
  /// The message that reach() comes to next.
  size_t next = 0;

  // Shared with the thread.
  std::mutex mutex;
  std::condition_variable changed;
  /// How many messages may be sent and how many are over.
  size_t started = 0, done = 0;
  /// Whether a thread does one, and what happened to one that failed.
  bool busy = false, stopping = false;
  Status failure;
  std::thread thread;

  // Of the thread that does a message.
  MessageMemory memory;
  std::vector<char *> buffers;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_COMMUNICATION_COLLECTIVES_H
