//===- HorizontalFusion.h - horizontal fusion of kernels --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Horizontal fusion: mpc-fuse-horizontal merges kernels after
// mpc-select-fusion-groups has grown them.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_FUSION_HORIZONTALFUSION_H
#define MPC_ANALYSIS_FUSION_HORIZONTALFUSION_H

#include "mpc/Analysis/Fusion/FusionGraph.h"
#include "mpc/Target/TargetInfo.h"

namespace mpc {

/// Returns true if a block can buffer rows of this shape (last dimension) while
/// a chain of softmaxes, extrema, sums and elementwise ops iterates over them.
bool canBufferRowChains(llvm::ArrayRef<int64_t> shape);

/// Fuses widening casts into their readers and, where the target supports it,
/// merges independent kernels into one launch.
void fuseHorizontal(FusionGraph &graph, mlir::Block &block,
                    const TargetInfo &target);

} // namespace mpc

#endif // MPC_ANALYSIS_FUSION_HORIZONTALFUSION_H
