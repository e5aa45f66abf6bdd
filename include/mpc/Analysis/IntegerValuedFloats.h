//===- IntegerValuedFloats.h - float values that carry integers -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds float values that carry counts, positions or indices. Rounding one to
// 16 bits changes the integer (2049 becomes 2048 in f16, 257 becomes 256 in
// bf16), so no policy narrows them.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_INTEGERVALUEDFLOATS_H
#define MPC_ANALYSIS_INTEGERVALUEDFLOATS_H

#include "mpc/Analysis/RangeAnalysis.h"

namespace mpc {

/// The float values of a function that carry integers:
/// - by derivation: computed from integers (casts of integers of at least 16
///   bits, sums of booleans, iota) and integral constants by ops that preserve
///   integers (add, sub, mul, floor, round, min, max, sums, data movement), or
/// - by counting: running sums of integers or of what the caller passes, which
///   may be a mask of 0 and 1, and what such ops compute from these. 16 bits
///   would lose the steps between large counts; or
/// - by use: every reader converts the value to an integer of at least 16 bits,
///   directly or through such ops and scaling (index arithmetic); unless the
///   magnitude is at most 256, up to which all 16-bit floats are exact.
///   Excludes masks (0 or 1, also times a constant) and results of contractions
///   and norms.
class IntegerValuedFloats {
public:
  explicit IntegerValuedFloats(mlir::func::FuncOp func);

  /// Returns true if `value` carries integers that 16 bits may not represent.
  bool contains(mlir::Value value) const { return carriers.contains(value); }

  /// Returns true if an index, a length or a count is computed from `value`: by
  /// a cast to an integer of at least 16 bits, a comparison with positions or a
  /// rounding to integer, directly or through arithmetic, reductions, data
  /// movement and short dot products. Rounding `value` to 16 bits may then
  /// change an integer by one or more. Stops at layers (longer dot products,
  /// norms, attention).
  bool feedsIntegers(mlir::Value value) const {
    return sources.contains(value);
  }

  /// Returns true if every element of `value` is an integer for every input,
  /// except for infinities and NaN.
  bool isIntegral(mlir::Value value) const {
    return facts.lookup(value).integral;
  }

  /// Largest magnitude of `value`, infinite if unknown.
  double getMagnitude(mlir::Value value) const {
    return ranges.get(value).magnitude();
  }

private:
  /// Facts derived from a value's definition.
  struct Fact {
    bool integral = false; ///< every value is an integer
    bool derived = false;  ///< computed from integers and constants only
    bool constant = false; ///< a constant, or computed from constants
    bool given = false;    ///< integers if the arguments are
    bool counts = false;   ///< a running sum, or computed from one
  };
  Fact derive(mlir::Operation *op, mlir::Value result) const;
  bool isIndexUse(mlir::OpOperand &use) const;
  bool isSourceUse(mlir::OpOperand &use) const;
  void findSources(mlir::Block &body);

  RangeAnalysis ranges;
  llvm::DenseMap<mlir::Value, Fact> facts;
  llvm::DenseSet<mlir::Value> indexed, carriers, sources;
};

/// Returns true if `value` is a float constant of integers that 16 bits may not
/// represent, whatever its use. Weights are excluded: some element is no
/// integer.
bool isIntegerTable(mlir::Value value);

} // namespace mpc

#endif // MPC_ANALYSIS_INTEGERVALUEDFLOATS_H
