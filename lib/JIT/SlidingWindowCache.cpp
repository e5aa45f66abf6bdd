//===- SlidingWindowCache.cpp - sliding-window KV cache -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SlidingWindowCache.h"

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

Result<std::vector<SlidingWindowCache>>
SlidingWindowCache::copy(std::span<const SlidingWindowCache> caches,
                         int64_t rows, int64_t dropped) {
  if (caches.empty())
    return std::vector<SlidingWindowCache>();
  const Stream &stream = caches.front().stream;
  std::vector<mpc::TensorType> types;
  for (const SlidingWindowCache &cache : caches)
    types.push_back(cache.type);
  Result<std::vector<SlidingWindowCache>> copies =
      create(stream, types, caches.front().slack);
  if (!copies.ok() || rows == 0)
    return copies;
  for (size_t i = 0; i < caches.size(); ++i) {
    int64_t end = caches[i].type.shape[0];
    assert(rows + dropped <= end && "copies rows outside of the window");
    Result<Buffer> from =
        caches[i].part(caches[i].begin + end - dropped - rows, rows);
    Result<Buffer> to = (*copies)[i].part(end - rows, rows);
    if (!from.ok() || !to.ok())
      return from.ok() ? to.status() : from.status();
    if (Status status = to->copyFrom(*from, stream); !status.ok())
      return status;
  }
  return copies;
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
    begin = 0;
  }
  return part(begin, rows + more);
}
