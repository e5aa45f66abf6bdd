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
  /// Integer outputs: elements that differ. Float outputs: elements where
  /// exactly one side is NaN, or infinities differ.
  int64_t mismatches = 0;
  /// Float outputs: elements that are finite on both sides, which the errors
  /// above are of.
  int64_t compared = 0;
  /// Those of the mismatches where the reference is finite.
  int64_t overflows = 0;
  /// In row-major order the first of the overflows, where there is none the
  /// first mismatch of a float output; else -1.
  int64_t firstMismatch = -1;
  /// Integer outputs: elements that differ in the declared mode.
  int64_t declaredMismatches = 0;
  bool ok = true;
};

/// Judges `actual` against `reference` (float64 mode). The tolerance of a float
/// output is 2 x rms(declared - reference) + 4 x sqrt(n) x 2^-24 x magnitude, n
/// the longest reduction of the model and magnitude the rms of the reference;
/// `declared` is the same output in the interpreter's second mode. Both sides
/// are divided by the magnitude (1 where that is 0). A value that is not finite
/// where the reference is never passes, whatever `declared` says; where the
/// reference is NaN or infinite the value must be the same. Integer outputs
/// must be equal where `fatalIntegers` is set; otherwise differences are only
/// counted. Shapes must agree, else `ok` is false and every element counts as a
/// mismatch.
OutputError compareOutput(const Tensor &actual, const Tensor &reference,
                          const Tensor &declared, int64_t longestReduction,
                          bool fatalIntegers);

/// Widens the tolerance of a float output to what its elements exceed once in a
/// million times where the errors of all are normal with `deviation`, relative
/// to float64, and judges again.
void allowFor(OutputError &error, double deviation, int64_t longestReduction);

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

} // namespace mpc::reference

#endif // MPC_REFERENCE_COMPARE_H
