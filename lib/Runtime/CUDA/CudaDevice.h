//===- CudaDevice.h - CUDA device -------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_CUDADEVICE_H
#define MPC_LIB_RUNTIME_CUDA_CUDADEVICE_H

#include "../DeviceImpl.h"
#include "CollectiveBackend.h"
#include "CudaContext.h"
#include "GemmLibrary.h"

namespace mpc::detail {

/// Services of a device outside of the driver.
struct CudaServices {
  /// Compiles all of a program's kernels for one architecture.
  std::function<Result<std::vector<CudaCode::Binary>>(
      const CudaCode &code, const std::string &architecture)>
      compile;
  /// Opens the GEMM library. Empty: there is none.
  std::function<Result<std::shared_ptr<GemmLibrary>>(
      std::shared_ptr<CudaContext> context)>
      openGemmLibrary;
  /// Connects the GPUs of data-parallel ranks; collective. Empty: programs with
  /// collectives are refused.
  std::function<Result<std::shared_ptr<CollectiveBackend>>(
      std::shared_ptr<CudaContext> context)>
      joinRanks = {};
  /// Number of ranks that this connects; 0 without it.
  int64_t ranks = 0;
};

Result<std::shared_ptr<DeviceImpl>>
createCudaDevice(const CudaDriver &driver, const CudaDeviceOptions &options,
                 CudaServices services);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_CUDADEVICE_H
