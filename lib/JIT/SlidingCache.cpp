//===- SlidingCache.cpp - rows that move through one buffer ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SlidingCache.h"

using namespace mpc;

Result<SlidingCache> SlidingCache::create(const Stream &stream,
                                          const TensorType &type,
                                          int64_t slack) {
  SlidingCache cache(stream);
  cache.type = type;
  cache.slack = slack;
  TensorType whole = type;
  whole.shape[0] += slack;
  // What no row has filled yet is hidden by zero weights, which only finite
  // numbers bear.
  Result<Buffer> zeros = Buffer::allocate(whole);
  if (!zeros.ok())
    return zeros.status();
  cache.rowBytes = int64_t(zeros->size()) / whole.shape[0];
  cache.memory = std::move(*zeros);
  if (stream.device().hasOwnMemory()) {
    Result<Buffer> own = Buffer::allocateOn(stream, whole);
    if (!own.ok())
      return own.status();
    if (Status status = own->copyFrom(cache.memory, stream); !status.ok())
      return status;
    if (Status status = stream.synchronize(); !status.ok())
      return status;
    cache.memory = std::move(*own);
  }
  return cache;
}

Result<Buffer> SlidingCache::part(const Buffer &buffer, int64_t first,
                                  int64_t rows) const {
  TensorType partType = type;
  partType.shape[0] = rows;
  uintptr_t address = buffer.address() + uintptr_t(first * rowBytes);
  size_t bytes = size_t(rows * rowBytes);
  if (buffer.onDevice())
    return Buffer::fromDevice(stream.device(), partType, address, bytes);
  return Buffer::fromHost(partType,
                          {reinterpret_cast<const std::byte *>(address), bytes},
                          HostMemory::Borrow);
}

Result<Buffer> SlidingCache::window(int64_t more) {
  int64_t rows = type.shape[0];
  if (begin + more > slack) {
    // The window may overlap its new place.
    Result<Buffer> aside = Buffer::allocateOn(stream, type);
    if (!aside.ok())
      return aside;
    Result<Buffer> from = part(memory, begin, rows), to = part(memory, 0, rows);
    if (!from.ok() || !to.ok())
      return from.ok() ? to : from;
    if (Status status = aside->copyFrom(*from, stream); !status.ok())
      return status;
    if (Status status = to->copyFrom(*aside, stream); !status.ok())
      return status;
    begin = 0;
  }
  return part(memory, begin, rows + more);
}

Result<SlidingCache> SlidingCache::copy() const {
  Result<SlidingCache> other = create(stream, type, slack);
  if (!other.ok())
    return other;
  if (Status status = other->memory.copyFrom(memory, stream); !status.ok())
    return status;
  other->begin = begin;
  return other;
}
