//===- CollectiveThread.cpp - collectives overlapped with launches --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CollectiveThread.h"

#include "mpc/Runtime/Communicator.h"

#include <chrono>

using namespace mpc;
using namespace mpc::detail;

CollectiveThread::~CollectiveThread() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  if (thread.joinable())
    thread.join();
}

void CollectiveThread::begin(const Addresses &addresses,
                             const RunOptions &options) {
  std::lock_guard<std::mutex> lock(mutex);
  this->addresses = &addresses;
  communicator = options.communicator;
  milliseconds = {};
  if (options.launchMilliseconds)
    milliseconds = *options.launchMilliseconds;
  trace = options.trace;
  beginning = std::chrono::steady_clock::now();
  next = started = done = 0;
  failure = {};
}

double CollectiveThread::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                       beginning)
      .count();
}

void CollectiveThread::endSpan() {
  if (trace && !trace->launches.empty() && trace->launches.back().end == 0)
    trace->launches.back().end = now();
}

Status CollectiveThread::reach(size_t launch) {
  endSpan();
  if (size_t count = plan.needed[launch])
    if (Status status = wait(count); !status.ok())
      return status;
  if (trace && !program.launches[launch].collective)
    trace->launches.push_back({int64_t(launch), now(), 0});
  if (next == plan.launches.size() || plan.launches[next] != launch)
    return {};
  ++next;
  const bool isNeededAtOnce =
      plan.ranks == 1 || plan.needed[launch + 1] >= next;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!failure.ok())
      return failure;
    started = next;
  }
  if (isNeededAtOnce)
    return {};
  if (!thread.joinable())
    thread = std::thread([this] { work(); });
  changed.notify_all();
  return {};
}

Status CollectiveThread::end() {
  endSpan();
  Status status = wait(next);
  // After a failure the thread may still be in a collective.
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return !busy; });
  started = done;
  return status;
}

/// Waits until the first `count` collectives, which were started, are done.
Status CollectiveThread::wait(size_t count) {
  std::unique_lock<std::mutex> lock(mutex);
  while (done < count && failure.ok()) {
    const size_t current = done;
    auto start = std::chrono::steady_clock::now();
    if (busy)
      changed.wait(lock, [&] { return !busy || done > current; });
    else
      runNextCollective(lock);
    std::chrono::duration<double, std::milli> took =
        std::chrono::steady_clock::now() - start;
    if (!milliseconds.empty())
      milliseconds[plan.launches[current]] += took.count();
  }
  return failure;
}

void CollectiveThread::work() {
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    changed.wait(lock, [&] {
      return stopping || (!busy && done < started && failure.ok());
    });
    if (stopping)
      return;
    runNextCollective(lock);
  }
}

/// Performs the first pending collective; no thread is in one.
void CollectiveThread::runNextCollective(std::unique_lock<std::mutex> &lock) {
  busy = true;
  const size_t launch = plan.launches[done];
  lock.unlock();
  const double begin = trace ? now() : 0;
  Status status = send(launch);
  lock.lock();
  if (trace)
    trace->messages.push_back({int64_t(launch), begin, now()});
  busy = false;
  if (status.ok())
    ++done;
  else
    failure = status;
  changed.notify_all();
}

Status CollectiveThread::send(size_t number) {
  const Launch &launch = program.launches[number];
  buffers.clear();
  for (const BufferRef &ref : launch.buffers)
    buffers.push_back(static_cast<char *>(addresses->resolve(ref)));
  if (launch.collective->ranks == 1) {
    copySingleRank(launch, buffers);
    return {};
  }
  communicator->describe("message '" + launch.kernel + "' of " + program.name);
  return exchange(launch, buffers, *communicator, memory);
}
