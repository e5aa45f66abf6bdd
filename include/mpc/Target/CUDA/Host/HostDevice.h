//===- HostDevice.h - the device cuda-host ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs for GPUs on the host: HostKernel.h runs each kernel's text, a plain
// routine the products of libraries.
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
  /// The GPU that it stands for: programs are planned for it.
  std::string architecture = "sm_80";
  /// Compiled kernels are kept in `kernels.cacheFolder`; where that is empty,
  /// in the user's cache.
  HostKernelOptions kernels = {};
  ThreadOrder order = ThreadOrder::Ascending;
  /// Compilers that run at once; 0: one per core.
  int threads = 0;
  /// Called, possibly from several threads, where the cache's folder is not
  /// used because another user could have put code there: once per folder and
  /// process.
  std::function<void(const Status &)> onWarning = {};
};

/// A device of name "cuda-host". Needs a host compiler where a program is run,
/// and takes seconds for its kernels the first time. Runs of an executable are
/// done one after another: ranks that are threads need one each. For tests.
Device cudaHostDevice(const HostDeviceOptions &options = {});

} // namespace mpc

#endif // MPC_TARGET_CUDA_HOST_HOSTDEVICE_H
