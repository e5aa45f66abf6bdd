//===- Buffer.cpp - tensors in memory -------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Buffer.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

using namespace mpc;

std::shared_ptr<void> mpc::allocateAligned(size_t size) {
  if (size > SIZE_MAX - kBufferAlignment)
    return nullptr;
  size_t rounded =
      (size + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  if (rounded == 0)
    rounded = kBufferAlignment;
  void *memory = std::aligned_alloc(kBufferAlignment, rounded);
  if (!memory)
    return nullptr;
  return std::shared_ptr<void>(memory, std::free);
}

/// Bytes of `type`, or why it has none.
static Result<size_t> sizeOf(const TensorType &type) {
  std::optional<int64_t> bytes = type.byteCount();
  if (!bytes)
    return Status(StatusCode::InvalidArgument, "buffer",
                  "type " + type.toString() +
                      " has no size that fits in memory");
  return static_cast<size_t>(*bytes);
}

Result<Buffer> Buffer::allocate(const TensorType &type) {
  Result<size_t> size = sizeOf(type);
  if (!size.ok())
    return size.status();
  std::shared_ptr<void> memory = allocateAligned(*size);
  if (!memory)
    return Status(StatusCode::ResourceExhausted, "buffer",
                  "no memory for " + std::to_string(*size) + " bytes of " +
                      type.toString());
  std::memset(memory.get(), 0, *size);
  return Buffer(type, std::move(memory), *size);
}

Result<Buffer> Buffer::fromHost(const TensorType &type,
                                std::span<const std::byte> data,
                                HostMemory semantics,
                                std::function<void()> onRelease) {
  Result<size_t> size = sizeOf(type);
  if (!size.ok())
    return size.status();
  if (data.size() != *size)
    return Status(StatusCode::InvalidArgument, "buffer",
                  type.toString() + " takes " + std::to_string(*size) +
                      " bytes, but " + std::to_string(data.size()) +
                      " were given");
  if (semantics == HostMemory::Copy) {
    std::shared_ptr<void> memory = allocateAligned(*size);
    if (!memory)
      return Status(StatusCode::ResourceExhausted, "buffer",
                    "no memory for " + std::to_string(*size) + " bytes of " +
                        type.toString());
    if (*size)
      std::memcpy(memory.get(), data.data(), *size);
    return Buffer(type, std::move(memory), *size);
  }
  auto address = reinterpret_cast<uintptr_t>(data.data());
  if (address % static_cast<uintptr_t>(elementBytes(type.element)) != 0)
    return Status(StatusCode::InvalidArgument, "buffer",
                  "borrowed memory for " + type.toString() +
                      " is not aligned to an element; "
                      "copy it instead");
  if (*size == 0) {
    // A null handle would read as "no buffer"; an empty tensor has an address.
    std::shared_ptr<void> memory = allocateAligned(0);
    if (!memory)
      return Status(StatusCode::ResourceExhausted, "buffer",
                    "no memory for an empty buffer");
    if (onRelease)
      onRelease();
    return Buffer(type, std::move(memory), 0);
  }
  std::shared_ptr<void> memory(const_cast<std::byte *>(data.data()),
                               [release = std::move(onRelease)](void *) {
                                 if (release)
                                   release();
                               });
  return Buffer(type, std::move(memory), *size);
}
