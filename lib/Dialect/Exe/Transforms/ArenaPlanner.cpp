//===- ArenaPlanner.cpp - static memory planning --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Exe/Transforms/ArenaPlanner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
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

/// Placed buffers, indexed by the steps in which they are live (segment tree).
class ArenaPlanner::InUse {
public:
  explicit InUse(int64_t steps) : begins(steps), covering(2 * steps) {}

  void add(int64_t number, const Buffer &buffer) {
    begins[buffer.first].push_back(number);
    // Power-of-two ranges that cover the lifetime.
    int64_t steps = begins.size();
    for (int64_t low = buffer.first + steps, high = buffer.last + steps + 1;
         low < high; low /= 2, high /= 2) {
      if (low & 1)
        covering[low++].push_back(number);
      if (high & 1)
        covering[--high].push_back(number);
    }
  }

  /// Returns all buffers whose lifetime overlaps that of `buffer`, each once.
  void beside(const Buffer &buffer, std::vector<int64_t> &found) const {
    found.clear();
    auto take = [&](const std::vector<int64_t> &numbers) {
      found.insert(found.end(), numbers.begin(), numbers.end());
    };
    for (int64_t node = buffer.first + begins.size(); node > 0; node /= 2)
      take(covering[node]);
    for (int64_t step = buffer.first + 1; step <= buffer.last; ++step)
      take(begins[step]);
  }

private:
  std::vector<std::vector<int64_t>> begins, covering;
};

int64_t ArenaPlanner::place(const std::vector<int64_t> &order) {
  int64_t end = 0, steps = 0;
  for (const Buffer &buffer : buffers)
    steps = std::max(steps, buffer.last + 1);
  InUse inUse(steps);
  std::set<std::pair<int64_t, int64_t>> byOffset;
  std::vector<int64_t> beside;
  for (int64_t number : order) {
    Buffer &buffer = buffers[number];
    int64_t offset = 0;
    /// Returns true if the gap before the neighbor is large enough.
    auto fitsBefore = [&](const Buffer &neighbour) {
      if (neighbour.offset >= offset + buffer.bytes)
        return true;
      offset = std::max(offset, neighbour.offset + neighbour.bytes);
      return false;
    };
    inUse.beside(buffer, beside);
    // Few neighbors are sorted; for many, scan all placed buffers by offset.
    if (beside.size() * std::log2(beside.size() + 1) < byOffset.size()) {
      std::sort(beside.begin(), beside.end(), [&](int64_t a, int64_t b) {
        return buffers[a].offset < buffers[b].offset;
      });
      for (int64_t other : beside)
        if (fitsBefore(buffers[other]))
          break;
    } else {
      for (auto [at, other] : byOffset) {
        const Buffer &neighbour = buffers[other];
        if (neighbour.last >= buffer.first && buffer.last >= neighbour.first &&
            fitsBefore(neighbour))
          break;
      }
    }
    buffer.offset = offset;
    end = std::max(end, offset + buffer.bytes);
    byOffset.insert({offset, number});
    inUse.add(number, buffer);
  }
  return end;
}

std::vector<int64_t> ArenaPlanner::busiest() const {
  // Sparse table: maximum over each range of power-of-two length.
  std::vector<int64_t> steps;
  std::vector<std::vector<int64_t>> most(1);
  for (auto [step, bytes] : usage()) {
    steps.push_back(step);
    most[0].push_back(bytes);
  }
  for (size_t half = 1; 2 * half <= steps.size(); half *= 2) {
    const std::vector<int64_t> &below = most.back();
    std::vector<int64_t> level(below.size() - half);
    for (size_t i = 0; i < level.size(); ++i)
      level[i] = std::max(below[i], below[i + half]);
    most.push_back(std::move(level));
  }
  std::vector<int64_t> result;
  for (const Buffer &buffer : buffers) {
    auto begin = std::lower_bound(steps.begin(), steps.end(), buffer.first),
         end = std::upper_bound(begin, steps.end(), buffer.last);
    size_t at = begin - steps.begin(), count = end - begin, level = 0;
    while (size_t(2) << level <= count)
      ++level;
    result.push_back(
        count == 0
            ? 0
            : std::max({int64_t(0), most[level][at],
                        most[level][at + count - (size_t(1) << level)]}));
  }
  return result;
}

void ArenaPlanner::plan() {
  // Live bytes at the busiest step of each lifetime.
  std::vector<int64_t> pressure = busiest();

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
  // No order is always best: by size packs well, by start is exact for chains,
  // by lifetime puts long-lived buffers at the bottom, and by peak usage places
  // the busiest steps without obstacles.
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
  // Local search near the best order, deterministic and in bounded time.
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
