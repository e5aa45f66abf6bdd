//===- Stream.h - in-order queues of a device -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Queues for asynchronous runs and copies.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_STREAM_H
#define MPC_RUNTIME_STREAM_H

#include "mpc/Runtime/Device.h"

#include <functional>
#include <memory>

namespace mpc {

namespace detail {
class StreamImpl;
} // namespace detail

/// An in-order queue of work, like a CUDA stream. Copies of the handle share
/// the queue. Thread-safe; concurrent enqueues are ordered arbitrarily. On a
/// host-memory device all work is synchronous.
class Stream {
public:
  /// Creates a stream, concurrent with all others. Destroying its last copy
  /// does not block: enqueued work still completes.
  static Result<Stream> create(const Device &device);

  /// Wraps the host program's stream, on a GPU a CUstream of the device's
  /// primary context (that of the CUDA runtime; null is the default stream).
  /// The host keeps ownership and must keep it alive until all enqueued work is
  /// done and all buffers allocated on it are released. InvalidArgument on a
  /// device without handles.
  static Result<Stream> fromHandle(const Device &device, void *handle);

  const Device &device() const { return on; }
  /// The CUstream; null on a device without handles.
  void *handle() const;

  /// Blocks until all work so far is done; returns its failure, if any.
  Status synchronize() const;
  /// Returns true if all work so far is done. Does not block.
  Result<bool> finished() const;

  /// Makes later work wait for the host program's event (a CUevent).
  Status waitFor(void *event) const;
  /// Records the host program's event (a CUevent) after all work so far.
  Status record(void *event) const;
  /// Makes later work wait for all work so far of `other`, a stream of the same
  /// GPU. Does not block.
  Status waitFor(const Stream &other) const;

  /// Calls `function` once with the outcome, after all work so far. It runs on
  /// a driver thread and blocks the stream, so it must be short, must not call
  /// mpc or CUDA, and must not release the last copy of a buffer. Not called if
  /// this call fails.
  Status then(std::function<void(const Status &)> function) const;

private:
  friend struct detail::DeviceAccess;
  Stream(Device device, std::shared_ptr<detail::StreamImpl> impl)
      : on(std::move(device)), impl(std::move(impl)) {}

  Device on;
  std::shared_ptr<detail::StreamImpl> impl;
};

} // namespace mpc

#endif // MPC_RUNTIME_STREAM_H
