//===- GradientBucketing.cpp - gradient bucketing for all-reduce ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dynamic programming over prefixes: earlier messages matter only by the end of
// the last one, and earlier is never worse. The minimum number of messages
// comes from the same recurrence over plans of exactly one, two, ... messages.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/GradientBucketing.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>
#include <vector>

using namespace mpc;
using llvm::ArrayRef;
using llvm::SmallVector;

namespace {

/// For each prefix of items the earliest end, and the first item of its last
/// message. `before` has the earliest ends of the preceding messages.
struct PrefixEnds {
  std::vector<double> end;
  std::vector<size_t> begin;

  void extend(ArrayRef<GradientMessageItem> items, const NetworkModel &network,
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

SmallVector<size_t> mpc::planBuckets(ArrayRef<GradientMessageItem> items,
                                     const NetworkModel &network) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  size_t count = items.size();
  if (count == 0)
    return {};
  PrefixEnds any = {std::vector<double>(count + 1, kNever),
                    std::vector<size_t>(count + 1)};
  any.end[0] = 0;
  any.extend(items, network, any.end);
  // Add one message at a time until the plan ends as early.
  std::vector<PrefixEnds> exactly;
  std::vector<double> before(count + 1, kNever);
  before[0] = 0;
  do {
    PrefixEnds next = {std::vector<double>(count + 1, kNever),
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

double mpc::bucketingEndSeconds(ArrayRef<GradientMessageItem> items,
                                ArrayRef<size_t> ends,
                                const NetworkModel &network) {
  double free = 0, ready = 0;
  size_t begin = 0;
  for (size_t end : ends) {
    int64_t bytes = 0;
    for (const GradientMessageItem &item : items.slice(begin, end - begin)) {
      ready = std::max(ready, item.readySeconds);
      bytes += item.bytes;
    }
    free = std::max(free, ready) + network.secondsOf(bytes);
    begin = end;
  }
  return free;
}
