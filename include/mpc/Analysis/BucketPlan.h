//===- BucketPlan.h - which gradients share a message -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_BUCKETPLAN_H
#define MPC_ANALYSIS_BUCKETPLAN_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>

namespace mpc {

/// One gradient on its way to the other ranks.
struct BucketItem {
  /// When the step has made it, from the step's beginning.
  double readySeconds = 0;
  int64_t bytes = 0;
};

/// What a message takes, by the model of Hockney (The communication challenge
/// for MPP, 1994): latency + bytes / bandwidth.
struct NetworkModel {
  double latencySeconds = 0;
  double bytesPerSecond = 0;

  double secondsOf(int64_t bytes) const {
    return latencySeconds + double(bytes) / bytesPerSecond;
  }
};

/// Cuts items, which are in the order in which they get ready, into messages
/// that run one behind the other beside the step, each once its last item is
/// ready, such that the last message ends as early as can be; of equally early
/// plans one of the fewest messages. Gives the end of each message: the number
/// of the first item behind it. Takes time in the square of the items,
/// for each message.
llvm::SmallVector<size_t> planBuckets(llvm::ArrayRef<BucketItem> items,
                                      const NetworkModel &network);

/// When the last message of a plan ends.
double bucketsEnd(llvm::ArrayRef<BucketItem> items, llvm::ArrayRef<size_t> ends,
                  const NetworkModel &network);

} // namespace mpc

#endif // MPC_ANALYSIS_BUCKETPLAN_H
