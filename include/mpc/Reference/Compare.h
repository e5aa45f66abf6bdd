//===- Compare.h - output check against the oracle --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides whether an output is correct, and computes the error measures in
// reports.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_REFERENCE_COMPARE_H
#define MPC_REFERENCE_COMPARE_H

#include "mpc/Reference/Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace mpc::reference {

/// Measures of an output's element errors.
struct ErrorMeasures {
  /// rms relative to the rms of the output.
  double normwise = 0;
  /// rms and maximum of the errors relative to each element's terms.
  double componentwise = 0, largest = 0;
};

/// Error of an output against the reference.
struct OutputError {
  /// Maximum |actual - reference|; infinity if an element differs in
  /// finiteness.
  double maxAbsError = 0;
  /// rms(actual - reference) / rms(reference); absolute if the reference is 0,
  /// infinity if an element differs in finiteness.
  double rmsRelativeError = 0;
  /// Upper bound for `rmsRelativeError`.
  double tolerance = 0;
  /// rms over elements of (actual - reference) / term magnitude; infinity if an
  /// element differs in finiteness, 0 without magnitudes.
  double componentwiseError = 0;
  /// Upper bound for `componentwiseError`.
  double componentwiseTolerance = 0;
  /// Maximum over elements of |actual - reference| / term magnitude, infinity
  /// and 0 as above.
  double largestError = 0;
  /// Upper bound for `largestError`.
  double largestTolerance = 0;
  /// Row-major index of the element with `largestError`; -1 without
  /// componentwise comparison.
  int64_t worstElement = -1;
  /// |actual - reference| and term magnitude of that element.
  double worstError = 0, worstMagnitude = 0;
  /// Number of elements in which a discrete decision fell otherwise in the
  /// declared types than in the reference.
  int64_t flips = 0;
  /// Number of elements that differ (integers), or that differ in NaN or
  /// infinity (floats).
  int64_t mismatches = 0;
  /// Number of elements of a float output that are finite on both sides; the
  /// errors above cover these.
  int64_t compared = 0;
  /// Effective number of compared elements in the rms of the declared error:
  /// few if a few errors are much larger than the others.
  double effective = 0;
  /// Number of mismatches with a finite reference.
  int64_t overflows = 0;
  /// Row-major index of the first overflow, else of the first mismatch of a
  /// float output; else -1.
  int64_t firstMismatch = -1;
  /// Number of integer elements that differ in storage-rounding mode.
  int64_t storageMismatches = 0;
  /// Upper bound for `mismatches` of an integer output that may differ; -1 if
  /// there is none.
  int64_t mismatchTolerance = -1;
  bool ok = true;

  /// Returns true if elements agree in finiteness and all errors are within
  /// their tolerances; `ok` of float outputs.
  bool isWithinTolerance() const {
    return mismatches == 0 && rmsRelativeError <= tolerance &&
           componentwiseError <= componentwiseTolerance &&
           largestError <= largestTolerance;
  }
  /// Adds `margin` to the tolerances of a float output and updates `ok`.
  void widen(const ErrorMeasures &margin);
};

/// Compares `actual` with `reference` (float64 mode). A float output passes if
///
///     rms((actual - reference) / t)
///       <= 2 rms((declared - reference) / t) + 4 sqrt(n) 2^-24
///
/// for two scales t: the rms of `reference` (1 if that is 0) and, if given, the
/// term magnitude of each element, `magnitudes` (TermMagnitudes). `declared` is
/// the output in the interpreter's storage-rounding mode, n the longest
/// reduction of the model. For few elements the factor f = 2 of the second form
/// grows up to 16, since two small samples of errors differ by chance.
///
/// With `magnitudes`, the largest error must also pass, since an rms hides one
/// wrong element among many:
///
///     max |actual - reference| / t
///       <= max(g(N) T, 16 max |declared - reference| / t)
///
/// with T the tolerance of the second form and N the number of elements. N
/// normal errors of deviation T exceed g(N) T = sqrt(2 ln(10^6 N)) T at most
/// once in a million outputs, by the union bound and P(|x| > g) <= exp(-g^2 /
/// 2). Errors have longer tails where t does not show a cancellation in earlier
/// layers: the largest one is then a sample of few elements, for which f is 16.
///
/// Elements whose terms are all 0 use a small magnitude of the others, the
/// lower quartile. Where `declared` differs from the reference by more than the
/// terms and by four times what all but a tenth of the elements differ, a
/// discrete decision (a branch, an index) fell otherwise: the difference itself
/// becomes the scale of that element in the rms, and its largest error is not
/// judged. Such decisions may also fall otherwise in other elements, so twice
/// the largest of these differences, but not more than 16 times the terms, is
/// permitted in each.
///
/// A non-finite value with a finite reference always fails, whatever `declared`
/// is; for a NaN or infinite reference the value must be the same. Integer
/// outputs must be equal if `fatalIntegers`; else differences are only counted
/// (boundMismatches() judges them).
/// If shapes differ, `ok` is false and every element is a mismatch.
OutputError compareOutput(const Tensor &actual, const Tensor &reference,
                          const Tensor &declared, int64_t longestReduction,
                          bool fatalIntegers,
                          const Tensor *magnitudes = nullptr);

/// Number of samples from which widenTolerance()'s deviations are estimated.
inline constexpr int kErrorSamples = 9;

/// Widens the tolerances of a float output to the one-in-a-million quantile for
/// normally distributed element errors, and updates `ok`. The rms measures in
/// `sampled` are standard deviations, the largest one is that of all samples.
void widenTolerance(OutputError &error, const ErrorMeasures &sampled,
                    int64_t longestReduction);

/// Bounds the mismatches of an integer output that may differ, and updates
/// `ok`. `predicted` is the number of elements that differ in storage-rounding
/// mode; twice as many are expected at most, as for floats. The root of a count
/// of independent rare events has deviation 1/2 (Anscombe, with 3/8 added to
/// the count), the difference of two 1/sqrt(2), and exceeds 4.9 deviations once
/// in a million times.
void boundMismatches(OutputError &error, int64_t predicted);

/// Describes the worst violation of the componentwise tolerance of an output of
/// `shape`, as a sentence without its subject; empty if there is none.
std::string describeComponentError(const OutputError &error,
                                   llvm::ArrayRef<int64_t> shape);

/// Describes the difference in finiteness from a reference of `shape`, as a
/// sentence without its subject; empty if there is none.
std::string describeFinitenessError(const OutputError &error,
                                    llvm::ArrayRef<int64_t> shape);

/// Returns, for each result of `function` (one block), whether it depends on a
/// float below 32 bits, or on a GEMM that rounds its operands to fewer.
/// Otherwise integers have no reason to differ.
llvm::SmallVector<bool> resultsWithRounding(mlir::func::FuncOp function);

/// Returns the number of terms of the longest sum in `function`: contractions,
/// reductions, norms, softmax, attention, pools, losses, and recurrent GEMMs
/// over all steps. At least 1.
int64_t longestReduction(mlir::func::FuncOp function);

/// rms(actual - expected) / rms(expected); absolute if `expected` is all 0.
/// Equal NaNs and infinities contribute nothing; other non-finite differences
/// give infinity. Integers count as their values. Sizes must agree.
double rmsRelativeError(const Tensor &actual, const Tensor &expected);

/// Measures the errors of `actual`; non-finite elements and elements whose
/// terms are all 0 as in compareOutput().
ErrorMeasures measureError(const Tensor &actual, const Tensor &expected,
                           const Tensor &magnitudes);

/// The same for the storage-rounding mode: elements in which a discrete
/// decision fell otherwise have the scale that compareOutput() gives them.
ErrorMeasures measureDeclaredError(const Tensor &declared,
                                   const Tensor &reference,
                                   const Tensor &magnitudes);

/// Estimates term magnitudes from the values of a float output: finite elements
/// are clustered into classes separated by gaps of a factor above 1024 with at
/// least two nonzero elements below; zeros belong to the smallest class. Each
/// element has the rms of its class, or 1 if that is 0; without gaps, the rms
/// of the output.
Tensor clusterMagnitudes(const Tensor &reference);

} // namespace mpc::reference

#endif // MPC_REFERENCE_COMPARE_H
