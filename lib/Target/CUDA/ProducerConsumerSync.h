//===- ProducerConsumerSync.h - sync within a launch ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Producer-consumer fusion in one launch. Consumer blocks are co-resident with
// producer blocks and spin on a counter until every producer block has arrived.
// The launch order of blocks is undefined, so each block takes its index from
// an atomic counter at run time; the lowest indices are producers, so progress
// is guaranteed.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_PRODUCERCONSUMERSYNC_H
#define MPC_LIB_TARGET_CUDA_PRODUCERCONSUMERSYNC_H

#include "Plan/Schedule.h"

namespace mpc::cuda {

class ProducerConsumerSync {
public:
  /// Size of the scratch buffer: block counter, arrived producers, departed
  /// consumers (int32 each). All are zero before and after a launch.
  static constexpr int64_t kBytes = 3 * sizeof(int32_t);

  ProducerConsumerSync(GpuBody &body, mlir::Value counters, int64_t makers,
                       int64_t readers)
      : body(body), counters(counters), makers(makers), readers(readers) {}

  /// Returns the block's index, uniform across its threads.
  mlir::Value takeBlockIndex();
  /// Signals arrival of a producer block; after the work of all its threads.
  void publish();
  /// Waits for all producer blocks; at the start of a consumer block.
  void await();

private:
  mlir::Value number(int64_t value);
  /// Atomically adds to a counter and returns the old value.
  mlir::Value count(int64_t number, int64_t counter);
  void onlyFirstThread(llvm::function_ref<void()> then);

  GpuBody &body;
  mlir::Value counters;
  int64_t makers, readers;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_PRODUCERCONSUMERSYNC_H
