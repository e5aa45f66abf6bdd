//===- CublasLibrary.h - cuBLASLt for a device ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_CUBLASLIBRARY_H
#define MPC_LIB_RUNTIME_CUDA_CUBLASLIBRARY_H

#include "CublasHandle.h"
#include "CudaContext.h"
#include "GemmLibrary.h"

#include <memory>
#include <string>

namespace mpc::detail {

/// Opens cuBLASLt on one GPU, whose context is current. `blas` lives as long as
/// the process. Autotuning results are cached in `cacheFolder`; empty: no
/// cache.
Result<std::shared_ptr<GemmLibrary>>
openBlasLibrary(const Blas &blas, std::shared_ptr<CudaContext> context,
                const std::string &cacheFolder);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_CUBLASLIBRARY_H
