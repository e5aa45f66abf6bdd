//===- Compare.h - judgement of results -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one function that decides whether an output is right, and the error
// measures that reports show.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_REFERENCE_COMPARE_H
#define MPC_REFERENCE_COMPARE_H

#include "mpc/Reference/Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace mpc::reference {

/// How far an output is from the reference.
struct OutputError {
  /// Largest |actual - reference|; infinity where an element disagrees about
  /// finiteness.
  double maxAbsError = 0;
  /// rms(actual - reference) / rms(reference); absolute where the reference is
  /// 0, infinity where an element disagrees about finiteness.
  double rmsRelativeError = 0;
  /// What `rmsRelativeError` may be at most.
  double tolerance = 0;
  /// rms over elements of (actual - reference) / magnitude of the element's
  /// terms; infinity where an element disagrees about finiteness, 0 where no
  /// magnitudes were given.
  double componentwiseError = 0;
  /// What `componentwiseError` may be at most.
  double componentwiseTolerance = 0;
  /// In row-major order the position of the element with the largest error
  /// relative to its terms, -1 where nothing was compared componentwise.
  int64_t worstElement = -1;
  /// Of that element: |actual - reference|, and the magnitude of its terms.
  double worstError = 0, worstMagnitude = 0;
  /// Integer outputs: elements that differ. Float outputs: elements where
  /// exactly one side is NaN, or infinities differ.
  int64_t mismatches = 0;
  /// Float outputs: elements that are finite on both sides, which the errors
  /// above are of.
  int64_t compared = 0;
  /// Those among the compared elements that make the rms of the declared error:
  /// fewer where the errors of a few are much larger than those of the others.
  double effective = 0;
  /// Those of the mismatches where the reference is finite.
  int64_t overflows = 0;
  /// In row-major order the first of the overflows, where there is none the
  /// first mismatch of a float output; else -1.
  int64_t firstMismatch = -1;
  /// Integer outputs: elements that differ in the declared mode.
  int64_t declaredMismatches = 0;
  bool ok = true;

  /// Whether elements agree about finiteness and both errors are within their
  /// tolerances. What float outputs have as `ok`.
  bool isWithinTolerance() const {
    return mismatches == 0 && rmsRelativeError <= tolerance &&
           componentwiseError <= componentwiseTolerance;
  }
  /// Adds `normwise` and `componentwise` to the tolerances of a float output
  /// and judges again.
  void widen(double normwise, double componentwise) {
    tolerance += normwise;
    componentwiseTolerance += componentwise;
    ok = isWithinTolerance();
  }
};

/// Compares `actual` with `reference` (float64 mode). A float output holds
/// where
///
///     rms((actual - reference) / t)
///       <= 2 rms((declared - reference) / t) + 4 sqrt(n) 2^-24
///
/// for two scales t: one number for the output, the rms of `reference` (1 where
/// that is 0), and one number per element, `magnitudes` (TermMagnitudes), where
/// given. `declared` is the same output in the interpreter's storage-rounding
/// mode, n the longest reduction of the model. With few elements the factor of
/// the second form grows from 2 to at most 16, as two samples of so few errors
/// differ by chance. Elements whose terms are all 0 count against a small
/// magnitude of the others, the lower quartile.
///
/// A value that is not finite where the reference is never passes, whatever
/// `declared` says; where the reference is NaN or infinite the value must be
/// the same. Integer outputs must be equal where `fatalIntegers` is set;
/// otherwise differences are only counted. Shapes must agree, else `ok` is
/// false and every element counts as a mismatch.
OutputError compareOutput(const Tensor &actual, const Tensor &reference,
                          const Tensor &declared, int64_t longestReduction,
                          bool fatalIntegers,
                          const Tensor *magnitudes = nullptr);

/// Standard deviations of the errors of an output's elements, relative to its
/// rms and to the magnitudes of the elements' terms.
struct ErrorDeviation {
  double normwise = 0, componentwise = 0;
};

/// Widens the tolerances of a float output to what its elements exceed once in
/// a million times where the errors of all are normal with `deviation`, and
/// judges again.
void allowFor(OutputError &error, const ErrorDeviation &deviation,
              int64_t longestReduction);

/// Where an output of `shape` is over its componentwise tolerance, in one
/// sentence without its subject; empty where it is not.
std::string componentFault(const OutputError &error,
                           llvm::ArrayRef<int64_t> shape);

/// How `error` disagrees about finiteness with a reference of `shape`, in one
/// sentence without its subject; empty where it does not.
std::string finitenessFault(const OutputError &error,
                            llvm::ArrayRef<int64_t> shape);

/// For each result of `function`, whether a number of fewer than 32 bits, or a
/// product that rounds its operands to fewer, is on the way to it. Integers
/// have no reason to differ where none is. `function` has one block.
llvm::SmallVector<bool> roundedResults(mlir::func::FuncOp function);

/// Number of terms of the longest sum in `function`: contractions, reductions,
/// norms, softmax, attention, pools, losses, and recurrent products over all
/// steps. At least 1.
int64_t longestReduction(mlir::func::FuncOp function);

/// rms(actual - expected) / rms(expected); absolute where `expected` is all 0.
/// Equal NaNs and infinities contribute nothing; other non-finite differences
/// give infinity. Integer elements count as their value. Both have the same
/// size.
double rmsRelativeError(const Tensor &actual, const Tensor &expected);

/// rms((actual - expected) / magnitudes), non-finite elements and elements
/// whose terms are all 0 as compareOutput() has them.
double componentwiseError(const Tensor &actual, const Tensor &expected,
                          const Tensor &magnitudes);

/// Magnitudes of terms where only the values of a float output are known: its
/// finite elements fall into classes where the next larger magnitude is more
/// than 1024 times as large and two below are not 0; zeros are of the smallest.
/// Each element has the rms of its class, 1 where that is 0; an output without
/// such a gap has its rms in every element.
Tensor magnitudeClasses(const Tensor &reference);

} // namespace mpc::reference

#endif // MPC_REFERENCE_COMPARE_H
