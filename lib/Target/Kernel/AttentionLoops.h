//===- AttentionLoops.h - fallback attention, a row per item ----*- C++ -*-===//
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
class AttentionOp;

/// Creates the phase that stores the result of `op` in `memref`; an item is a
/// row.
std::unique_ptr<Phase> makeAttentionPhase(LoopContext &context, AttentionOp op,
                                          mlir::Value memref);

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_ATTENTIONLOOPS_H
