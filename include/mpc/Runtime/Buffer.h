//===- Buffer.h - tensors in memory -----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A shared handle to the bytes of one tensor.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_BUFFER_H
#define MPC_RUNTIME_BUFFER_H

#include "mpc/Runtime/Status.h"
#include "mpc/Runtime/TensorType.h"

#include <functional>
#include <memory>
#include <span>

namespace mpc {

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

/// A handle to the bytes of one tensor: contiguous, row-major, in host memory.
/// Copies of the handle share the bytes, which live as long as the last copy.
/// The handle may pass between threads; concurrent writes to the bytes are the
/// caller's to order. A default-made handle is null.
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

  explicit operator bool() const { return bytes != nullptr; }
  const TensorType &type() const { return tensorType; }
  void *data() { return bytes.get(); }
  const void *data() const { return bytes.get(); }
  size_t size() const { return byteSize; }
  /// The elements as `T`, which must have the element's size.
  template <typename T> std::span<T> as() {
    return {static_cast<T *>(data()), byteSize / sizeof(T)};
  }
  template <typename T> std::span<const T> as() const {
    return {static_cast<const T *>(data()), byteSize / sizeof(T)};
  }

private:
  Buffer(TensorType type, std::shared_ptr<void> bytes, size_t byteSize)
      : tensorType(std::move(type)), bytes(std::move(bytes)),
        byteSize(byteSize) {}

  TensorType tensorType;
  std::shared_ptr<void> bytes;
  size_t byteSize = 0;
};

/// `size` bytes at a multiple of kBufferAlignment, or null where memory is
/// refused. At least one byte is allocated.
std::shared_ptr<void> allocateAligned(size_t size);

} // namespace mpc

#endif // MPC_RUNTIME_BUFFER_H
