//===- OverlapSimulation.cpp - overlap of compute and communication -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/OverlapSimulation.h"

#include <algorithm>
#include <deque>

using namespace mpc;
using llvm::ArrayRef;

namespace {

/// Simulation state: messages in flight, and the time.
class OverlapSimulator {
public:
  explicit OverlapSimulator(double disturbance) : rate(1 / (1 + disturbance)) {}

  void start(double seconds) { left.push_back(seconds); }

  /// Waits until the first `count` messages of the step are complete.
  void wait(size_t count) {
    for (; done < count && !left.empty(); ++done, left.pop_front())
      now += left.front();
  }
  void waitForAll() { wait(done + left.size()); }

  /// Runs a launch that takes `seconds` without interference.
  void run(double seconds) {
    while (seconds > 0 && !left.empty()) {
      const double both = std::min(seconds, left.front());
      now += both / rate;
      seconds -= both;
      left.front() -= both;
      if (left.front() <= 0) {
        left.pop_front();
        ++done;
      }
    }
    now += seconds;
  }

  double now = 0;

private:
  const double rate;
  /// Remaining time of messages in flight, and number of completed ones.
  std::deque<double> left;
  size_t done = 0;
};

} // namespace

StepTimeline mpc::simulateStep(ArrayRef<TimelineItem> items,
                               double disturbance) {
  OverlapSimulator passing(disturbance);
  StepTimeline timeline;
  for (const TimelineItem &item : items) {
    if (item.isMessage) {
      timeline.messageSeconds += item.seconds;
      passing.start(item.seconds);
      continue;
    }
    timeline.launchSeconds += item.seconds;
    passing.wait(item.needed);
    passing.run(item.seconds);
  }
  passing.waitForAll();
  timeline.seconds = passing.now;
  return timeline;
}
