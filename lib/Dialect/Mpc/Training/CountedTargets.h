//===- CountedTargets.h - means over targets that count ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRAINING_COUNTEDTARGETS_H
#define MPC_LIB_DIALECT_MPC_TRAINING_COUNTEDTARGETS_H

#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"

namespace mpc {

/// Losses that leave out targets (`ignore_index`) in a step of several ranks.
/// Each rank leaves out another number: what ranks divide by is how many
/// targets count on all of them together, so that gradients add up to those of
/// one device with the whole batch, and begin with the same numbers.
class CountedTargets {
public:
  CountedTargets(const StepFunction &step, int64_t ranks)
      : step(step), ranks(ranks) {}

  /// Makes divisors of gradients that begin at `seed` the sums over all ranks,
  /// by one message in front of the step, and a returned loss a rank's part of
  /// the whole batch's, `ranks` times: the mean over ranks is that of one
  /// device. What else begins at `seed` begins at `share` instead. Fails with a
  /// diagnostic at a loss whose divisor is not found.
  llvm::LogicalResult join(GradientSeedOp seed, mlir::Value share);

private:
  /// Divisions of `seed` by a number that follows from labels alone.
  llvm::SmallVector<DivOp> meansOf(GradientSeedOp seed) const;
  /// Whether `value` depends on labels, and on no other argument.
  bool followsFromLabels(mlir::Value value) const;
  /// Moves what `value` follows from, and then the op that makes it, behind
  /// `last`, the last op that has been moved to the beginning, null for none:
  /// the message runs beside the forward pass.
  void moveToFront(mlir::Value value, mlir::Operation *&last) const;
  /// A rank's part of the loss, which it computed as a mean over `own` targets
  /// of `all`.
  mlir::Value partOf(mlir::Value loss, mlir::Value own, mlir::Value all) const;

  const StepFunction &step;
  const int64_t ranks;
};

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRAINING_COUNTEDTARGETS_H
