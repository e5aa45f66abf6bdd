//===- StepTimeline.h - a step of several ranks as it passes ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_STEPTIMELINE_H
#define MPC_ANALYSIS_STEPTIMELINE_H

#include "llvm/ADT/ArrayRef.h"

#include <cstddef>

namespace mpc {

/// A launch of a step, or a message that it starts.
struct TimelineItem {
  double seconds = 0;
  bool isMessage = false;
  /// How many messages are over when it begins; of launches.
  size_t needed = 0;
};

struct StepTimeline {
  double seconds = 0;
  /// Of all launches, and of all messages, each by itself.
  double launchSeconds = 0, messageSeconds = 0;
  /// What the step takes beyond its launches.
  double exposedSeconds() const { return seconds - launchSeconds; }
};

/// Lets a step pass: launches one behind the other, messages in their order
/// beside them, each from where the step comes to it; a launch waits for the
/// messages that it needs, the end for all. A launch and a message that run at
/// once slow each other down where messages take the processor too: with a
/// `disturbance` of 1 each takes twice as long, with 0 as long as alone.
StepTimeline passStep(llvm::ArrayRef<TimelineItem> items,
                      double disturbance = 0);

} // namespace mpc

#endif // MPC_ANALYSIS_STEPTIMELINE_H
