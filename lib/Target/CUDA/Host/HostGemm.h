//===- HostGemm.h - a library's products on the host ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_HOST_HOSTGEMM_H
#define MPC_LIB_TARGET_CUDA_HOST_HOSTGEMM_H

#include "mpc/Runtime/Gemm.h"
#include "mpc/Runtime/Status.h"

#include <span>

namespace mpc::host {

/// Computes a product where no library is: written to be read, for tests.
/// `buffers` are the problem's in order. Unavailable for types that are no
/// floats.
Status runGemm(const GemmProblem &problem, std::span<void *const> buffers);

} // namespace mpc::host

#endif // MPC_LIB_TARGET_CUDA_HOST_HOSTGEMM_H
