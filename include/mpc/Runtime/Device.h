//===- Device.h - devices that run programs ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A shared handle to a device.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_DEVICE_H
#define MPC_RUNTIME_DEVICE_H

#include "mpc/Runtime/Status.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace mpc {

namespace detail {
class DeviceImpl;
struct DeviceAccess;
} // namespace detail

/// Executes tasks on a host's threads: calls `task(context, i)` once for each
/// `i` in [0, tasks), in any order and possibly concurrently, and returns when
/// all calls have returned. Called by the threads that run programs; must be
/// thread-safe and must not throw.
using ParallelFor = std::function<void(
    int64_t tasks, void (*task)(void *context, int64_t index), void *context)>;

struct CpuDeviceOptions {
  /// Maximum threads of one run, including the caller's; 0: availableCores().
  int threads = 0;
  /// The host's thread pool; null: a pool of sleeping threads that all CPU
  /// devices of the process share. Results do not depend on it.
  ParallelFor parallelFor = nullptr;
};

struct CudaDeviceOptions {
  /// Index of the GPU in the driver's order.
  int ordinal = 0;
  /// True to synchronize after every launch, so that a failing kernel is named.
  /// Costs about ten microseconds per launch; otherwise a failure names the
  /// program.
  bool checkLaunches = false;
  /// Threads that compile kernels without machine code for this GPU; 0: all
  /// cores.
  int compileThreads = 0;
};

/// A handle to a device. Copies share it; executables, streams and buffers of
/// its memory also keep it alive. Thread-safe.
class Device {
public:
  /// The CPU. Concurrent runs each use up to `threads` threads.
  static Result<Device> cpu(const CpuDeviceOptions &options = {});

  /// A GPU through the CUDA driver, which is loaded here with dlopen: a process
  /// without it links and starts. Uses the primary context, shared with the
  /// CUDA runtime and other libraries, and restores each calling thread's
  /// current context. The first call takes some tenths of a second.
  /// Unavailable, with the reason, if there is no driver, it is too old, or
  /// there is no such GPU. Each call creates a separate device with its own
  /// buffers and streams.
  static Result<Device> cuda(const CudaDeviceOptions &options = {});

  /// Accepts every program and executes nothing: results are zeros. For tests
  /// of hosts and of the runtime.
  static Device null();

  /// "cpu", "null", "cuda", or "cuda:1" for the second GPU.
  const std::string &name() const;
  /// Target architecture of its kernels: "sm_90a"; empty for non-GPUs.
  const std::string &architecture() const;
  /// Returns true if its memory is not the host's: asynchronous runs then take
  /// device buffers (Stream.h, Buffer::allocateOn).
  bool hasOwnMemory() const;
  /// Host threads of one run; 1 except for the CPU.
  int threads() const;
  /// Returns true if a launch without code is an error on this device.
  bool needsCode() const;

private:
  friend struct detail::DeviceAccess;
  explicit Device(std::shared_ptr<detail::DeviceImpl> impl)
      : impl(std::move(impl)) {}

  std::shared_ptr<detail::DeviceImpl> impl;
};

/// Returns the number of cores available to this process, at least 1: those in
/// the affinity mask of the calling thread, and at most the CPU quota of its
/// control groups (cgroup v2 cpu.max), rounded up.
int availableCores();

} // namespace mpc

#endif // MPC_RUNTIME_DEVICE_H
