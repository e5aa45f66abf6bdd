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
} // namespace detail

struct CpuDeviceOptions {
  /// Most threads that one run uses, the caller's included; 0 means all cores
  /// that the process may use.
  int threads = 0;
};

/// A handle to a device. Copies share it; it lives as long as its last copy,
/// and an Executable keeps one. All members may be called from any thread.
class Device {
public:
  /// The processor. Concurrent runs each use up to `threads` threads.
  static Result<Device> cpu(const CpuDeviceOptions &options = {});

  /// Accepts every program and runs nothing: results are zeros. For tests of
  /// hosts and of the runtime itself.
  static Device null();

  /// "cpu" or "null".
  const std::string &name() const;
  /// Threads of one run; 1 for the null device.
  int threads() const;
  /// Whether a launch without code is an error on this device.
  bool needsCode() const;

private:
  friend class Executable;
  explicit Device(std::shared_ptr<detail::DeviceImpl> impl)
      : impl(std::move(impl)) {}

  std::shared_ptr<detail::DeviceImpl> impl;
};

/// Cores that this process may use, at least 1.
int availableCores();

} // namespace mpc

#endif // MPC_RUNTIME_DEVICE_H
