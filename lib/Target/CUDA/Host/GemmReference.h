//===- GemmReference.h - library products on the host -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_HOST_GEMMREFERENCE_H
#define MPC_LIB_TARGET_CUDA_HOST_GEMMREFERENCE_H

#include "mpc/Runtime/Gemm.h"
#include "mpc/Runtime/Status.h"

#include <span>

namespace mpc {

/// What cuBLASLt computes for `problem`, where there is no GPU: sums in f64,
/// rounded to f32 (f64 operands: kept) before the epilogue. `buffers` are host
/// addresses in the problem's order. Written to be read, not to be fast: uses
/// all cores, some 10^9 multiplications per second each. f32 operands that may
/// be multiplied as bf16 terms are multiplied as they are. InvalidArgument for
/// a problem that has an obstacle or other buffers.
Status computeGemm(const GemmProblem &problem, std::span<void *const> buffers);

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_HOST_GEMMREFERENCE_H
