//===- ArenaPlanner.h - places in one arena ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gives buffers with known lifetimes offsets in one block of memory.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_EXE_TRANSFORMS_ARENAPLANNER_H
#define MPC_DIALECT_EXE_TRANSFORMS_ARENAPLANNER_H

#include <cstdint>
#include <map>
#include <vector>

namespace mpc {

/// Buffers that live at the same time never overlap; all start aligned. One
/// placement takes time in the number of pairs of buffers that live at the same
/// time; a few orders are tried, and up to 2000 more while the bound is not
/// reached, fewer for many buffers. Equal buffers get equal places. Values, no
/// IR: usable anywhere.
class ArenaPlanner {
public:
  explicit ArenaPlanner(int64_t alignment) : alignment(alignment) {}

  /// Adds a buffer that is in use from step `first` to step `last`, both
  /// included, and returns its number. `bytes` may be 0.
  int64_t add(int64_t bytes, int64_t first, int64_t last);

  /// Places every buffer; call once, after the last add.
  void plan();

  /// Offset of a buffer, and bytes of the arena, after plan.
  int64_t offsetOf(int64_t buffer) const { return buffers[buffer].offset; }
  int64_t arenaBytes() const { return total; }
  /// The largest sum of bytes in use at one step: no plan needs less.
  int64_t lowerBound() const;

private:
  struct Buffer {
    int64_t bytes, first, last, offset;
  };
  /// Bytes in use from each step on at which that changes.
  std::map<int64_t, int64_t> usage() const;
  /// Of each buffer: the most bytes in use at one step of its life.
  std::vector<int64_t> busiest() const;
  class InUse;
  /// Places buffers in this order, each at the lowest offset that is free for
  /// its whole life, and returns the arena's size.
  int64_t place(const std::vector<int64_t> &order);

  int64_t alignment;
  int64_t total = 0;
  std::vector<Buffer> buffers;
};

} // namespace mpc

#endif // MPC_DIALECT_EXE_TRANSFORMS_ARENAPLANNER_H
