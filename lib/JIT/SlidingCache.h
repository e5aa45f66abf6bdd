//===- SlidingCache.h - rows that move through one buffer -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_SLIDINGCACHE_H
#define MPC_LIB_JIT_SLIDINGCACHE_H

#include "mpc/Runtime/Buffer.h"
#include "mpc/Runtime/Stream.h"

#include <span>
#include <vector>

namespace mpc {

/// The last rows of a sequence, the first dimension of a tensor, in memory that
/// is a little longer. Whoever appends rows writes them behind the window,
/// which then slides on; only where it has come to the end of the memory, its
/// rows move back to the start.
///
/// One thread at a time; so for all that were made together.
class SlidingCache {
public:
  /// Zeros of each of `types` in the memory of `stream`'s device, and room for
  /// `slack` rows behind them. All lie in one allocation: caches of a megabyte
  /// would be on small pages by themselves, which take longer to look up than
  /// their rows to read.
  static Result<std::vector<SlidingCache>>
  create(const Stream &stream, std::span<const TensorType> types,
         int64_t slack);

  /// The same rows as those of `caches`, which were made together, in memory of
  /// their own.
  static Result<std::vector<SlidingCache>>
  copy(std::span<const SlidingCache> caches);

  /// The rows now and `more` behind them, at most the slack, to be written.
  /// Refers to memory of the cache, until the next call.
  Result<Buffer> window(int64_t more);

  /// Takes the first `count` of the rows that were written behind the window
  /// for its last ones. As many of the oldest go.
  void slide(int64_t count) { begin += count; }

private:
  explicit SlidingCache(const Stream &stream) : stream(stream) {}
  /// `rows` of the cache from `first` as `type`, whose first extent they
  /// become.
  Result<Buffer> part(int64_t first, int64_t rows) const;

  Stream stream;
  /// What all share, and where this one begins in it.
  Buffer memory;
  size_t start = 0;
  TensorType type;
  int64_t slack = 0, rowBytes = 0;
  /// The row at which the window begins.
  int64_t begin = 0;
};

} // namespace mpc

#endif // MPC_LIB_JIT_SLIDINGCACHE_H
