//===- Buffer.h - tensors in memory -----------------------------*- C++ -*-===//
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

/// What becomes of host memory that a caller hands over.
enum class HostMemory {
  /// The bytes are copied before the call returns.
  Copy,
  /// The buffer refers to the bytes; the caller keeps them alive and unchanged
  /// (writable where the buffer is an output) until the buffer's last copy is
  /// gone.
  Borrow,
};

/// Every allocation of mpc starts at a multiple of this.
inline constexpr size_t kBufferAlignment = 64;
/// What x86-64 and AArch64 (with base pages of 4 KB) map by one entry where
/// they can. Memory of so many bytes and more begins at a multiple of them.
inline constexpr size_t kHugePage = size_t(2) << 20;

/// A handle to the bytes of one tensor: contiguous, row-major, in host memory
/// or on a device that has memory of its own. Copies of the handle share the
/// bytes, which live as long as the last copy. The handle may pass between
/// threads; concurrent writes to the bytes are the caller's to order. A
/// default-made handle is null.
class Buffer {
public:
  Buffer() = default;

  /// Zero-filled memory for `type`. Fails where the type has no size or memory
  /// is refused.
  static Result<Buffer> allocate(const TensorType &type);

  /// A buffer of `type` with the bytes of `data`, which must be exactly the
  /// type's size and, when borrowed, aligned to one element. `onRelease` runs
  /// once, when a borrowing buffer's last copy goes, on that thread.
  static Result<Buffer> fromHost(const TensorType &type,
                                 std::span<const std::byte> data,
                                 HostMemory semantics = HostMemory::Copy,
                                 std::function<void()> onRelease = {});

  /// `values` copied into a buffer of `type`. `T` must have the element's size.
  template <typename T>
  static Result<Buffer> fromValues(const TensorType &type,
                                   std::span<const T> values) {
    return fromHost(type, std::as_bytes(values));
  }

  /// Memory of `stream`'s device, in the order of the stream: it may be used by
  /// what is enqueued there from now on, and is given back, without waiting,
  /// behind what was enqueued there when the last copy goes. Not cleared. On a
  /// device in host memory the same as allocate().
  static Result<Buffer> allocateOn(const Stream &stream,
                                   const TensorType &type);

  /// Memory of the caller's on `device`: `bytes` from `address` (a
  /// CUdeviceptr), aligned to one element. A GPU's kernels load 16 bytes at
  /// once: what is aligned to less is copied on the GPU in every run. The
  /// caller keeps the memory until the last copy of the handle is gone and all
  /// work on it is done; `onRelease` then runs as for fromHost().
  static Result<Buffer> fromDevice(const Device &device, const TensorType &type,
                                   uintptr_t address, size_t bytes,
                                   std::function<void()> onRelease = {});

  /// Host memory that `device` copies from and to without a stop in between
  /// (page-locked). Not cleared. A scarce good: for buffers that are used
  /// often.
  static Result<Buffer> allocatePinned(const Device &device,
                                       const TensorType &type);

  /// Enqueues a copy of `source`'s bytes into this buffer. One of the two may
  /// lie in host memory; where that is not page-locked, the call may wait for
  /// the stream. Both must stay alive and `source` unchanged until the stream
  /// has passed. The sizes must agree.
  Status copyFrom(const Buffer &source, const Stream &stream);

  /// A copy in host memory of what `stream` has computed. Waits for the stream.
  Result<Buffer> toHost(const Stream &stream) const;

  explicit operator bool() const { return bytes != nullptr; }
  const TensorType &type() const { return tensorType; }
  size_t size() const { return byteSize; }
  /// Whether the bytes lie in a device's own memory.
  bool onDevice() const { return owner != nullptr; }
  /// Address of the first byte, in host memory or in the device's.
  uintptr_t address() const { return reinterpret_cast<uintptr_t>(bytes.get()); }
  /// The bytes; null where they lie on a device.
  void *data() { return owner ? nullptr : bytes.get(); }
  const void *data() const { return owner ? nullptr : bytes.get(); }
  /// The elements as `T`, which must have the element's size; none where they
  /// lie on a device.
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
  /// The device whose own memory this is; null for host memory.
  std::shared_ptr<detail::DeviceImpl> owner;
  std::shared_ptr<void> bytes;
  size_t byteSize = 0;
};

/// `size` bytes at a multiple of kBufferAlignment, or null where memory is
/// refused. At least one byte is allocated; 2 MB and more lie on huge pages
/// where the system gives them on request.
std::shared_ptr<void> allocateAligned(size_t size);

} // namespace mpc

#endif // MPC_RUNTIME_BUFFER_H
