//===- StepTimeline.cpp - a step of several ranks as it passes ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/StepTimeline.h"

#include <algorithm>
#include <deque>

using namespace llvm;
using namespace mpc;

namespace {

/// Messages that were started, and the time.
class Passing {
public:
  explicit Passing(double disturbance) : rate(1 / (1 + disturbance)) {}

  void start(double seconds) { left.push_back(seconds); }

  /// Waits until the first `count` messages of the step are over.
  void wait(size_t count) {
    for (; done < count && !left.empty(); ++done, left.pop_front())
      now += left.front();
  }
  void waitForAll() { wait(done + left.size()); }

  /// A launch that takes `seconds` by itself.
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
  /// What started messages still take, and how many are over.
  std::deque<double> left;
  size_t done = 0;
};

} // namespace

StepTimeline mpc::passStep(ArrayRef<TimelineItem> items, double disturbance) {
  Passing passing(disturbance);
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
