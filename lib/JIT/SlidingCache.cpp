//===- SlidingCache.cpp - rows that move through one buffer ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SlidingCache.h"

#include <cstring>

using namespace mpc;

Result<SlidingCache> SlidingCache::create(const Stream &stream,
                                          const TensorType &type, int64_t axis,
                                          int64_t slack) {
  SlidingCache cache(stream);
  cache.type = type;
  cache.axis = axis;
  cache.slack = slack;
  cache.rows = type.shape[axis];
  cache.rowBytes = elementBytes(type.element);
  for (size_t i = 0; i < type.shape.size(); ++i)
    if (int64_t(i) < axis)
      cache.blocks *= type.shape[i];
    else if (int64_t(i) > axis)
      cache.rowBytes *= type.shape[i];
  TensorType whole{ElementType::UI8,
                   {(cache.blocks * cache.rows + slack) * cache.rowBytes}};
  // What no row has filled yet is hidden by zero weights, which only finite
  // numbers bear.
  Result<Buffer> zeros = Buffer::allocate(whole);
  if (!zeros.ok())
    return zeros.status();
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

Result<Buffer> SlidingCache::part(const Buffer &buffer, int64_t offset,
                                  const TensorType &partType) const {
  int64_t bytes = *partType.byteCount();
  if (buffer.onDevice())
    return Buffer::fromDevice(stream.device(), partType,
                              buffer.address() + offset, bytes);
  return Buffer::fromHost(
      partType,
      {reinterpret_cast<const std::byte *>(buffer.address()) + offset,
       size_t(bytes)},
      HostMemory::Borrow);
}

Result<Buffer> SlidingCache::window() const {
  return part(memory, begin * rowBytes, type);
}

Status SlidingCache::move(Buffer &to, int64_t toByte, const Buffer &from,
                          int64_t fromByte, int64_t bytes) const {
  if (!to.onDevice()) {
    std::memcpy(static_cast<char *>(to.data()) + toByte,
                static_cast<const char *>(from.data()) + fromByte, bytes);
    return {};
  }
  TensorType flat{ElementType::UI8, {bytes}};
  Result<Buffer> target = part(to, toByte, flat),
                 source = part(from, fromByte, flat);
  if (!target.ok())
    return target.status();
  if (!source.ok())
    return source.status();
  return target->copyFrom(*source, stream);
}

Status SlidingCache::append(const Buffer &more, int64_t count) {
  if (begin + count > slack) {
    // The window may overlap its new place.
    int64_t bytes = blocks * rows * rowBytes;
    Result<Buffer> aside =
        Buffer::allocateOn(stream, {ElementType::UI8, {bytes}});
    if (!aside.ok())
      return aside.status();
    if (Status status = move(*aside, 0, memory, begin * rowBytes, bytes);
        !status.ok())
      return status;
    if (Status status = move(memory, 0, *aside, 0, bytes); !status.ok())
      return status;
    begin = 0;
  }
  int64_t given = more.type().shape[axis];
  for (int64_t block = 0; block < blocks; ++block)
    if (Status status = move(memory, (begin + (block + 1) * rows) * rowBytes,
                             more, block * given * rowBytes, count * rowBytes);
        !status.ok())
      return status;
  begin += count;
  return {};
}

Result<SlidingCache> SlidingCache::copy() const {
  Result<SlidingCache> other = create(stream, type, axis, slack);
  if (!other.ok())
    return other;
  if (Status status =
          other->move(other->memory, 0, memory, 0, int64_t(memory.size()));
      !status.ok())
    return status;
  other->begin = begin;
  return other;
}
