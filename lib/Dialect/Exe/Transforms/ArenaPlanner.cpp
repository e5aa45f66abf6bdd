//===- ArenaPlanner.cpp - places in one arena -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Exe/Transforms/ArenaPlanner.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <tuple>

using namespace mpc;

static int64_t alignUp(int64_t value, int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

int64_t ArenaPlanner::add(int64_t bytes, int64_t first, int64_t last) {
  buffers.push_back({alignUp(bytes, alignment), first, last, 0});
  return static_cast<int64_t>(buffers.size()) - 1;
}

std::map<int64_t, int64_t> ArenaPlanner::usage() const {
  std::map<int64_t, int64_t> bytes;
  for (const Buffer &buffer : buffers) {
    bytes[buffer.first] += buffer.bytes;
    bytes[buffer.last + 1] -= buffer.bytes;
  }
  int64_t sum = 0;
  for (auto &[step, change] : bytes)
    change = sum += change;
  return bytes;
}

int64_t ArenaPlanner::lowerBound() const {
  int64_t most = 0;
  for (auto [step, bytes] : usage())
    most = std::max(most, bytes);
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
  // Bytes in use at the busiest step of each buffer's life.
  std::map<int64_t, int64_t> inUse = usage();
  std::vector<int64_t> pressure;
  for (const Buffer &buffer : buffers) {
    int64_t most = 0;
    for (auto at = inUse.lower_bound(buffer.first);
         at != inUse.end() && at->first <= buffer.last; ++at)
      most = std::max(most, at->second);
    pressure.push_back(most);
  }

  std::vector<int64_t> byTime(buffers.size());
  std::iota(byTime.begin(), byTime.end(), 0);
  std::sort(byTime.begin(), byTime.end(), [&](int64_t a, int64_t b) {
    return std::tie(buffers[a].first, a) < std::tie(buffers[b].first, b);
  });
  auto sortedBy = [&](auto key) {
    std::vector<int64_t> order = byTime;
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      auto left = key(a), right = key(b);
      return left == right
                 ? std::tie(buffers[a].first, a) < std::tie(buffers[b].first, b)
                 : left > right;
    });
    return order;
  };
  auto life = [&](int64_t number) {
    return buffers[number].last - buffers[number].first;
  };
  // No order wins always: large first packs well, first come first served is
  // exact for chains, long lives first keeps what stays at the bottom, and
  // where the busiest steps are placed first nothing else is in their way.
  std::vector<std::vector<int64_t>> orders = {
      sortedBy([&](int64_t i) { return buffers[i].bytes; }), byTime,
      sortedBy([&](int64_t i) { return std::pair(life(i), buffers[i].bytes); }),
      sortedBy([&](int64_t i) {
        return std::tuple(pressure[i], buffers[i].bytes, life(i));
      }),
      sortedBy([&](int64_t i) {
        return std::tuple(pressure[i], life(i), buffers[i].bytes);
      })};
  std::vector<int64_t> best;
  total = std::numeric_limits<int64_t>::max();
  for (std::vector<int64_t> &order : orders)
    if (int64_t end = place(order); end < total) {
      total = end;
      best = std::move(order);
    }
  // What is left to gain is looked for near the best order, always in the same
  // way and in bounded time.
  constexpr int64_t kMostSteps = 20'000'000;
  int64_t count = static_cast<int64_t>(best.size());
  int64_t tries = std::min<int64_t>(2000, kMostSteps / (count * count + 1));
  std::minstd_rand random(1);
  for (int64_t bound = lowerBound(); tries > 0 && total > bound; --tries) {
    std::vector<int64_t> order = best;
    auto from = order.begin() + random() % count;
    int64_t number = *from;
    order.erase(from);
    order.insert(order.begin() + random() % count, number);
    if (int64_t end = place(order); end <= total) {
      total = end;
      best = order;
    }
  }
  total = place(best);
}
