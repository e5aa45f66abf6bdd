//===- BackwardOps.h - the backward pass of a step --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_BACKWARDOPS_H
#define MPC_ANALYSIS_BACKWARDOPS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace mpc {

/// Marks a constant that stands where a seed of a loss stood.
inline constexpr llvm::StringLiteral kSeedAttr = "gradient_seed";

/// The ops of the backward pass: what depends on the seeds of losses, up to
/// where these are divided out again or an update reads it.
llvm::DenseSet<mlir::Operation *> findBackward(mlir::func::FuncOp func);

} // namespace mpc

#endif // MPC_ANALYSIS_BACKWARDOPS_H
