//===- Device.h - where programs run ----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A shared handle to a device.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_DEVICE_H
#define MPC_RUNTIME_DEVICE_H

#include "mpc/Runtime/Status.h"

#include <memory>
#include <string>

namespace mpc {

namespace detail {
class DeviceImpl;
struct DeviceAccess;
} // namespace detail

struct CpuDeviceOptions {
  /// Most threads that one run uses, the caller's included; 0 means all cores
  /// that the process may use.
  int threads = 0;
};

struct CudaDeviceOptions {
  /// The GPU's number in the driver's order.
  int ordinal = 0;
  /// Waits after every launch, so that a kernel that fails is named. Costs some
  /// ten microseconds per launch; without it a failure names the program.
  bool checkLaunches = false;
  /// Threads that compile the kernels of an executable that has no machine code
  /// for this GPU; 0 means all cores.
  int compileThreads = 0;
};

/// A handle to a device. Copies share it; it lives as long as its last copy,
/// and executables, streams and buffers of its memory keep one. All members may
/// be called from any thread.
class Device {
public:
  /// The processor. Concurrent runs each use up to `threads` threads.
  static Result<Device> cpu(const CpuDeviceOptions &options = {});

  /// A GPU by the CUDA driver, which is loaded now: a process without it links
  /// and starts. Joins the context that the CUDA runtime and other libraries of
  /// the process use, and leaves each calling thread's current context as it
  /// was. Takes some tenths of a second the first time. Unavailable, with the
  /// reason, where there is no driver, one that is too old, or no such GPU.
  /// Each call gives a device of its own, whose buffers and streams are its own
  /// too.
  static Result<Device> cuda(const CudaDeviceOptions &options = {});

  /// Accepts every program and runs nothing: results are zeros. For tests of
  /// hosts and of the runtime itself.
  static Device null();

  /// "cpu", "null", "cuda" or, from the second GPU on, "cuda:1".
  const std::string &name() const;
  /// What kernels for it are compiled for: "sm_90a"; empty where it is no GPU.
  const std::string &architecture() const;
  /// Whether its memory is not the host's: asynchronous runs then take buffers
  /// that lie on it (Stream.h, Buffer::allocateOn).
  bool hasOwnMemory() const;
  /// Host threads of one run; 1 but for the processor.
  int threads() const;
  /// Whether a launch without code is an error on this device.
  bool needsCode() const;

private:
  friend struct detail::DeviceAccess;
  explicit Device(std::shared_ptr<detail::DeviceImpl> impl)
      : impl(std::move(impl)) {}

  std::shared_ptr<detail::DeviceImpl> impl;
};

/// Cores that this process may use, at least 1.
int availableCores();

} // namespace mpc

#endif // MPC_RUNTIME_DEVICE_H
