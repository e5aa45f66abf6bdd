//===- IgnoredTargets.h - means over valid targets --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRAINING_IGNOREDTARGETS_H
#define MPC_LIB_DIALECT_MPC_TRAINING_IGNOREDTARGETS_H

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"

namespace mpc {
class GradientSeedOp;

/// Data-parallel losses with `ignore_index`. Ranks ignore different numbers of
/// targets, so the mean is over the valid targets of all ranks: gradients then
/// sum to those of one device with the global batch.
class IgnoredTargets {
public:
  IgnoredTargets(const StepFunction &step, int64_t ranks)
      : step(step), ranks(ranks) {}

  /// All-reduces the divisors of gradients that start at `seed`, in one message
  /// before the step, and rescales a returned loss so that its mean over ranks
  /// is the loss of the global batch. Other gradients from `seed` start at
  /// `share` instead. Emits an error at a loss without a recognized divisor.
  llvm::LogicalResult join(GradientSeedOp seed, mlir::Value share);

private:
  /// Divisions of `seed` by a value computed from labels only.
  llvm::SmallVector<DivOp> meansOf(GradientSeedOp seed) const;
  /// Returns true if `value` depends on labels and no other argument.
  bool followsFromLabels(mlir::Value value) const;
  /// Moves the producers of `value` after `last`, the last op moved to the
  /// start of the block so far (null for none): the message then overlaps with
  /// the forward pass.
  void moveToFront(mlir::Value value, mlir::Operation *&last) const;
  /// Returns the rank's contribution to the loss, computed as a mean over `own`
  /// of `all` targets.
  mlir::Value partOf(mlir::Value loss, mlir::Value own, mlir::Value all) const;

  const StepFunction &step;
  const int64_t ranks;
};

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRAINING_IGNOREDTARGETS_H
