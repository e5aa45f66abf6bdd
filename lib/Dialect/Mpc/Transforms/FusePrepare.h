//===- FusePrepare.h - bring ops to where they fuse -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_FUSEPREPARE_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_FUSEPREPARE_H

#include "mpc/Target/TargetInfo.h"

#include "mlir/IR/Block.h"

namespace mpc {

/// Moves casts past movement and repeats ops for their readers, so that fewer
/// and narrower values lie between kernels. Changes no value.
void prepareFusion(mlir::Block &block, const TargetInfo &target);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_FUSEPREPARE_H
