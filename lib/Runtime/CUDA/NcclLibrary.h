//===- NcclLibrary.h - collectives by NCCL ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_NCCLLIBRARY_H
#define MPC_LIB_RUNTIME_CUDA_NCCLLIBRARY_H

#include "CollectiveBackend.h"
#include "CudaContext.h"
#include "Nccl.h"

#include "mpc/Runtime/Communicator.h"

#include <memory>

namespace mpc::detail {

/// Connects the GPUs of all ranks of `group`, which exchanges the NCCL id;
/// collective. `nccl` is this rank's library: if one rank has none, all fail.
/// The context is current.
Result<std::shared_ptr<CollectiveBackend>>
joinNccl(const Result<const Nccl *> &nccl, std::shared_ptr<CudaContext> context,
         Communicator &group);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_NCCLLIBRARY_H
