//===- ArenaPlanner.cpp - places in one arena -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Exe/Transforms/ArenaPlanner.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

using namespace mpc;

static int64_t alignUp(int64_t value, int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

int64_t ArenaPlanner::add(int64_t bytes, int64_t first, int64_t last) {
  buffers.push_back({alignUp(bytes, alignment), first, last, 0});
  return static_cast<int64_t>(buffers.size()) - 1;
}

int64_t ArenaPlanner::lowerBound() const {
  std::map<int64_t, int64_t> change;
  for (const Buffer &buffer : buffers) {
    change[buffer.first] += buffer.bytes;
    change[buffer.last + 1] -= buffer.bytes;
  }
  int64_t inUse = 0, most = 0;
  for (auto [step, bytes] : change)
    most = std::max(most, inUse += bytes);
  return most;
}

int64_t ArenaPlanner::place(const std::vector<int64_t> &order) {
  int64_t end = 0;
  std::vector<int64_t> placed; // by offset
  for (int64_t number : order) {
    Buffer &buffer = buffers[number];
    int64_t offset = 0;
    for (int64_t other : placed) {
      const Buffer &neighbour = buffers[other];
      if (neighbour.last < buffer.first || buffer.last < neighbour.first)
        continue;
      if (neighbour.offset >= offset + buffer.bytes)
        break;
      offset = std::max(offset, neighbour.offset + neighbour.bytes);
    }
    buffer.offset = offset;
    end = std::max(end, offset + buffer.bytes);
    auto byOffset = [&](int64_t a, int64_t b) {
      return buffers[a].offset < buffers[b].offset;
    };
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), number, byOffset),
        number);
  }
  return end;
}

void ArenaPlanner::plan() {
  std::vector<int64_t> byTime(buffers.size());
  std::iota(byTime.begin(), byTime.end(), 0);
  std::sort(byTime.begin(), byTime.end(), [&](int64_t a, int64_t b) {
    return std::tie(buffers[a].first, a) < std::tie(buffers[b].first, b);
  });
  std::vector<int64_t> bySize = byTime;
  std::sort(bySize.begin(), bySize.end(), [&](int64_t a, int64_t b) {
    return std::tie(buffers[b].bytes, buffers[a].first, a) <
           std::tie(buffers[a].bytes, buffers[b].first, b);
  });
  // Neither order wins always: large first packs well, first come first served
  // is exact for chains.
  int64_t chain = place(byTime);
  total = place(bySize);
  if (chain < total)
    total = place(byTime);
}
