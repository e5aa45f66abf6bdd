//===- CudaDriver.h - entry points of the CUDA driver -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The few functions of libcuda that enumeration needs, found at run time.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDADRIVER_H
#define MPC_LIB_RUNTIME_CUDADRIVER_H

#include "mpc/Runtime/Gpus.h"

#include <cstddef>

namespace mpc::detail {

/// Functions of the driver's public interface; a CUresult and a CUdevice are
/// ints. A table of its own so that tests can put another driver behind it.
struct CudaDriver {
  int (*init)(unsigned flags) = nullptr;
  int (*deviceGetCount)(int *count) = nullptr;
  int (*deviceGet)(int *device, int ordinal) = nullptr;
  int (*deviceGetName)(char *name, int length, int device) = nullptr;
  int (*deviceGetAttribute)(int *value, int attribute, int device) = nullptr;
  int (*deviceTotalMem)(size_t *bytes, int device) = nullptr;
  /// May be null.
  int (*getErrorName)(int error, const char **name) = nullptr;
};

/// Loads `library` and finds the functions. The library stays loaded.
Result<CudaDriver> loadCudaDriver(const char *library);

/// Lists the driver's GPUs; Unavailable where it has none.
Result<std::vector<GpuInfo>> listGpus(const CudaDriver &driver);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDADRIVER_H
