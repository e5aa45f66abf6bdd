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

  /// Begins with batch `batch` of epoch `epoch`, both from 0; an epoch has the
  /// first `perEpoch` batches of its order. The data must
  /// fill as many.
  BatchStream(Batcher batcher, uint64_t seed, bool shuffle, int64_t perEpoch,
              int64_t epoch, int64_t batch);
  ~BatchStream();
  BatchStream(const BatchStream &) = delete;
  BatchStream &operator=(const BatchStream &) = delete;

  /// The next batch; waits for it.
  Result<Batch> next();

private:
  void produce(uint64_t seed, bool shuffle, int64_t perEpoch, int64_t epoch,
               int64_t batch);

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
