//===- Decompose.h - the rewrites of mpc-decompose --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_DECOMPOSE_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_DECOMPOSE_H

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include "llvm/ADT/DenseMap.h"

namespace mpc {

/// The longest sequence that is unrolled where nothing is said.
inline constexpr int64_t kUnrolledSteps = 1024;

/// The values that stand for the results of the recurrent op `op`, computed
/// step by step before it; empty for any other op.
llvm::SmallVector<mlir::Value> unrollRecurrent(mlir::OpBuilder &builder,
                                               mlir::Operation *op);

/// The same for `recurrence` and `recurrence_training`.
llvm::SmallVector<mlir::Value> unrollRecurrence(mlir::OpBuilder &builder,
                                                mlir::Operation *op);
/// The same for `recurrence_gradient`.
llvm::SmallVector<mlir::Value>
unrollRecurrenceGradient(mlir::OpBuilder &builder, mlir::Operation *op);

/// The values that stand for the results of `lstm`, `gru` or `rnn`: a product
/// and a recurrence, which keeps what its gradient reads where `keeps` says so.
/// For `recurrence` with `keeps`, those of a `recurrence_training`.
llvm::SmallVector<mlir::Value> splitRecurrent(mlir::OpBuilder &builder,
                                              mlir::Operation *op, bool keeps);

/// The values that stand for the results of an optimizer, learning_rate or
/// loss_scale.update, computed before it; empty for any other op.
llvm::SmallVector<mlir::Value> decomposeUpdate(mlir::OpBuilder &builder,
                                               mlir::Operation *op);

/// Of each channel of a batch.
struct ChannelStatistics {
  mlir::Value mean, variance, root;
};

/// The statistics that earlier decompositions of a function have computed, by
/// the tensor that they are of and the bits of the epsilon in the root.
using SharedStatistics =
    llvm::DenseMap<std::pair<mlir::Value, uint64_t>, ChannelStatistics>;

/// The values that stand for the results of batch_norm_training or the gradient
/// of a norm, computed before it; empty for any other op. On several ranks a
/// batch norm has the statistics of all their batches, which have one size.
llvm::SmallVector<mlir::Value> decomposeNorm(mlir::OpBuilder &builder,
                                             mlir::Operation *op,
                                             SharedStatistics &shared,
                                             int64_t ranks = 1);

/// The values that stand for the results of a loss, dropout, a seed or the
/// gradient of attention, computed before it; empty for any other op.
llvm::SmallVector<mlir::Value> decomposeTraining(mlir::OpBuilder &builder,
                                                 mlir::Operation *op);

/// The value of `op`, computed before it: a product where windows only touch,
/// one convolution for each remainder of positions by the stride else.
mlir::Value decomposeConvTranspose(ConvTransposeOp op);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_DECOMPOSE_H
