//===- ArenaPlanner.h - static memory planning ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Assigns offsets in one arena to buffers with known lifetimes.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_EXE_TRANSFORMS_ARENAPLANNER_H
#define MPC_DIALECT_EXE_TRANSFORMS_ARENAPLANNER_H

#include <cstdint>
#include <map>
#include <vector>

namespace mpc {

/// Static memory planner (offset assignment by greedy best fit over several
/// orders). Buffers with overlapping lifetimes never overlap; all are aligned.
/// A placement takes time linear in the pairs of simultaneously live buffers;
/// tries a few orders and, until the lower bound is reached, up to 2000 more,
/// fewer for many buffers. Deterministic. Independent of IR.
class ArenaPlanner {
public:
  explicit ArenaPlanner(int64_t alignment) : alignment(alignment) {}

  /// Adds a buffer that is live in steps [`first`, `last`] and returns its
  /// index. `bytes` may be 0.
  int64_t add(int64_t bytes, int64_t first, int64_t last);

  /// Computes all offsets; call once, after the last add.
  void plan();

  /// Offset of a buffer and size of the arena, in bytes; valid after plan.
  int64_t offsetOf(int64_t buffer) const { return buffers[buffer].offset; }
  int64_t arenaBytes() const { return total; }
  /// Maximum of the live bytes over all steps, a lower bound of the arena size.
  int64_t lowerBound() const;

private:
  struct Buffer {
    int64_t bytes, first, last, offset;
  };
  /// Live bytes at each step where they change.
  std::map<int64_t, int64_t> usage() const;
  /// Maximum live bytes during each buffer's lifetime.
  std::vector<int64_t> busiest() const;
  class InUse;
  /// Places buffers in this order, each at the lowest offset that is free
  /// during its lifetime, and returns the arena's size.
  int64_t place(const std::vector<int64_t> &order);

  int64_t alignment;
  int64_t total = 0;
  std::vector<Buffer> buffers;
};

} // namespace mpc

#endif // MPC_DIALECT_EXE_TRANSFORMS_ARENAPLANNER_H
