//===- BatchStream.cpp - background batch loader --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BatchStream.h"

#include <numeric>

using namespace mpc;
using namespace mpc::training;

BatchStream::BatchStream(Batcher data, const Order &order, int64_t epoch,
                         int64_t batch)
    : batcher(std::move(data)),
      thread([=, this] { produce(order, epoch, batch); }) {}

BatchStream::~BatchStream() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  thread.join();
}

void BatchStream::produce(const Order &drawn, int64_t epoch, int64_t batch) {
  int64_t size = batcher.batch();
  for (;; ++epoch, batch = 0) {
    std::vector<int64_t> order;
    if (drawn.shuffle) {
      order = epochOrder(batcher.size(), drawn.seed, epoch);
    } else {
      order.resize(size_t(batcher.size()));
      std::iota(order.begin(), order.end(), int64_t(0));
    }
    for (; batch < drawn.perEpoch; ++batch) {
      int64_t part = batch * drawn.ranks + drawn.rank;
      Result<std::vector<Buffer>> arrays = batcher.gather(
          std::span(order).subspan(size_t(part * size), size_t(size)));
      Result<Batch> made =
          arrays.ok() ? Result<Batch>(Batch{epoch, batch, std::move(*arrays)})
                      : Result<Batch>(arrays.status());
      bool failed = !made.ok();
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return stopping || ready.size() < kAhead; });
      if (stopping)
        return;
      ready.push_back(std::move(made));
      changed.notify_all();
      if (failed)
        return;
    }
  }
}

Result<BatchStream::Batch> BatchStream::next() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return !ready.empty(); });
  Result<Batch> batch = std::move(ready.front());
  // The thread has ended after a failure, which stays in the queue.
  if (batch.ok())
    ready.pop_front();
  else
    ready.front() = batch;
  changed.notify_all();
  return batch;
}
