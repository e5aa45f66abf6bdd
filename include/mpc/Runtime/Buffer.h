//===- Buffer.h - tensors in host or device memory --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A shared handle to the bytes of one tensor.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_BUFFER_H
#define MPC_RUNTIME_BUFFER_H

#include "mpc/Runtime/Device.h"
#include "mpc/Runtime/Status.h"
#include "mpc/Runtime/TensorType.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace mpc {

class Stream;

/// Ownership of host memory passed by a caller.
enum class HostMemory {
  /// The bytes are copied before the call returns.
  Copy,
  /// The buffer refers to the caller's bytes, which must stay alive and
  /// unchanged (writable if the buffer is an output) until the buffer's last
  /// copy is destroyed.
  Borrow,
};

/// Alignment of every mpc allocation, in bytes.
inline constexpr size_t kBufferAlignment = 64;
/// Huge-page size of x86-64 and AArch64 (with 4 KB base pages), in bytes;
/// alignment of allocations of at least this size.
inline constexpr size_t kHugePage = size_t(2) << 20;

/// A handle to the bytes of one tensor: contiguous, row-major, in host or
/// device memory. Copies of the handle share the bytes, which live as long as
/// the last copy. The handle may pass between threads; the caller synchronizes
/// concurrent writes to the bytes. A default-constructed handle is null.
class Buffer {
public:
  Buffer() = default;

  /// Allocates zero-filled host memory. Fails if the size of `type` overflows
  /// or allocation fails.
  static Result<Buffer> allocate(const TensorType &type);

  /// Creates a buffer of `type` from `data`, which must have exactly the type's
  /// size and, if borrowed, the alignment of one element. `onRelease` runs
  /// once, when a borrowing buffer's last copy is destroyed, on that thread.
  static Result<Buffer> fromHost(const TensorType &type,
                                 std::span<const std::byte> data,
                                 HostMemory semantics = HostMemory::Copy,
                                 std::function<void()> onRelease = {});

  /// Copies `values` to a new buffer of `type`. `T` must have the element's
  /// size.
  template <typename T>
  static Result<Buffer> fromValues(const TensorType &type,
                                   std::span<const T> values) {
    return fromHost(type, std::as_bytes(values));
  }

  /// Stream-ordered allocation in the memory of `stream`'s device: may be used
  /// by work enqueued there afterwards, and is freed, without waiting, in
  /// stream order when the last copy is destroyed. Uninitialized. On a
  /// host-memory device the same as allocate().
  static Result<Buffer> allocateOn(const Stream &stream,
                                   const TensorType &type);

  /// Wraps device memory of the caller: `bytes` at `address` (a CUdeviceptr),
  /// aligned to one element. Kernels use 16-byte loads: memory with less
  /// alignment is copied on the GPU in every run. The memory must outlive the
  /// last copy of the handle and all work on it; `onRelease` then runs as for
  /// fromHost().
  static Result<Buffer> fromDevice(const Device &device, const TensorType &type,
                                   uintptr_t address, size_t bytes,
                                   std::function<void()> onRelease = {});

  /// Allocates page-locked host memory for direct copies from and to `device`.
  /// Uninitialized. A scarce resource: for buffers that are reused often.
  static Result<Buffer> allocatePinned(const Device &device,
                                       const TensorType &type);

  /// Enqueues a copy of `source` to this buffer. One of the two may be in host
  /// memory; if that is pageable, the call may synchronize the stream. Both
  /// must stay alive and `source` unchanged until the copy is done. The sizes
  /// must be equal.
  Status copyFrom(const Buffer &source, const Stream &stream);

  /// Copies to host memory after the work on `stream`. Synchronizes the stream.
  Result<Buffer> toHost(const Stream &stream) const;

  explicit operator bool() const { return bytes != nullptr; }
  const TensorType &type() const { return tensorType; }
  size_t size() const { return byteSize; }
  /// Returns true if the bytes are in device memory.
  bool onDevice() const { return owner != nullptr; }
  /// Address of the first byte, in host or device memory.
  uintptr_t address() const { return reinterpret_cast<uintptr_t>(bytes.get()); }
  /// Pointer to the bytes; null for device memory.
  void *data() { return owner ? nullptr : bytes.get(); }
  const void *data() const { return owner ? nullptr : bytes.get(); }
  /// Elements as `T`, which must have the element's size; empty for device
  /// memory.
  template <typename T> std::span<T> as() {
    return {static_cast<T *>(data()), owner ? 0 : byteSize / sizeof(T)};
  }
  template <typename T> std::span<const T> as() const {
    return {static_cast<const T *>(data()), owner ? 0 : byteSize / sizeof(T)};
  }

private:
  friend struct detail::DeviceAccess;
  Buffer(TensorType type, std::shared_ptr<void> bytes, size_t byteSize,
         std::shared_ptr<detail::DeviceImpl> owner = nullptr)
      : tensorType(std::move(type)), owner(std::move(owner)),
        bytes(std::move(bytes)), byteSize(byteSize) {}

  TensorType tensorType;
  /// Device whose memory this is; null for host memory.
  std::shared_ptr<detail::DeviceImpl> owner;
  std::shared_ptr<void> bytes;
  size_t byteSize = 0;
};

/// Allocates `size` bytes aligned to kBufferAlignment; null on failure.
/// Allocates at least one byte; 2 MB and more use transparent huge pages where
/// madvise() enables them.
std::shared_ptr<void> allocateAligned(size_t size);

} // namespace mpc

#endif // MPC_RUNTIME_BUFFER_H
