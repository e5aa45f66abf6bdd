//===- CudaDevice.h - a GPU by the CUDA driver ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_CUDADEVICE_H
#define MPC_LIB_RUNTIME_CUDA_CUDADEVICE_H

#include "../DeviceImpl.h"
#include "CudaContext.h"
#include "GemmLibrary.h"
#include "RankLibrary.h"

namespace mpc::detail {

/// What a device needs from outside of the driver.
struct CudaServices {
  /// Machine code of all of a program's kernels for one architecture.
  std::function<Result<std::vector<CudaCode::Binary>>(
      const CudaCode &code, const std::string &architecture)>
      compile;
  /// Opens the library for matrix products. Empty: there is none.
  std::function<Result<std::shared_ptr<GemmLibrary>>(
      std::shared_ptr<CudaContext> context)>
      openGemmLibrary;
  /// Joins the GPUs of the ranks that train together; all ranks call it. Empty:
  /// programs with messages are refused.
  std::function<Result<std::shared_ptr<RankLibrary>>(
      std::shared_ptr<CudaContext> context)>
      joinRanks = {};
  /// How many ranks that joins; 0 without it.
  int64_t ranks = 0;
};

Result<std::shared_ptr<DeviceImpl>>
createCudaDevice(const CudaDriver &driver, const CudaDeviceOptions &options,
                 CudaServices services);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_CUDADEVICE_H
