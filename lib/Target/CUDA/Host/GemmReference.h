//===- GemmReference.h - reference for library GEMMs ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_HOST_GEMMREFERENCE_H
#define MPC_LIB_TARGET_CUDA_HOST_GEMMREFERENCE_H

#include "mpc/Runtime/Gemm.h"
#include "mpc/Runtime/Status.h"
#include "mpc/Support/NarrowFloat.h"

#include <span>

namespace mpc {

/// Returns the format of an 8-bit float type.
inline const NarrowFloat &narrowFloatOf(ElementType type) {
  return type == ElementType::F8E5M2 ? kFloat8E5M2 : kFloat8E4M3FN;
}

/// Computes what cuBLASLt would for `problem`, without a GPU: f64 accumulation,
/// rounded to f32 before the epilogue (not for f64 operands). `buffers` are
/// host addresses in the problem's order. Simple, not fast: about 10^9
/// multiplications per second and core, on all cores. Ignores permission to
/// split f32 operands into bf16. Returns InvalidArgument for an invalid problem
/// or wrong buffers.
Status computeGemm(const GemmProblem &problem, std::span<void *const> buffers);

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_HOST_GEMMREFERENCE_H
