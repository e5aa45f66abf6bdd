//===- BucketPlan.cpp - which gradients share a message -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// By dynamic programming: the messages before an item matter only by when the
// last of them ends, and earlier is never worse. The fewest messages are found
// by the same over plans of one, two, ... of them.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/BucketPlan.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>
#include <vector>

using namespace llvm;
using namespace mpc;

namespace {

/// The earliest end of each number of first items, and where the last message
/// begins then. `before` has the ends of what may stand before that message.
struct Ends {
  std::vector<double> end;
  std::vector<size_t> begin;

  void extend(ArrayRef<BucketItem> items, const NetworkModel &network,
              const std::vector<double> &before) {
    double ready = 0;
    for (size_t count = 1; count <= items.size(); ++count) {
      ready = std::max(ready, items[count - 1].readySeconds);
      int64_t bytes = 0;
      for (size_t first = count; first-- > 0;) {
        bytes += items[first].bytes;
        double now = std::max(before[first], ready) + network.secondsOf(bytes);
        if (now < end[count]) {
          end[count] = now;
          begin[count] = first;
        }
      }
    }
  }
};

} // namespace

SmallVector<size_t> mpc::planBuckets(ArrayRef<BucketItem> items,
                                     const NetworkModel &network) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  size_t count = items.size();
  if (count == 0)
    return {};
  Ends any = {std::vector<double>(count + 1, kNever),
              std::vector<size_t>(count + 1)};
  any.end[0] = 0;
  any.extend(items, network, any.end);
  // With one message more at a time, until they end as early.
  std::vector<Ends> exactly;
  std::vector<double> before(count + 1, kNever);
  before[0] = 0;
  do {
    Ends next = {std::vector<double>(count + 1, kNever),
                 std::vector<size_t>(count + 1)};
    next.extend(items, network, before);
    before = next.end;
    exactly.push_back(std::move(next));
  } while (before[count] > any.end[count] && exactly.size() < count);
  SmallVector<size_t> ends;
  for (size_t at = count; !exactly.empty(); exactly.pop_back()) {
    ends.push_back(at);
    at = exactly.back().begin[at];
  }
  std::reverse(ends.begin(), ends.end());
  return ends;
}

double mpc::bucketsEnd(ArrayRef<BucketItem> items, ArrayRef<size_t> ends,
                       const NetworkModel &network) {
  double free = 0, ready = 0;
  size_t begin = 0;
  for (size_t end : ends) {
    int64_t bytes = 0;
    for (const BucketItem &item : items.slice(begin, end - begin)) {
      ready = std::max(ready, item.readySeconds);
      bytes += item.bytes;
    }
    free = std::max(free, ready) + network.secondsOf(bytes);
    begin = end;
  }
  return free;
}
