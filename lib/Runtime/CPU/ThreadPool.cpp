//===- ThreadPool.cpp - passive worker threads ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ThreadPool.h"

#include "../Environment.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <linux/futex.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace mpc;
using namespace mpc::detail;

namespace {

using Clock = std::chrono::steady_clock;

/// Maximum time that an idle thread spins before it sleeps: longer than most
/// series of launches that stay on the caller, so that shared launches find
/// their workers awake.
constexpr auto kSpinTime = std::chrono::microseconds(200);
/// Pause between two polls' clock readings that shows that the thread lost its
/// core; above the time of interrupts, below a time slice.
constexpr auto kPreemptionGap = std::chrono::microseconds(100);
/// Two preemptions of a caller within this time show that cores are contended.
constexpr auto kPreemptionWindow = std::chrono::milliseconds(20);
/// Time without spinning after signs of contention.
constexpr auto kPassiveTime = std::chrono::milliseconds(50);

/// Maximum number of run() calls that share workers; further ones run alone.
constexpr size_t kSlots = 16;

/// Bit of Slot::pending: the caller sleeps.
constexpr uint32_t kCallerSleeps = uint32_t(1) << 31;

} // namespace

/// The tasks of one run(). Slots outlive run(), so that workers may look at
/// them at any time.
struct alignas(64) ThreadPool::Slot {
  std::atomic<bool> isTaken = false;
  /// Sequence number of the run (32 bits), its number of tasks (16 bits), and
  /// the next task to start (16 bits). Starting a task is an increment by
  /// compare-exchange; a success implies that the run is not finished.
  std::atomic<uint64_t> claims = 0;
  TaskFunction function = nullptr;
  void *context = nullptr;
  /// Unfinished tasks, with kCallerSleeps. The caller subtracts its own tasks
  /// together at its end.
  alignas(64) std::atomic<uint32_t> pending = 0;

  /// Returns the index of a task to execute, or nullopt if all have started.
  std::optional<int64_t> claim();
};

std::optional<int64_t> ThreadPool::Slot::claim() {
  uint64_t word = claims.load(std::memory_order_acquire);
  for (;;) {
    uint64_t tasks = word >> 16 & UINT16_MAX, next = word & UINT16_MAX;
    if (next >= tasks)
      return std::nullopt;
    if (claims.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel,
                                     std::memory_order_acquire))
      return int64_t(next);
  }
}

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

/// Sleeps until futexWake() if `word` is still `expected`; may return early.
static void futexWait(std::atomic<uint32_t> &word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

static void futexWake(std::atomic<uint32_t> &word, int64_t threads) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, int(threads), nullptr, nullptr,
          0);
}

static void pauseBriefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

//===----------------------------------------------------------------------===//
// Forks
//===----------------------------------------------------------------------===//

/// Number of forks between the first process and this one.
static std::atomic<int> forks = 0;

/// Guards ThreadPool::shared(); held during fork(), so that the child finds it
/// unlocked.
static std::mutex sharedMutex;

static void observeForks() {
  static const int result =
      pthread_atfork([] { sharedMutex.lock(); }, [] { sharedMutex.unlock(); },
                     [] {
                       ++forks;
                       sharedMutex.unlock();
                     });
  (void)result;
}

//===----------------------------------------------------------------------===//
// Workers
//===----------------------------------------------------------------------===//

/// The pool in one process.
struct ThreadPool::State {
  const int fork = forks;
  std::array<Slot, kSlots> slots;
  /// Incremented by each run() and by the destructor; workers sleep on it.
  alignas(64) std::atomic<uint32_t> epoch = 0;
  std::atomic<int64_t> spinners = 0, sleepers = 0;
  std::atomic<bool> isStopping = false;
  /// End of the time without spinning.
  std::atomic<Clock::rep> passiveUntil = 0;
  /// Number of started workers; more than any run needs if the system refuses
  /// further ones.
  std::atomic<int64_t> workers = 0;
  /// Guards `threads`.
  std::mutex growing;
  std::vector<pthread_t> threads;
  /// State of the parent process; not destroyed there, since its threads' last
  /// actions are unknown.
  State *lost = nullptr;

  bool isPassive(Clock::time_point now) const {
    return now.time_since_epoch().count() <
           passiveUntil.load(std::memory_order_relaxed);
  }
  void becomePassive(Clock::time_point now) {
    passiveUntil.store((now + kPassiveTime).time_since_epoch().count(),
                       std::memory_order_relaxed);
  }
  template <typename Predicate> bool spin(Predicate isDone);
  void grow(int64_t wanted);
  Slot *takeSlot();
  void publish(Slot &slot, int64_t tasks);
  void await(Slot &slot, uint32_t own);
  bool help();
  void work();
};

/// Polls for kSpinTime; returns whether the condition became true. Does not
/// poll while the cores are contended.
template <typename Predicate> bool ThreadPool::State::spin(Predicate isDone) {
  constexpr int kPollsPerReading = 8;
  Clock::time_point start = Clock::now(), last = start;
  if (isPassive(start))
    return isDone();
  do {
    for (int i = 0; i < kPollsPerReading; ++i) {
      if (isDone())
        return true;
      pauseBriefly();
    }
    Clock::time_point now = Clock::now();
    if (now - last > kPreemptionGap) {
      becomePassive(now);
      return isDone();
    }
    last = now;
  } while (last - start < kSpinTime);
  return isDone();
}

/// Starts workers until there are `wanted`.
void ThreadPool::State::grow(int64_t wanted) {
  std::lock_guard lock(growing);
  // Signals are handled by the host's threads, except faults of a kernel.
  sigset_t blocked, before;
  sigfillset(&blocked);
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGPROF})
    sigdelset(&blocked, signal);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  // On the cores of the main thread: the caller's may be fewer, but other
  // threads use the workers, too.
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (std::vector<cpu_set_t> cores = affinityOf(getpid()); !cores.empty())
    pthread_attr_setaffinity_np(&attributes, cores.size() * sizeof(cpu_set_t),
                                cores.data());
  while (workers.load(std::memory_order_relaxed) < wanted) {
    pthread_t thread;
    auto work = [](void *state) -> void * {
      pthread_setname_np(pthread_self(), "mpc-worker");
      static_cast<State *>(state)->work();
      return nullptr;
    };
    if (pthread_create(&thread, &attributes, work, this) != 0) {
      workers.store(kMostTasks, std::memory_order_relaxed);
      break;
    }
    threads.push_back(thread);
    workers.fetch_add(1, std::memory_order_relaxed);
  }
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

/// Returns a free slot; null if there is none.
ThreadPool::Slot *ThreadPool::State::takeSlot() {
  for (Slot &slot : slots)
    if (!slot.isTaken.load(std::memory_order_relaxed) &&
        !slot.isTaken.exchange(true, std::memory_order_acquire))
      return &slot;
  return nullptr;
}

/// Offers all tasks but the first, and wakes as many workers as are missing.
void ThreadPool::State::publish(Slot &slot, int64_t tasks) {
  slot.pending.store(uint32_t(tasks), std::memory_order_relaxed);
  uint64_t sequence = (slot.claims.load(std::memory_order_relaxed) >> 32) + 1;
  slot.claims.store(sequence << 32 | uint64_t(tasks) << 16 | 1,
                    std::memory_order_release);
  // A worker that is not counted yet will find the new epoch.
  epoch.fetch_add(1);
  int64_t missing = std::min(tasks - 1 - spinners.load(), sleepers.load());
  if (missing > 0)
    futexWake(epoch, missing);
}

/// Waits for the tasks that others have started; the caller executed `own`.
void ThreadPool::State::await(Slot &slot, uint32_t own) {
  auto isDone = [&] {
    return slot.pending.load(std::memory_order_acquire) == 0;
  };
  if (slot.pending.fetch_sub(own, std::memory_order_acq_rel) == own ||
      spin(isDone))
    return;
  uint32_t left = slot.pending.fetch_or(kCallerSleeps) | kCallerSleeps;
  while (left != kCallerSleeps) {
    futexWait(slot.pending, left);
    left = slot.pending.load(std::memory_order_acquire);
  }
}

/// Executes tasks of all runs; returns whether there were any.
bool ThreadPool::State::help() {
  bool helped = false;
  for (Slot &slot : slots)
    while (std::optional<int64_t> task = slot.claim()) {
      helped = true;
      slot.function(slot.context, *task);
      // The last access to the slot's run.
      uint32_t before = slot.pending.fetch_sub(1, std::memory_order_acq_rel);
      if (before == (kCallerSleeps | 1))
        futexWake(slot.pending, 1);
    }
  return helped;
}

void ThreadPool::State::work() {
  for (;;) {
    // Read first: whatever is missed below changes it.
    uint32_t seen = epoch.load();
    if (isStopping.load())
      return;
    if (help())
      continue;
    spinners.fetch_add(1);
    bool isNew = spin([&] { return epoch.load() != seen; });
    spinners.fetch_sub(1);
    if (isNew)
      continue;
    sleepers.fetch_add(1);
    futexWait(epoch, seen);
    sleepers.fetch_sub(1);
  }
}

//===----------------------------------------------------------------------===//
// ThreadPool
//===----------------------------------------------------------------------===//

ThreadPool::ThreadPool() : state(nullptr) {
  observeForks();
  state = new State;
}

ThreadPool::~ThreadPool() {
  State *last = state.load();
  if (last->fork == forks.load()) {
    last->isStopping = true;
    last->epoch.fetch_add(1);
    futexWake(last->epoch, kMostTasks);
    for (pthread_t thread : last->threads)
      pthread_join(thread, nullptr);
  }
  while (last)
    delete std::exchange(last, last->lost);
}

std::shared_ptr<ThreadPool> ThreadPool::shared() {
  // Never destroyed: devices in static variables may outlive it otherwise.
  static auto &pool = *new std::weak_ptr<ThreadPool>;
  observeForks();
  std::lock_guard lock(sharedMutex);
  std::shared_ptr<ThreadPool> result = pool.lock();
  if (!result)
    pool = result = std::make_shared<ThreadPool>();
  return result;
}

/// Returns the state of this process.
ThreadPool::State &ThreadPool::current() {
  State *now = state.load(std::memory_order_acquire);
  if (now->fork == forks.load(std::memory_order_relaxed))
    return *now;
  auto fresh = std::make_unique<State>();
  fresh->lost = now;
  if (state.compare_exchange_strong(now, fresh.get()))
    return *fresh.release();
  // Another thread of the child was faster.
  return *now;
}

void ThreadPool::run(int64_t tasks, TaskFunction function, void *context) {
  State &pool = current();
  Slot *slot = tasks > 1 ? pool.takeSlot() : nullptr;
  if (!slot) {
    for (int64_t task = 0; task < tasks; ++task)
      function(context, task);
    return;
  }
  if (pool.workers.load(std::memory_order_relaxed) < tasks - 1)
    pool.grow(tasks - 1);
  slot->function = function;
  slot->context = context;
  pool.publish(*slot, tasks);
  function(context, 0);
  uint32_t own = 1;
  for (; std::optional<int64_t> task = slot->claim(); ++own)
    function(context, *task);
  pool.await(*slot, own);
  slot->isTaken.store(false, std::memory_order_release);
}

bool ThreadPool::isContended() {
  thread_local int64_t switches = 0;
  thread_local Clock::time_point lastPreemption;
  State &pool = current();
  Clock::time_point now = Clock::now();
  rusage usage;
  if (getrusage(RUSAGE_THREAD, &usage) == 0 &&
      std::exchange(switches, usage.ru_nivcsw) != usage.ru_nivcsw &&
      now - std::exchange(lastPreemption, now) < kPreemptionWindow)
    pool.becomePassive(now);
  return pool.isPassive(now);
}
