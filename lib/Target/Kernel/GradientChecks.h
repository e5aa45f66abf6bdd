//===- GradientChecks.h - all_finite and global_norm ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to this folder.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_GRADIENTCHECKS_H
#define MPC_LIB_TARGET_KERNEL_GRADIENTCHECKS_H

#include "LoopKernels.h"

namespace mpc {

/// Creates the phases of an all_finite or global_norm, to be run in order; they
/// store the op's results in `memrefs`.
llvm::SmallVector<std::unique_ptr<Phase>>
makeCheckPhases(LoopContext &context, mlir::Operation *op,
                llvm::ArrayRef<mlir::Value> memrefs);

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_GRADIENTCHECKS_H
