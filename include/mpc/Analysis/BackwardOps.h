//===- BackwardOps.h - ops of the backward pass -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_BACKWARDOPS_H
#define MPC_ANALYSIS_BACKWARDOPS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace mpc {

/// Marks a constant that replaced the seed (initial cotangent) of a loss.
inline constexpr llvm::StringLiteral kSeedAttr = "gradient_seed";

/// Returns the ops of the backward pass: everything from a loss seed to the
/// division that removes it or the update that reads the gradient.
llvm::DenseSet<mlir::Operation *> findBackward(mlir::func::FuncOp func);

} // namespace mpc

#endif // MPC_ANALYSIS_BACKWARDOPS_H
