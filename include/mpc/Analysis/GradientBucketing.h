//===- GradientBucketing.h - gradient bucketing for all-reduce --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_GRADIENTBUCKETING_H
#define MPC_ANALYSIS_GRADIENTBUCKETING_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>

namespace mpc {

/// One gradient to be reduced across ranks.
struct GradientMessageItem {
  /// Time at which the gradient is computed, in seconds from the step's start.
  double readySeconds = 0;
  int64_t bytes = 0;
};

/// Duration of a message by Hockney's alpha-beta model (The communication
/// challenge for MPP, 1994): latency + bytes / bandwidth.
struct NetworkModel {
  double latencySeconds = 0;
  double bytesPerSecond = 0;

  double secondsOf(int64_t bytes) const {
    return latencySeconds + double(bytes) / bytesPerSecond;
  }
};

/// Partitions gradients, sorted by ready time, into buckets of one message
/// each. Messages run one after another, concurrently with the step; each
/// starts once its last gradient is ready. Minimizes the end of the last
/// message, then the number of messages. Returns the end of each bucket: the
/// index after its last item. O(items^2) per message.
llvm::SmallVector<size_t> planBuckets(llvm::ArrayRef<GradientMessageItem> items,
                                      const NetworkModel &network);

/// Returns the time at which the last message of a plan ends.
double bucketingEndSeconds(llvm::ArrayRef<GradientMessageItem> items,
                           llvm::ArrayRef<size_t> ends,
                           const NetworkModel &network);

} // namespace mpc

#endif // MPC_ANALYSIS_GRADIENTBUCKETING_H
