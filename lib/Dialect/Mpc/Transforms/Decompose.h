//===- Decompose.h - rewrites of mpc-decompose ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_DECOMPOSE_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_DECOMPOSE_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "llvm/ADT/DenseMap.h"

namespace mpc {
class ConvTransposeOp;

/// Default maximum sequence length that is unrolled, in time steps.
inline constexpr int64_t kUnrolledSteps = 1024;

/// Inserts the unrolled steps of the recurrent op `op` before it and returns
/// the replacement values; empty for any other op.
llvm::SmallVector<mlir::Value> unrollRecurrent(mlir::OpBuilder &builder,
                                               mlir::Operation *op);

/// The same for `recurrence` and `recurrence_training`.
llvm::SmallVector<mlir::Value> unrollRecurrence(mlir::OpBuilder &builder,
                                                mlir::Operation *op);
/// The same for `recurrence_gradient`.
llvm::SmallVector<mlir::Value>
unrollRecurrenceGradient(mlir::OpBuilder &builder, mlir::Operation *op);

/// Splits `lstm`, `gru` or `rnn` into an input GEMM and a recurrence, which
/// saves the activations for its gradient if `keeps`. With `keeps`,
/// `recurrence` becomes `recurrence_training`. Returns the replacement values.
llvm::SmallVector<mlir::Value> splitRecurrent(mlir::OpBuilder &builder,
                                              mlir::Operation *op, bool keeps);

/// Inserts the decomposition of an optimizer, learning_rate or
/// loss_scale.update op before it and returns the replacement values; empty for
/// any other op.
llvm::SmallVector<mlir::Value> decomposeUpdate(mlir::OpBuilder &builder,
                                               mlir::Operation *op);

/// Per-channel batch statistics; `root` is sqrt(variance + epsilon).
struct ChannelStatistics {
  mlir::Value mean, variance, root;
};

/// Cache of the statistics computed in a function, keyed by tensor and the bits
/// of epsilon.
using SharedStatistics =
    llvm::DenseMap<std::pair<mlir::Value, uint64_t>, ChannelStatistics>;

/// Inserts the decomposition of batch_norm_training or a norm gradient before
/// it and returns the replacement values; empty for any other op. With several
/// ranks, batch norm uses the statistics of the global batch (all local batches
/// have one size).
llvm::SmallVector<mlir::Value> decomposeNorm(mlir::OpBuilder &builder,
                                             mlir::Operation *op,
                                             SharedStatistics &shared,
                                             int64_t ranks = 1);

/// Inserts the decomposition of a loss, dropout, a seed or an attention
/// gradient before it and returns the replacement values; empty for any other
/// op.
llvm::SmallVector<mlir::Value> decomposeTraining(mlir::OpBuilder &builder,
                                                 mlir::Operation *op);

/// Inserts the decomposition of a transposed convolution before it: a GEMM if
/// windows do not overlap, else one convolution per output phase (position
/// modulo stride).
mlir::Value decomposeConvTranspose(ConvTransposeOp op);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_DECOMPOSE_H
