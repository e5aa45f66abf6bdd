//===- DeviceImpl.h - what a device implements ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_DEVICEIMPL_H
#define MPC_LIB_RUNTIME_DEVICEIMPL_H

#include "mpc/Runtime/Program.h"
#include "mpc/Runtime/Status.h"

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

  void *resolve(const BufferRef &ref) const;
};

/// One kind of device. `execute` may be called from several threads at once.
class DeviceImpl {
public:
  virtual ~DeviceImpl() = default;
  virtual const std::string &name() const = 0;
  virtual int threads() const = 0;
  virtual bool needsCode() const = 0;
  /// Runs all launches of a validated program in order. `milliseconds` has one
  /// entry per launch or is empty.
  virtual Status execute(const Program &program, const Addresses &addresses,
                         std::span<double> milliseconds) = 0;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_DEVICEIMPL_H
