//===- DeviceImpl.h - what a device implements ------------------*- C++ -*-===//
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

/// Start addresses of everything that a BufferRef can name, for one run.
struct Addresses {
  std::vector<void *> arguments;
  std::vector<void *> results;
  std::vector<void *> constants;
  void *arena = nullptr;
  /// Words of Program::checks.
  void *checks = nullptr;

  void *resolve(const BufferRef &ref) const;
};

/// What a Stream shares. This one is a device's in host memory: all work is
/// done before the call that enqueues it returns.
class StreamImpl {
public:
  virtual ~StreamImpl() = default;
  virtual void *handle() const { return nullptr; }
  virtual Status synchronize() { return {}; }
  virtual Result<bool> finished() { return true; }
  virtual Status waitFor(void *event);
  virtual Status record(void *event);
  /// Lets later work here wait for all work so far of a stream of the same
  /// device.
  virtual Status follow(StreamImpl &) { return {}; }
  virtual Status then(std::function<void(const Status &)> function);
};

class Collectives;
class ResultMemory;

/// A program made ready on a device. Members may be called from several threads
/// at once; buffers are checked against the program.
class LoadedProgram {
public:
  virtual ~LoadedProgram() = default;
  /// Runs and waits. Buffers may lie in host memory. The milliseconds of
  /// `options`, where set, have one entry per launch.
  virtual Status run(std::span<const Buffer> arguments,
                     std::span<Buffer> results, const RunOptions &options) = 0;
  /// Enqueues on a stream of the same device. Buffers lie in its memory.
  virtual Status enqueue(std::span<const Buffer> arguments,
                         std::span<Buffer> results, StreamImpl &stream) = 0;
  /// Enqueues runs on `sets`, at least one, in turn, waits, and gives the
  /// milliseconds of each.
  virtual Status timeRuns(std::span<RunBuffers> sets, StreamImpl &stream,
                          std::span<double> milliseconds);

  /// Where Executable::run() takes new results from.
  std::shared_ptr<ResultMemory> results;
};

/// One kind of device. Members may be called from several threads at once. A
/// device in host memory implements `execute`; another one everything below.
class DeviceImpl {
public:
  virtual ~DeviceImpl() = default;
  virtual const std::string &name() const = 0;
  virtual int threads() const = 0;
  virtual bool needsCode() const = 0;
  /// Whether a launch without a function of the host's is an error.
  virtual bool needsFunctions() const { return needsCode(); }
  virtual const std::string &architecture() const;
  /// Runs all launches of a validated program in order. `milliseconds` has one
  /// entry per launch or is empty. `messages` does those with a collective:
  /// it is reached before each launch, and null where a program has none.
  virtual Status execute(const Program &program, const Addresses &addresses,
                         Collectives *messages, std::span<double> milliseconds);

  virtual bool hasOwnMemory() const { return false; }
  /// How many ranks' messages a device with memory of its own sends; 0: none.
  virtual int64_t ranks() const { return 0; }
  /// `self` is the shared handle to this device.
  virtual Result<std::shared_ptr<LoadedProgram>>
  load(std::shared_ptr<DeviceImpl> self,
       std::shared_ptr<const Program> program);
  virtual Result<std::shared_ptr<StreamImpl>> createStream();
  virtual Result<std::shared_ptr<StreamImpl>> wrapStream(void *handle);
  /// Memory of the device in the order of `stream`, which the result keeps.
  virtual Result<std::shared_ptr<void>>
  allocate(size_t bytes, std::shared_ptr<StreamImpl> stream);
  virtual Result<std::shared_ptr<void>> allocatePinned(size_t bytes);
  /// Enqueues a copy; the flags say which side lies on this device.
  virtual Status copy(void *to, bool toDevice, const void *from,
                      bool fromDevice, size_t bytes, StreamImpl &stream);
  /// Copies to host memory and waits for the stream; nothing writes there
  /// afterwards, whatever fails.
  virtual Status fetch(void *to, const void *from, bool fromDevice,
                       size_t bytes, StreamImpl &stream);
};

/// A program on a device in host memory: intermediate memory from a pool.
std::shared_ptr<LoadedProgram>
loadOnHost(std::shared_ptr<DeviceImpl> device,
           std::shared_ptr<const Program> program);

/// What the public handles hold.
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
