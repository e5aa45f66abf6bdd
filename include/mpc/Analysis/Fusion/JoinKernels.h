//===- JoinKernels.h - horizontal fusion of kernels -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Horizontal fusion: mpc-join-kernels merges kernels after mpc-group-ops has
// grown them.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_FUSION_JOINKERNELS_H
#define MPC_ANALYSIS_FUSION_JOINKERNELS_H

#include "mpc/Analysis/Fusion/FusionGraph.h"
#include "mpc/Target/TargetInfo.h"

namespace mpc {

/// Returns true if a block can buffer rows of this shape (last dimension) while
/// a chain of softmaxes, extrema, sums and elementwise ops iterates over them.
bool joinsChainsOfRows(llvm::ArrayRef<int64_t> shape);

/// Fuses widening casts into their readers and, where the target supports it,
/// merges independent kernels into one launch.
void joinKernels(FusionGraph &graph, mlir::Block &block,
                 const TargetInfo &target);

} // namespace mpc

#endif // MPC_ANALYSIS_FUSION_JOINKERNELS_H
