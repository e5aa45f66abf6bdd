//===- Buffer.cpp - tensors in host or device memory ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Buffer.h"

#include "DeviceImpl.h"
#include "mpc/Runtime/Stream.h"

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#ifdef __linux__
#include <sys/mman.h>
#endif

using namespace mpc;

std::shared_ptr<void> mpc::allocateAligned(size_t size) {
  // Large allocations are aligned to a huge page. The size is not rounded up,
  // which would waste memory in the last page.
  size_t alignment = size >= kHugePage ? kHugePage : kBufferAlignment;
  if (size > SIZE_MAX - kHugePage)
    return nullptr;
  size_t rounded =
      (size + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  if (rounded == 0)
    rounded = kBufferAlignment;
  void *memory = nullptr;
  if (posix_memalign(&memory, alignment, rounded) != 0)
    return nullptr;
#ifdef __linux__
  // Best effort: small pages also work.
  if (alignment == kHugePage)
    (void)madvise(memory, rounded, MADV_HUGEPAGE);
#endif
  return std::shared_ptr<void>(memory, std::free);
}

/// Returns the size of `type` in bytes, or an error.
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
    // A null pointer would read as "no buffer"; an empty tensor has an address.
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

//===----------------------------------------------------------------------===//
// Memory of devices
//===----------------------------------------------------------------------===//

/// Returns the owner to record in a buffer of `device`: null for host memory.
static std::shared_ptr<detail::DeviceImpl> ownerFor(const Device &device) {
  return device.hasOwnMemory() ? detail::DeviceAccess::impl(device) : nullptr;
}

Result<Buffer> Buffer::allocateOn(const Stream &stream,
                                  const TensorType &type) {
  if (!stream.device().hasOwnMemory())
    return allocate(type);
  Result<size_t> size = sizeOf(type);
  if (!size.ok())
    return size.status();
  Result<std::shared_ptr<void>> memory =
      detail::DeviceAccess::impl(stream.device())
          ->allocate(*size, detail::DeviceAccess::impl(stream));
  if (!memory.ok())
    return memory.status();
  return Buffer(type, std::move(*memory), *size, ownerFor(stream.device()));
}

Result<Buffer> Buffer::fromDevice(const Device &device, const TensorType &type,
                                  uintptr_t address, size_t bytes,
                                  std::function<void()> onRelease) {
  auto data = std::span(std::bit_cast<const std::byte *>(address), bytes);
  if (address == 0 && bytes > 0)
    return Status(StatusCode::InvalidArgument, "buffer",
                  type.toString() + " was given no address");
  Result<Buffer> buffer =
      fromHost(type, data, HostMemory::Borrow, std::move(onRelease));
  if (buffer.ok())
    buffer->owner = ownerFor(device);
  return buffer;
}

Result<Buffer> Buffer::allocatePinned(const Device &device,
                                      const TensorType &type) {
  Result<size_t> size = sizeOf(type);
  if (!size.ok())
    return size.status();
  Result<std::shared_ptr<void>> memory =
      detail::DeviceAccess::impl(device)->allocatePinned(*size);
  if (!memory.ok())
    return memory.status();
  return Buffer(type, std::move(*memory), *size);
}

/// Fails unless bytes can be copied between the buffers through `stream`'s
/// device.
static Status checkCopy(const Buffer &to, const Buffer &from,
                        const Stream &stream) {
  if (!to || !from)
    return Status(StatusCode::InvalidArgument, "copy",
                  "one of the buffers is null");
  if (to.size() != from.size())
    return Status(StatusCode::InvalidArgument, "copy",
                  "the source has " + std::to_string(from.size()) +
                      " bytes, but the destination " +
                      std::to_string(to.size()));
  auto elsewhere = [&](const Buffer &buffer) {
    return buffer.onDevice() && detail::DeviceAccess::owner(buffer) !=
                                    detail::DeviceAccess::impl(stream.device());
  };
  if (elsewhere(to) || elsewhere(from))
    return Status(StatusCode::InvalidArgument, "copy",
                  "a buffer is not on the device of the stream, '" +
                      stream.device().name() + "'");
  return {};
}

Status Buffer::copyFrom(const Buffer &source, const Stream &stream) {
  if (Status status = checkCopy(*this, source, stream); !status.ok())
    return status;
  return detail::DeviceAccess::impl(stream.device())
      ->copy(bytes.get(), onDevice(), source.bytes.get(), source.onDevice(),
             byteSize, *detail::DeviceAccess::impl(stream));
}

Result<Buffer> Buffer::toHost(const Stream &stream) const {
  if (!*this)
    return Status(StatusCode::InvalidArgument, "copy", "the buffer is null");
  Result<Buffer> host = allocate(tensorType);
  if (!host.ok())
    return host;
  Status status = checkCopy(*host, *this, stream);
  if (status.ok())
    status = detail::DeviceAccess::impl(stream.device())
                 ->fetch(host->bytes.get(), bytes.get(), onDevice(), byteSize,
                         *detail::DeviceAccess::impl(stream));
  if (!status.ok())
    return status;
  return host;
}
