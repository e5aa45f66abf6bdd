//===- SlidingCache.h - rows that move through one buffer -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_SLIDINGCACHE_H
#define MPC_LIB_JIT_SLIDINGCACHE_H

#include "mpc/Runtime/Buffer.h"
#include "mpc/Runtime/Stream.h"

namespace mpc {

/// The last rows of a sequence, the first dimension of a tensor, in a buffer
/// that is a little longer. Whoever appends rows writes them behind the window,
/// which then slides on; only where it has come to the end of the buffer, its
/// rows move back to the start.
///
/// One thread at a time.
class SlidingCache {
public:
  /// Zeros of `type` in the memory of `stream`'s device, and room for `slack`
  /// rows behind them.
  static Result<SlidingCache> create(const Stream &stream,
                                     const TensorType &type, int64_t slack);

  /// The rows now and `more` behind them, at most the slack, to be written.
  /// Refers to memory of the cache, until the next call.
  Result<Buffer> window(int64_t more);

  /// Takes the first `count` of the rows that were written behind the window
  /// for its last ones. As many of the oldest go.
  void slide(int64_t count) { begin += count; }

  /// The same rows in memory of their own.
  Result<SlidingCache> copy() const;

private:
  explicit SlidingCache(const Stream &stream) : stream(stream) {}
  /// `rows` of `buffer` from `first` as `type`, whose first extent they become.
  Result<Buffer> part(const Buffer &buffer, int64_t first, int64_t rows) const;

  Stream stream;
  Buffer memory;
  TensorType type;
  int64_t slack = 0, rowBytes = 0;
  /// The row of the buffer at which the window begins.
  int64_t begin = 0;
};

} // namespace mpc

#endif // MPC_LIB_JIT_SLIDINGCACHE_H
