//===- Gpus.h - enumeration of GPUs -----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Queries the CUDA driver, which is loaded on demand and need not exist.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_GPUS_H
#define MPC_RUNTIME_GPUS_H

#include "mpc/Runtime/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mpc {

/// Properties of one GPU.
struct GpuInfo {
  std::string name;
  /// Compute capability; 9.0 is {9, 0}.
  int major = 0, minor = 0;
  int multiprocessors = 0;
  int64_t memoryBytes = 0;
  int64_t l2Bytes = 0;
  /// Maximum clocks, in kHz, and memory bus width, in bits.
  int64_t clockKhz = 0, memoryClockKhz = 0, memoryBusBits = 0;

  /// "9.0".
  std::string computeCapability() const;
  /// "sm_90".
  std::string architecture() const;
};

/// Lists the GPUs in the driver's order. Takes up to some tenths of a second;
/// thread-safe. Unavailable, with the reason, if there is no driver or no GPU.
/// Creates no context.
Result<std::vector<GpuInfo>> listGpus();

} // namespace mpc

#endif // MPC_RUNTIME_GPUS_H
