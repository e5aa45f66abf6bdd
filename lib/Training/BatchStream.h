//===- BatchStream.h - background batch loader ------------------*- C++ -*-===//
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

/// Endless sequence of batches, epoch after epoch, assembled by a background
/// thread a few steps ahead. Deterministic: depends on the arguments only;
/// incomplete last batches of an epoch are dropped. One thread may call next().
class BatchStream {
public:
  struct Batch {
    int64_t epoch = 0, index = 0;
    std::vector<Buffer> arrays;
  };

  /// Order of the examples, and this rank's part of each batch.
  struct Order {
    uint64_t seed = 0;
    bool shuffle = true;
    /// Batches per epoch, from the start of its order. The data must have as
    /// many.
    int64_t perEpoch = 0;
    /// The order is of global batches, of which each rank takes as many
    /// examples as `batcher` does: independent of the number of ranks.
    int64_t rank = 0, ranks = 1;
  };

  /// Starts with batch `batch` of epoch `epoch`, both from 0.
  BatchStream(Batcher batcher, const Order &order, int64_t epoch,
              int64_t batch);
  ~BatchStream();
  BatchStream(const BatchStream &) = delete;
  BatchStream &operator=(const BatchStream &) = delete;

  /// Returns the next batch; blocks until it is ready.
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
