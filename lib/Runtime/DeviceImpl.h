//===- DeviceImpl.h - interface of devices ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_DEVICEIMPL_H
#define MPC_LIB_RUNTIME_DEVICEIMPL_H

#include "mpc/Runtime/Buffer.h"
#include "mpc/Runtime/Device.h"
#include "mpc/Runtime/Executable.h"
#include "mpc/Runtime/Program.h"
#include "mpc/Runtime/Status.h"
#include "mpc/Runtime/Stream.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mpc::detail {

/// Base addresses of everything that a BufferRef can refer to, for one run.
struct Addresses {
  std::vector<void *> arguments;
  std::vector<void *> results;
  std::vector<void *> constants;
  void *arena = nullptr;
  /// Status words of Program::checks.
  void *checks = nullptr;

  void *resolve(const BufferRef &ref) const;
};

/// Implementation of a Stream. The base class is that of a host-memory device:
/// all work is synchronous.
class StreamImpl {
public:
  virtual ~StreamImpl() = default;
  virtual void *handle() const { return nullptr; }
  virtual Status synchronize() { return {}; }
  virtual Result<bool> finished() { return true; }
  virtual Status waitFor(void *event);
  virtual Status record(void *event);
  /// Makes later work wait for all work so far of another stream of the same
  /// device.
  virtual Status follow(StreamImpl &) { return {}; }
  virtual Status then(std::function<void(const Status &)> function);
};

class CollectiveThread;
class ResultMemory;

/// A program loaded on a device. Thread-safe; buffers are already checked
/// against the program.
class LoadedProgram {
public:
  virtual ~LoadedProgram() = default;
  /// Runs synchronously. Buffers may be in host memory. The milliseconds of
  /// `options`, if set, have one entry per launch.
  virtual Status run(std::span<const Buffer> arguments,
                     std::span<Buffer> results, const RunOptions &options) = 0;
  /// Enqueues on a stream of the same device. Buffers are in its memory.
  virtual Status enqueue(std::span<const Buffer> arguments,
                         std::span<Buffer> results, StreamImpl &stream) = 0;
  /// Enqueues runs that cycle through `sets`, at least one, synchronizes, and
  /// measures each in ms.
  virtual Status timeRuns(std::span<RunBuffers> sets, StreamImpl &stream,
                          std::span<double> milliseconds);

  /// Allocator of new results of Executable::run().
  std::shared_ptr<ResultMemory> results;
};

/// A kind of device. Thread-safe. A host-memory device implements `execute`;
/// others implement everything below.
class DeviceImpl {
public:
  virtual ~DeviceImpl() = default;
  virtual const std::string &name() const = 0;
  virtual int threads() const = 0;
  virtual bool needsCode() const = 0;
  /// Returns true if a launch without a host function is an error.
  virtual bool needsFunctions() const { return needsCode(); }
  virtual const std::string &architecture() const;
  /// Runs all launches of a validated program in order. `milliseconds` has one
  /// entry per launch or is empty. `messages` performs the collectives: it is
  /// called before each launch, and null if there are none.
  virtual Status execute(const Program &program, const Addresses &addresses,
                         CollectiveThread *messages,
                         std::span<double> milliseconds);

  virtual bool hasOwnMemory() const { return false; }
  /// Number of ranks of a device that performs collectives itself; 0: none.
  virtual int64_t ranks() const { return 0; }
  /// `self` is the shared handle to this device.
  virtual Result<std::shared_ptr<LoadedProgram>>
  load(std::shared_ptr<DeviceImpl> self,
       std::shared_ptr<const Program> program);
  virtual Result<std::shared_ptr<StreamImpl>> createStream();
  virtual Result<std::shared_ptr<StreamImpl>> wrapStream(void *handle);
  /// Stream-ordered device memory; the result keeps `stream` alive.
  virtual Result<std::shared_ptr<void>>
  allocate(size_t bytes, std::shared_ptr<StreamImpl> stream);
  virtual Result<std::shared_ptr<void>> allocatePinned(size_t bytes);
  /// Enqueues a copy; the flags select the side in device memory.
  virtual Status copy(void *to, bool toDevice, const void *from,
                      bool fromDevice, size_t bytes, StreamImpl &stream);
  /// Copies to host memory and synchronizes the stream, also on failure, so
  /// that nothing writes there afterwards.
  virtual Status fetch(void *to, const void *from, bool fromDevice,
                       size_t bytes, StreamImpl &stream);
};

/// Loads a program on a host-memory device, with pooled intermediate memory.
std::shared_ptr<LoadedProgram>
loadOnHost(std::shared_ptr<DeviceImpl> device,
           std::shared_ptr<const Program> program);

/// Access to the implementations of public handles.
struct DeviceAccess {
  static Device make(std::shared_ptr<DeviceImpl> impl) {
    return Device(std::move(impl));
  }
  static const std::shared_ptr<DeviceImpl> &impl(const Device &device) {
    return device.impl;
  }
  static const std::shared_ptr<StreamImpl> &impl(const Stream &stream) {
    return stream.impl;
  }
  static const std::shared_ptr<DeviceImpl> &owner(const Buffer &buffer) {
    return buffer.owner;
  }
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_DEVICEIMPL_H
