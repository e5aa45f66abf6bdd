//===- AttentionLoops.h - attention, one item per query row -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to this folder.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_ATTENTIONLOOPS_H
#define MPC_LIB_TARGET_KERNEL_ATTENTIONLOOPS_H

#include "LoopKernels.h"

namespace mpc {

/// Writes the result of `op` to `memref`; an item is a row of it.
std::unique_ptr<Phase> makeAttentionPhase(LoopContext &context, AttentionOp op,
                                          mlir::Value memref);

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_ATTENTIONLOOPS_H
