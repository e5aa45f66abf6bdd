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

/// The last rows of a tensor along one axis, to whose end rows are appended
/// without moving the others: the tensor is a window that slides through a
/// longer buffer by one row for each. What a row leaves at the front of one
/// block, the block before it fills at its end. Only where the window has come
/// to the end of the buffer it moves back to its start, once in `slack` rows.
///
/// One thread at a time.
class SlidingCache {
public:
  /// Zeros of `type` in the memory of `stream`'s device. `axis` numbers the
  /// rows; `slack`, at least 1, is the most that one append() takes.
  static Result<SlidingCache> create(const Stream &stream,
                                     const TensorType &type, int64_t axis,
                                     int64_t slack);

  /// The rows now. Refers to memory of the cache, until the next append().
  Result<Buffer> window() const;

  /// Appends the first `count` rows of each block of `rows`, which has the
  /// window's type but for the extent along the axis. As many of the oldest go.
  Status append(const Buffer &rows, int64_t count);

  /// The same rows in memory of their own.
  Result<SlidingCache> copy() const;

private:
  explicit SlidingCache(const Stream &stream) : stream(stream) {}
  /// `bytes` of `buffer` from `offset` as `type`.
  Result<Buffer> part(const Buffer &buffer, int64_t offset,
                      const TensorType &type) const;
  /// Copies elements' bytes between buffers, or inside of one, where they do
  /// not overlap.
  Status move(Buffer &to, int64_t toByte, const Buffer &from, int64_t fromByte,
              int64_t bytes) const;

  Stream stream;
  Buffer memory;
  TensorType type;
  int64_t axis = 0, slack = 0;
  /// Blocks before the axis, rows of each in the window, bytes of a row.
  int64_t blocks = 1, rows = 0, rowBytes = 0;
  /// The row of the buffer at which the window begins.
  int64_t begin = 0;
};

} // namespace mpc

#endif // MPC_LIB_JIT_SLIDINGCACHE_H
