//===- TermMagnitudes.h - scale of each element's rounding ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The magnitude of the terms that made each element of a value: what its
// rounding errors are proportional to, however small the element itself is.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_REFERENCE_TERMMAGNITUDES_H
#define MPC_REFERENCE_TERMMAGNITUDES_H

#include "mpc/Reference/Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <functional>
#include <optional>

namespace mpc::reference {

/// A first-order error analysis beside a float64 run of a function. The
/// magnitude t of an element y of the result of f(x, ...) is
///
///     t(y) = max(|y|, sqrt(sum over elements x of (df/dx * t(x))^2))
///
/// so that independent errors of relative size u in all t(x) make an error of
/// about u * t(y). Function arguments and constants have t(x) = |x|. So have
/// the operands of contractions, whose magnitude is the root of the sum of the
/// squared products; analysis starts afresh there, or magnitudes would grow by
/// a factor per layer. Attention and recurrent layers have the rms of the row
/// (the last dimension) that an element is in.
///
/// Derivatives are difference quotients: of elementwise ops over t(x) / 64,
/// wide enough to see across the kink of a ReLU, of ops that mix elements over
/// random moves of 2^-16 t(x). Not thread-safe.
class TermMagnitudes {
public:
  /// Receives the magnitudes of the float results of an op; those of integers
  /// are zeros.
  using Sink = std::function<void(mlir::Operation *, llvm::ArrayRef<Tensor>)>;

  /// Of the results of `function`, which has one block, must outlive the object
  /// and is to be interpreted in float64 on `arguments`; with a `sink`, of the
  /// results of every op.
  TermMagnitudes(mlir::func::FuncOp function, llvm::ArrayRef<Tensor> arguments,
                 Sink sink = {});

  /// Adds the results of one op; to be called for every op in program order, as
  /// InterpretOptions::observer is.
  void observe(mlir::Operation *op, llvm::ArrayRef<Tensor> results);

  /// Of each result of the function, once all ops were observed, with every
  /// magnitude at least `least`; zeros for integer results. Fails, with a
  /// diagnostic, where an op could not be evaluated.
  mlir::FailureOr<llvm::SmallVector<Tensor>> results(double least = 0);

private:
  /// A value that an analysed op reads, or that the function returns.
  struct Known {
    Tensor value;
    /// Those of an analysed op's result; of others each is the element's own.
    std::optional<Tensor> magnitudes;
  };
  const Known *get(mlir::Value value);
  mlir::LogicalResult analyse(mlir::Operation *op,
                              llvm::ArrayRef<Tensor> results,
                              llvm::SmallVectorImpl<Tensor> &magnitudes);
  /// Those of the result of a movement: the operands', moved as elements are.
  mlir::LogicalResult move(mlir::Operation *op,
                           llvm::ArrayRef<const Known *> operands,
                           llvm::SmallVectorImpl<Tensor> &magnitudes);
  /// Those of the result of an elementwise op, block by block: what a
  /// perturbation needs beside is then as small as a block.
  mlir::LogicalResult perturbBlocks(mlir::Operation *op,
                                    llvm::ArrayRef<const Known *> operands,
                                    llvm::ArrayRef<Tensor> results,
                                    llvm::SmallVectorImpl<Tensor> &magnitudes);
  /// Those of the results of `op` by random perturbation of its operands.
  mlir::LogicalResult perturb(mlir::Operation *op,
                              llvm::ArrayRef<const Known *> operands,
                              llvm::ArrayRef<Tensor> results,
                              llvm::SmallVectorImpl<Tensor> &magnitudes);

  mlir::func::FuncOp function;
  Sink sink;
  /// Ops whose magnitudes are asked for, and uses by them and by the return
  /// that are still to come.
  llvm::DenseSet<mlir::Operation *> analysed;
  llvm::DenseMap<mlir::Value, int64_t> usesLeft;
  llvm::DenseMap<mlir::Value, Known> known;
  bool hasFailed = false;
};

/// The largest of the smallest normal numbers of the float types of 16 bits and
/// more in `function` and of f32: below it a type has no relative precision.
double smallestNormal(mlir::func::FuncOp function);

} // namespace mpc::reference

#endif // MPC_REFERENCE_TERMMAGNITUDES_H
