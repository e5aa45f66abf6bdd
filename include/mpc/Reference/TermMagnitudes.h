//===- TermMagnitudes.h - per-element rounding error scale ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Magnitude of the terms from which each element of a value was computed: the
// scale of its rounding errors, however small the element is.
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

/// First-order forward error analysis during a float64 run of a function. The
/// magnitude t of an element y of the result of f(x, ...) is
///
///     t(y) = max(|y|, sqrt(sum over elements x of (df/dx * t(x))^2))
///
/// so that independent relative errors u of all t(x) cause an error of about u
/// * t(y). Function arguments and constants have t(x) = |x|. The analysis
/// restarts at contractions, since magnitudes would otherwise grow by a factor
/// per layer: their operands have t(x) = |x|, so that a result's magnitude is
/// the root of the sum of the squared products. Attention and recurrent layers
/// have the rms of the element's row (last dimension).
///
/// Derivatives are difference quotients: for elementwise ops, optimizers
/// included, over t(x) / 64, wide enough to cross the kink of a ReLU and to
/// change the square of a number near 0, for ops that mix elements over random
/// perturbations of 2^-16 t(x).
///
/// Where a truth value (a comparison) changes if x moves by s t(x), for s =
/// 2^-6, 2^-9 or 2^-12, what is computed from it has the difference quotient d
/// / s of its own change d, and a select the terms of both branches: a branch
/// that rounding flips then has an error of about s, that of its cause.
/// Integers computed from integers (positions) are exact and flip nothing. Not
/// thread-safe.
class TermMagnitudes {
public:
  /// Receives the term magnitudes of an op's float results; those of its
  /// integer results are no scales.
  using Sink = std::function<void(mlir::Operation *, llvm::ArrayRef<Tensor>)>;

  /// Analyzes the results of `function`, which has one block, must outlive the
  /// object and is interpreted in float64 on `arguments`; with a `sink`, the
  /// results of every op. With `absoluteSigmoids` sigmoids have the magnitude
  /// 1/2 at least, for results of other systems: they compute (1 + tanh(x/2)) /
  /// 2, or approximate it with an absolute error.
  TermMagnitudes(mlir::func::FuncOp function, llvm::ArrayRef<Tensor> arguments,
                 Sink sink = {}, bool absoluteSigmoids = false);

  /// Adds the results of one op; call for every op in program order, as
  /// InterpretOptions::observer.
  void observe(mlir::Operation *op, llvm::ArrayRef<Tensor> results);

  /// Returns the magnitudes of each function result after all ops were
  /// observed. Those that are not 0 are at least `least`; zeros are kept, since
  /// `least` is no scale of real terms. Emits an error if an op could not be
  /// evaluated.
  mlir::FailureOr<llvm::SmallVector<Tensor>> results(double least = 0);

private:
  /// A value that an analyzed op reads, or that the function returns.
  struct Known {
    Tensor value;
    /// Magnitudes if computed by an analyzed op; else those of the elements
    /// themselves. Of a truth value 1 / s for the smallest s that changes it,
    /// or 0 if none does.
    std::optional<Tensor> magnitudes;
    /// True if an analyzed op computed integers from integers, which are not
    /// rounded.
    bool isExact = false;
  };
  const Known *get(mlir::Value value);
  /// Returns the magnitudes of a float or truth value.
  static Tensor termsOf(const Known &known);
  static bool isExact(const Known &known);
  /// Returns true if `op` computes `result` from exact values without rounding.
  bool isExact(mlir::Operation *op, const Tensor &result);
  mlir::LogicalResult analyse(mlir::Operation *op,
                              llvm::ArrayRef<Tensor> results,
                              llvm::SmallVectorImpl<Tensor> &magnitudes);
  /// Computes the magnitudes of a data movement by moving those of its
  /// operands.
  mlir::LogicalResult move(mlir::Operation *op,
                           llvm::ArrayRef<const Known *> operands,
                           llvm::SmallVectorImpl<Tensor> &magnitudes);
  /// Computes the magnitudes of an elementwise op block by block, which bounds
  /// the temporary memory of perturb().
  mlir::LogicalResult perturbBlocks(mlir::Operation *op,
                                    llvm::ArrayRef<const Known *> operands,
                                    llvm::ArrayRef<Tensor> results,
                                    llvm::SmallVectorImpl<Tensor> &magnitudes);
  /// Computes magnitudes of the results of `op` by random perturbation of its
  /// operands.
  mlir::LogicalResult perturb(mlir::Operation *op,
                              llvm::ArrayRef<const Known *> operands,
                              llvm::ArrayRef<Tensor> results,
                              llvm::SmallVectorImpl<Tensor> &magnitudes);

  /// Adds to `magnitudes` the changes by truth values that may flip.
  mlir::LogicalResult flip(mlir::Operation *op,
                           llvm::ArrayRef<const Known *> operands,
                           llvm::ArrayRef<Tensor> results,
                           llvm::SmallVectorImpl<Tensor> &magnitudes);

  mlir::func::FuncOp function;
  Sink sink;
  bool absoluteSigmoids;
  /// Analyzed ops, and the remaining uses of values by them and by the return.
  llvm::DenseSet<mlir::Operation *> analysed;
  llvm::DenseMap<mlir::Value, int64_t> usesLeft;
  llvm::DenseMap<mlir::Value, Known> known;
  bool hasFailed = false;
};

/// Returns the largest of the smallest normal numbers of f32 and the float
/// types of at least 16 bits in `function`: below it a type has no relative
/// precision.
double smallestNormal(mlir::func::FuncOp function);

/// Returns the largest unit roundoff of the same types.
double unitRoundoff(mlir::func::FuncOp function);

} // namespace mpc::reference

#endif // MPC_REFERENCE_TERMMAGNITUDES_H
