//===- CubinSelection.h - selection of cubins for a GPU ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compatibility of machine code and GPUs.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_CUBINSELECTION_H
#define MPC_LIB_RUNTIME_CUDA_CUBINSELECTION_H

#include "mpc/Runtime/Gpus.h"
#include "mpc/Runtime/Program.h"

#include <string>
#include <vector>

namespace mpc::detail {

/// Returns true if machine code for `architecture` ("sm_80", "sm_90a") runs on
/// a GPU: generic code also on later minors of the same major, code with a
/// suffix only on its own architecture.
bool runsOn(const std::string &architecture, const GpuInfo &gpu);

/// Returns the architecture to compile for on this GPU.
std::string nativeArchitecture(const GpuInfo &gpu);

/// Returns the binaries of the newest architecture that has all kernels of
/// `code` and runs on `gpu`; empty if there is none.
std::vector<const CudaCode::Binary *> selectCubins(const CudaCode &code,
                                                   const GpuInfo &gpu);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_CUBINSELECTION_H
