//===- SlidingWindowCache.cpp - sliding-window KV cache -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SlidingWindowCache.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <optional>

using namespace mpc;

/// Allocates zeros in the memory of the stream's device.
static Result<Buffer> makeZeros(const Stream &stream,
                                const mpc::TensorType &type) {
  Result<Buffer> zeros = Buffer::allocate(type);
  if (!zeros.ok() || !stream.device().hasOwnMemory())
    return zeros;
  Result<Buffer> own = Buffer::allocateOn(stream, type);
  if (!own.ok())
    return own;
  if (Status status = own->copyFrom(*zeros, stream); !status.ok())
    return status;
  if (Status status = stream.synchronize(); !status.ok())
    return status;
  return own;
}

Result<std::vector<SlidingWindowCache>>
SlidingWindowCache::create(const Stream &stream,
                           std::span<const mpc::TensorType> types,
                           int64_t slack) {
  std::vector<SlidingWindowCache> caches;
  int64_t size = 0;
  for (const mpc::TensorType &type : types) {
    SlidingWindowCache &cache = caches.emplace_back(SlidingWindowCache(stream));
    cache.type = type;
    cache.slack = slack;
    cache.start = size_t(size);
    cache.firstWritten = cache.endWritten = type.shape[0];
    mpc::TensorType whole = type;
    std::optional<int64_t> bytes;
    if (!__builtin_add_overflow(type.shape[0], slack, &whole.shape[0]))
      bytes = whole.byteCount();
    constexpr auto kAlignment = int64_t(kBufferAlignment);
    if (!bytes || *bytes > INT64_MAX - kAlignment ||
        __builtin_add_overflow(
            size, (*bytes + kAlignment - 1) / kAlignment * kAlignment, &size))
      return Status(StatusCode::ResourceExhausted, "cache",
                    "rows of " + type.toString() +
                        " and the other caches do not fit in memory");
    cache.rowBytes = *bytes / whole.shape[0];
  }
  // Unused rows are masked by zero weights, so they must be finite.
  Result<Buffer> memory = makeZeros(stream, {ElementType::I8, {size}});
  if (!memory.ok())
    return memory.status();
  for (SlidingWindowCache &cache : caches)
    cache.memory = *memory;
  return caches;
}

Status SlidingWindowCache::copyRows(std::span<const SlidingWindowCache> from,
                                    std::span<SlidingWindowCache> to,
                                    int64_t rows, int64_t dropped) {
  if (rows == 0)
    return {};
  for (size_t i = 0; i < from.size(); ++i) {
    int64_t end = from[i].type.shape[0];
    assert(rows + dropped <= end && "copies rows outside of the window");
    assert(to[i].begin == 0 && "copies to a cache that is not empty");
    Result<Buffer> source =
        from[i].part(from[i].begin + end - dropped - rows, rows);
    Result<Buffer> target = to[i].part(end - rows, rows);
    if (!source.ok() || !target.ok())
      return source.ok() ? target.status() : source.status();
    to[i].firstWritten = end - rows;
    if (Status status = target->copyFrom(*source, from[i].stream); !status.ok())
      return status;
  }
  return {};
}

void SlidingWindowCache::clear() {
  std::ranges::fill(memory.as<std::byte>().subspan(
                        start + size_t(firstWritten * rowBytes),
                        size_t((endWritten - firstWritten) * rowBytes)),
                    std::byte(0));
  begin = 0;
  firstWritten = endWritten = type.shape[0];
}

Result<Buffer> SlidingWindowCache::part(int64_t first, int64_t rows) const {
  mpc::TensorType partType = type;
  partType.shape[0] = rows;
  size_t from = start + size_t(first * rowBytes);
  size_t bytes = size_t(rows * rowBytes);
  if (memory.onDevice())
    return Buffer::fromDevice(stream.device(), partType,
                              memory.address() + from, bytes);
  return Buffer::fromHost(partType, memory.as<std::byte>().subspan(from, bytes),
                          HostMemory::Borrow);
}

Result<Buffer> SlidingWindowCache::window(int64_t more) {
  int64_t rows = type.shape[0];
  if (begin + more > slack) {
    // The window may overlap its destination.
    Result<Buffer> aside = Buffer::allocateOn(stream, type);
    if (!aside.ok())
      return aside;
    Result<Buffer> from = part(begin, rows), to = part(0, rows);
    if (!from.ok() || !to.ok())
      return from.ok() ? to : from;
    if (Status status = aside->copyFrom(*from, stream); !status.ok())
      return status;
    if (Status status = to->copyFrom(*aside, stream); !status.ok())
      return status;
    begin = firstWritten = 0;
  }
  endWritten = std::max(endWritten, begin + rows + more);
  return part(begin, rows + more);
}
