//===- HostDevice.h - the CUDA emulator as a runtime device -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs GPU programs on the CPU: HostKernel.h executes generated kernels, a
// reference routine replaces library GEMMs.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_HOST_HOSTDEVICE_H
#define MPC_TARGET_CUDA_HOST_HOSTDEVICE_H

#include "mpc/Runtime/Device.h"
#include "mpc/Target/CUDA/Host/HostKernel.h"

#include <functional>
#include <string>

namespace mpc {

struct HostDeviceOptions {
  /// Emulated GPU architecture: programs are compiled for it.
  std::string architecture = "sm_80";
  /// Compiled kernels are cached in `kernels.cacheFolder`, or in the user's
  /// cache if that is empty.
  HostKernelOptions kernels = {};
  ThreadOrder order = ThreadOrder::Ascending;
  /// Maximum number of concurrent compiler processes; 0: one per core.
  int threads = 0;
  /// Called, possibly from several threads, if the cache folder is not used
  /// because other users can write to it: once per folder and process.
  std::function<void(const Status &)> onWarning = {};
};

/// Creates a device named "cuda-host", for tests. Running a program needs a
/// host compiler and takes seconds per new kernel. Runs of one executable are
/// serialized: ranks that are threads need one executable each.
Device cudaHostDevice(const HostDeviceOptions &options = {});

} // namespace mpc

#endif // MPC_TARGET_CUDA_HOST_HOSTDEVICE_H
