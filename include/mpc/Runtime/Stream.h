//===- Stream.h - work in order on a device ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where asynchronous runs and copies are enqueued.
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

/// A queue of work: what is enqueued later runs later. Copies of the handle
/// share the queue. All members may be called from any thread; what two threads
/// enqueue at once comes in some order. On a device in host memory all work is
/// done before the enqueuing call returns.
class Stream {
public:
  /// A new stream, which runs beside all others. Its last copy's end waits for
  /// nothing: enqueued work is still done.
  static Result<Stream> create(const Device &device);

  /// The host program's own stream, on a GPU a CUstream of the device's primary
  /// context (the one of the CUDA runtime; null is the default stream). It
  /// stays the host's, which keeps it until everything enqueued here is done
  /// and every buffer allocated on it is gone. InvalidArgument on a device that
  /// has no handles.
  static Result<Stream> fromHandle(const Device &device, void *handle);

  const Device &device() const { return on; }
  /// The CUstream; null on a device without handles.
  void *handle() const;

  /// Waits until all work so far is done; gives its failure, if any.
  Status synchronize() const;
  /// Whether all work so far is done. Does not wait.
  Result<bool> finished() const;

  /// What is enqueued later waits for the host program's event (a CUevent).
  Status waitFor(void *event) const;
  /// Records the host program's event (a CUevent) behind all work so far.
  Status record(void *event) const;
  /// What is enqueued later waits for all work so far of `other`, a stream of
  /// the same GPU. Waits for nothing itself.
  Status waitFor(const Stream &other) const;

  /// Calls `function` once, after all work so far, with its outcome. It runs on
  /// a thread of the driver and holds up the stream, so it must be short and
  /// call nothing of mpc or CUDA, nor drop the last copy of a buffer. Where
  /// this call fails, `function` is not called.
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
