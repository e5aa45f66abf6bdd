//===- SlidingWindowCache.h - sliding-window KV cache -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_SLIDINGWINDOWCACHE_H
#define MPC_LIB_JIT_SLIDINGWINDOWCACHE_H

#include "mpc/Runtime/Buffer.h"
#include "mpc/Runtime/Stream.h"

#include <span>
#include <vector>

namespace mpc {

/// The last rows (first dimension) of a sequence in a buffer with slack. New
/// rows are written after the window, which then advances; at the end of the
/// buffer the rows are moved back to its start.
///
/// Not thread-safe, nor are caches that were created together.
class SlidingWindowCache {
public:
  /// Allocates zeros for each of `types` in the memory of `stream`'s device,
  /// with room for `slack` more rows each. All share one allocation, so that
  /// they get huge pages: caches of a megabyte would be on small pages, whose
  /// TLB misses take longer than reading the rows.
  static Result<std::vector<SlidingWindowCache>>
  create(const Stream &stream, std::span<const TensorType> types,
         int64_t slack);

  /// Copies the `rows` rows before the last `dropped` ones of `from` to the end
  /// of the windows of `to`, which are empty caches of the same types.
  static Status copyRows(std::span<const SlidingWindowCache> from,
                         std::span<SlidingWindowCache> to, int64_t rows,
                         int64_t dropped = 0);

  /// Makes the cache, which must be in host memory, as create() made it: sets
  /// the rows that were written to zero.
  void clear();

  /// Returns the current rows and `more` rows to write after them, at most the
  /// slack. Refers to the cache's memory; valid until the next call.
  Result<Buffer> window(int64_t more);

  /// Advances the window over the first `count` rows that were written after
  /// it, dropping as many of the oldest.
  void slide(int64_t count) { begin += count; }

private:
  explicit SlidingWindowCache(const Stream &stream) : stream(stream) {}
  /// Returns `rows` rows of the cache from `first` as a buffer of `type` with
  /// that first extent.
  Result<Buffer> part(int64_t first, int64_t rows) const;

  Stream stream;
  /// Shared allocation and the byte offset of this cache in it.
  Buffer memory;
  size_t start = 0;
  TensorType type;
  int64_t slack = 0, rowBytes = 0;
  /// First row of the window.
  int64_t begin = 0;
  /// Rows that were written: from `firstWritten` to before `endWritten`.
  int64_t firstWritten = 0, endWritten = 0;
};

} // namespace mpc

#endif // MPC_LIB_JIT_SLIDINGWINDOWCACHE_H
