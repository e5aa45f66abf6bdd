//===- JoinKernels.h - kernels that run as one ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The second half of grouping, which mpc-join-kernels runs once all kernels
// have grown.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_FUSION_JOINKERNELS_H
#define MPC_ANALYSIS_FUSION_JOINKERNELS_H

#include "mpc/Analysis/Fusion/FusionGraph.h"
#include "mpc/Target/TargetInfo.h"

namespace mpc {

/// Whether rows of a tensor of this shape, along its last dimension, stay in a
/// block while softmaxes, extrema, sums and what is made of them walk over
/// them.
bool joinsChainsOfRows(llvm::ArrayRef<int64_t> shape);

/// Gives widening casts to their readers; where the target runs kernels that
/// stand side by side as one launch, makes these one group.
void joinKernels(FusionGraph &graph, mlir::Block &block,
                 const TargetInfo &target);

} // namespace mpc

#endif // MPC_ANALYSIS_FUSION_JOINKERNELS_H
