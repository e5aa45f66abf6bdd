//===- LargestMagnitudes.h - amax of stored tensors -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel of any family that also computes the largest magnitude of a tensor
// (amax, OperandSums.h), and scalars that follow from it. The family
// generates the kernel without these results. Threads take the maximum of the
// values that they store, blocks join theirs by an atomic maximum of bits,
// which is the same in any order and propagates NaN, and the last-arriving
// block computes the scalars. A tensor of which only this is read is not
// stored.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_PLAN_LARGESTMAGNITUDES_H
#define MPC_LIB_TARGET_CUDA_PLAN_LARGESTMAGNITUDES_H

#include "KernelPlan.h"

namespace mpc::cuda {

/// Plans `kernel` by `family`, with the largest magnitudes of tensors that the
/// kernel computes, if any, added to its code. Null if the family does not
/// support the kernel.
std::unique_ptr<KernelPlan> planWithMagnitudes(const KernelFamily &family,
                                               mlir::func::FuncOp kernel,
                                               const CudaTarget &target);

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_PLAN_LARGESTMAGNITUDES_H
