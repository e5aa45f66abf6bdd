//===- NcclLibrary.h - NCCL for a device ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_NCCLLIBRARY_H
#define MPC_LIB_RUNTIME_CUDA_NCCLLIBRARY_H

#include "CudaContext.h"
#include "Nccl.h"
#include "RankLibrary.h"

#include "mpc/Runtime/Communicator.h"

#include <memory>

namespace mpc::detail {

/// Joins the GPUs of all ranks of `group`, which tells them where to meet; all
/// call it. `nccl` is how this rank found the library: where one rank has none,
/// all fail. The context is current.
Result<std::shared_ptr<RankLibrary>>
joinNccl(const Result<const Nccl *> &nccl, std::shared_ptr<CudaContext> context,
         Communicator &group);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_NCCLLIBRARY_H
