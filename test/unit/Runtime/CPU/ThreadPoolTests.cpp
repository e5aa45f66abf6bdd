//===- ThreadPoolTests.cpp - tests of the thread pool ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CPU/ThreadPool.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mpc;
using detail::ThreadPool;

namespace {

/// Blocks until `expected` threads have arrived.
class Meeting {
public:
  explicit Meeting(int expected) : expected(expected) {}
  void arrive() {
    std::unique_lock lock(mutex);
    ++arrived;
    changed.notify_all();
    changed.wait(lock, [&] { return arrived >= expected; });
  }

private:
  int expected, arrived = 0;
  std::mutex mutex;
  std::condition_variable changed;
};

} // namespace

/// Runs tasks and returns the sum of their indices plus one, each counted with
/// a plain variable that the pool has to synchronize.
static int64_t sumOfTasks(ThreadPool &pool, int64_t tasks) {
  std::vector<int64_t> values(size_t(tasks), 0);
  pool.run(tasks, [&](int64_t task) { values[size_t(task)] += task + 1; });
  int64_t sum = 0;
  for (int64_t value : values)
    sum += value;
  return sum;
}

TEST(ThreadPool, RunsEveryTaskOnce) {
  ThreadPool pool;
  for (int64_t tasks : {0, 1, 2, 3, 8, 64})
    EXPECT_EQ(sumOfTasks(pool, tasks), tasks * (tasks + 1) / 2);
  // More runs than a spinning worker stays awake for, and with breaks.
  for (int round = 0; round < 2000; ++round)
    ASSERT_EQ(sumOfTasks(pool, 3), 6);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_EQ(sumOfTasks(pool, 3), 6);
  }
}

TEST(ThreadPool, TasksRunConcurrently) {
  // Each task waits for all others, so each needs a thread of its own. Tasks
  // that no worker started would run one after another on the caller.
  ThreadPool pool;
  Meeting meeting(4);
  std::set<std::thread::id> threads;
  std::mutex mutex;
  pool.run(4, [&](int64_t) {
    meeting.arrive();
    std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(threads.size(), 4u);
}

TEST(ThreadPool, CallersTakeOverFromBusyWorkers) {
  // The only worker is kept busy by one caller; another one finishes meanwhile.
  ThreadPool pool;
  Meeting started(3), ended(3);
  std::thread first([&] {
    pool.run(2, [&](int64_t) {
      started.arrive();
      ended.arrive();
    });
  });
  started.arrive();
  std::set<std::thread::id> threads;
  pool.run(2, [&](int64_t) { threads.insert(std::this_thread::get_id()); });
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
  ended.arrive();
  first.join();
}

TEST(ThreadPool, ManyCallersAndNestedRuns) {
  // More callers than the pool has slots for.
  ThreadPool pool;
  std::atomic<int64_t> sum = 0;
  std::vector<std::thread> callers;
  callers.reserve(24);
  for (int i = 0; i < 24; ++i)
    callers.emplace_back([&] {
      for (int round = 0; round < 20; ++round)
        pool.run(3, [&](int64_t) { sum += sumOfTasks(pool, 3); });
    });
  for (std::thread &caller : callers)
    caller.join();
  EXPECT_EQ(sum, 24 * 20 * 3 * 6);
}

TEST(ThreadPool, WorkersHaveANameAndNoSignals) {
  ThreadPool pool;
  Meeting meeting(2);
  std::array<std::string, 2> names;
  std::array<bool, 2> isBlocked = {};
  pool.run(2, [&](int64_t task) {
    meeting.arrive();
    std::array<char, 16> name = {};
    pthread_getname_np(pthread_self(), name.data(), name.size());
    names[size_t(task)] = name.data();
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    isBlocked[size_t(task)] =
        sigismember(&blocked, SIGUSR1) && !sigismember(&blocked, SIGSEGV);
  });
  // Task 0 is the caller's.
  EXPECT_NE(names[0], "mpc-worker");
  EXPECT_EQ(names[1], "mpc-worker");
  EXPECT_FALSE(isBlocked[0]);
  EXPECT_TRUE(isBlocked[1]);
}

TEST(ThreadPool, IsSharedWhileInUse) {
  std::shared_ptr<ThreadPool> pool = ThreadPool::shared();
  EXPECT_EQ(pool, ThreadPool::shared());
  EXPECT_EQ(sumOfTasks(*pool, 4), 10);
  std::weak_ptr<ThreadPool> last = pool;
  pool.reset();
  // Unless other tests' devices hold it, its threads are joined now.
  EXPECT_TRUE(last.expired() || ThreadPool::shared() == last.lock());
  EXPECT_EQ(sumOfTasks(*ThreadPool::shared(), 4), 10);
}

TEST(ThreadPool, AForkedChildStartsItsOwnThreads) {
  auto pool = std::make_unique<ThreadPool>();
  std::shared_ptr<ThreadPool> shared = ThreadPool::shared();
  EXPECT_EQ(sumOfTasks(*pool, 3), 6);
  // Another thread of the parent is in the middle of a run.
  Meeting started(3), ended(3);
  std::thread other([&] {
    pool->run(2, [&](int64_t) {
      started.arrive();
      ended.arrive();
    });
  });
  started.arrive();
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    // Fails by the alarm if the two tasks have one thread.
    Meeting meeting(2);
    pool->run(2, [&](int64_t) { meeting.arrive(); });
    bool isRight = sumOfTasks(*pool, 3) == 6 && sumOfTasks(*shared, 3) == 6 &&
                   ThreadPool::shared() == shared;
    pool.reset();
    _exit(isRight ? 0 : 1);
  }
  ended.arrive();
  other.join();
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(sumOfTasks(*pool, 3), 6);
}

TEST(ThreadPool, EndsWhileItsThreadsFallAsleep) {
  for (int round = 0; round < 200; ++round) {
    ThreadPool pool;
    ASSERT_EQ(sumOfTasks(pool, 3), 6);
    std::this_thread::sleep_for(std::chrono::microseconds(round));
  }
}
