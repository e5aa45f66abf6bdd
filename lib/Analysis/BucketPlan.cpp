//===- BucketPlan.cpp - which gradients share a message -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// By dynamic programming: the messages before an item matter only by when the
// last of them ends, and earlier is never worse.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/BucketPlan.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <tuple>
#include <vector>

using namespace llvm;
using namespace mpc;

SmallVector<size_t> mpc::planBuckets(ArrayRef<BucketItem> items,
                                     const NetworkModel &network) {
  /// The best plan of the first items.
  struct Plan {
    double end = 0;
    size_t messages = 0, before = 0;
  };
  std::vector<Plan> best(items.size() + 1);
  double ready = 0;
  for (size_t count = 1; count <= items.size(); ++count) {
    ready = std::max(ready, items[count - 1].readySeconds);
    int64_t bytes = 0;
    bool found = false;
    // The last message begins with item `first`.
    for (size_t first = count; first-- > 0;) {
      bytes += items[first].bytes;
      Plan plan;
      plan.end = std::max(best[first].end, ready) + network.secondsOf(bytes);
      plan.messages = best[first].messages + 1;
      plan.before = first;
      if (!found || std::tie(plan.end, plan.messages) <
                        std::tie(best[count].end, best[count].messages))
        best[count] = plan;
      found = true;
    }
  }
  SmallVector<size_t> ends;
  for (size_t count = items.size(); count > 0; count = best[count].before)
    ends.push_back(count);
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
