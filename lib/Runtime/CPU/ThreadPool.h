//===- ThreadPool.h - passive worker threads --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A fork-join thread pool without barriers among workers. The calling thread
// also executes tasks and waits only for those that a worker has started, so a
// worker without a core delays nobody. Idle threads spin for some microseconds
// while the machine has idle cores and sleep (futex) otherwise.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CPU_THREADPOOL_H
#define MPC_LIB_RUNTIME_CPU_THREADPOOL_H

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace mpc::detail {

/// Runs tasks on worker threads, which are started when first needed and joined
/// by the destructor. Thread-safe: any number of threads may call run(), tasks
/// included. After fork() the child starts threads of its own.
class ThreadPool {
public:
  using TaskFunction = void (*)(void *context, int64_t task);

  /// Maximum number of tasks of one run().
  static constexpr int64_t kMostTasks = UINT16_MAX;

  ThreadPool();
  /// No run() may be in progress.
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  /// Returns the pool of this process, which exists as long as somebody holds
  /// it.
  static std::shared_ptr<ThreadPool> shared();

  /// Calls `function(context, i)` once for each `i` in [0, tasks), concurrently
  /// on the calling thread and up to `tasks - 1` workers, and returns when all
  /// calls have returned. Their effects are visible to the caller.
  void run(int64_t tasks, TaskFunction function, void *context);

  template <typename Body> void run(int64_t tasks, Body &&body) {
    using Type = std::remove_reference_t<Body>;
    run(
        tasks,
        [](void *context, int64_t task) {
          (*static_cast<Type *>(context))(task);
        },
        const_cast<std::remove_const_t<Type> *>(&body));
  }

  /// Returns true if threads of this pool were recently preempted: other
  /// programs use the cores, and a wake-up takes up to a time slice. Counts the
  /// calling thread's preemptions since its last call; costs a system call.
  bool isContended();

private:
  struct Slot;
  struct State;
  State &current();

  /// Replaced in a forked child, where the parent's threads do not exist.
  std::atomic<State *> state;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CPU_THREADPOOL_H
