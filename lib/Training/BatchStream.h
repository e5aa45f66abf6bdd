//===- BatchStream.h - batches made ahead -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TRAINING_BATCHSTREAM_H
#define MPC_LIB_TRAINING_BATCHSTREAM_H

#include "mpc/Training/Dataset.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace mpc::training {

/// Batches of epoch after epoch without end, made by a thread of its own a few
/// steps ahead. What comes is a function of the arguments alone; examples that
/// fill no batch are left out of their epoch. One thread may call next().
class BatchStream {
public:
  struct Batch {
    int64_t epoch = 0, index = 0;
    std::vector<Buffer> arrays;
  };

  /// What is drawn, and of each batch which part.
  struct Order {
    uint64_t seed = 0;
    bool shuffle = true;
    /// Batches of an epoch: the first of its order. The data must fill as many.
    int64_t perEpoch = 0;
    /// The order is that of the batches of all ranks together, of which each
    /// has as many examples as `batcher` takes: it depends on no number of
    /// ranks.
    int64_t rank = 0, ranks = 1;
  };

  /// Begins with batch `batch` of epoch `epoch`, both from 0.
  BatchStream(Batcher batcher, const Order &order, int64_t epoch,
              int64_t batch);
  ~BatchStream();
  BatchStream(const BatchStream &) = delete;
  BatchStream &operator=(const BatchStream &) = delete;

  /// The next batch; waits for it.
  Result<Batch> next();

private:
  void produce(const Order &drawn, int64_t epoch, int64_t batch);

  static constexpr size_t kAhead = 4;
  const Batcher batcher;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Result<Batch>> ready;
  bool stopping = false;
  std::thread thread;
};

} // namespace mpc::training

#endif // MPC_LIB_TRAINING_BATCHSTREAM_H
