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

/// A part of it, for GPUs: lets sums over all rows read the matrix that a
/// product reads of the same values, so that one kernel has one operand for
/// both.
void sumMatrices(mlir::Block &block);

/// Brings reshapes from behind the arithmetic of updates to before it, so that
/// all of that has the shape of the parameter and is one kernel.
void reshapeBeforeUpdates(mlir::Block &block);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_FUSEPREPARE_H
