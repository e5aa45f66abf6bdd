//===- OverlapSimulation.h - compute-communication overlap ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_OVERLAPSIMULATION_H
#define MPC_ANALYSIS_OVERLAPSIMULATION_H

#include "llvm/ADT/ArrayRef.h"

#include <cstddef>

namespace mpc {

/// A kernel launch, or a message that the step starts.
struct TimelineItem {
  double seconds = 0;
  bool isMessage = false;
  /// Number of messages that must complete before the launch starts.
  size_t needed = 0;
};

struct StepTimeline {
  double seconds = 0;
  /// Total time of the launches, and of the messages, each without overlap.
  double launchSeconds = 0, messageSeconds = 0;
  /// Communication time that is not overlapped, in seconds.
  double exposedSeconds() const { return seconds - launchSeconds; }
};

/// Simulates a training step: launches run in order, messages in order and
/// concurrently with launches, each from the point where the step starts it; a
/// launch waits for the messages it needs, the end of the step for all. A
/// concurrent launch and message slow each other down: with a `disturbance` of
/// 1 each takes twice as long, with 0 there is no interference.
StepTimeline simulateStep(llvm::ArrayRef<TimelineItem> items,
                          double disturbance = 0);

} // namespace mpc

#endif // MPC_ANALYSIS_OVERLAPSIMULATION_H
