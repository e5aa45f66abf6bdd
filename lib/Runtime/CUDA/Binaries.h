//===- Binaries.h - machine code for a GPU ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which machine code runs on which GPU.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_BINARIES_H
#define MPC_LIB_RUNTIME_CUDA_BINARIES_H

#include "mpc/Runtime/Gpus.h"
#include "mpc/Runtime/Program.h"

#include <string>
#include <vector>

namespace mpc::detail {

/// Whether machine code for `architecture` ("sm_80", "sm_90a") runs on a GPU:
/// plain code on its own and later minors of the same major, code with a suffix
/// on its own alone.
bool runsOn(const std::string &architecture, const GpuInfo &gpu);

/// What code that is made for this GPU is compiled for.
std::string nativeArchitecture(const GpuInfo &gpu);

/// Of the architectures that have all kernels of `code` in `binaries` and run
/// on `gpu`, the binaries of the newest; none where there is no such
/// architecture.
std::vector<const CudaCode::Binary *> chooseBinaries(const CudaCode &code,
                                                     const GpuInfo &gpu);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_BINARIES_H
