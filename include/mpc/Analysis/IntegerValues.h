//===- IntegerValues.h - integers that floats carry -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds float values that hold counts, positions or indices. Rounding one to 16
// bits makes it another integer (2049 is 2048 in f16, 257 is 256 in bf16), so
// no policy narrows them.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_INTEGERVALUES_H
#define MPC_ANALYSIS_INTEGERVALUES_H

#include "mpc/Analysis/KnownRanges.h"

namespace mpc {

/// The float values of a function that carry integers. A value is one where
/// - it is an integer by derivation: made from integers (casts of integers of
/// at
///   least 16 bits, sums of truth values, positions of iota) and integral
///   constants by ops that keep integers (add, sub, mul, floor, round, min,
///   max, sums, data movement), or
/// - it is one by use: every reader makes an integer of at least 16 bits of it,
///   directly or through such ops and scaling (index arithmetic);
/// and where its magnitude is not known to stay within 256, up to which all
/// 16-bit floats are exact. Masks (0 or 1, also times a constant) and values
/// that a contraction or norm makes are none.
class IntegerValues {
public:
  explicit IntegerValues(mlir::func::FuncOp func);

  /// Whether `value` carries integers that 16 bits may not hold.
  bool contains(mlir::Value value) const { return carriers.contains(value); }

  /// Whether an index, a length or a count is computed from `value`: by a cast
  /// to an integer of at least 16 bits, by a comparison with positions or by a
  /// rounding whose result is one, at once or through arithmetic, reductions,
  /// data movement and products of few terms. A rounding of `value` to 16 bits
  /// may then change an integer by one or more. Ends at layers (products of
  /// more terms, norms, attention): what they compute is read, not how.
  bool feedsIntegers(mlir::Value value) const {
    return sources.contains(value);
  }

  /// Whether every element of `value` is an integer for every input, infinite
  /// and NaN ones aside.
  bool isIntegral(mlir::Value value) const {
    return facts.lookup(value).integral;
  }

  /// The largest magnitude of `value`, infinite where not known.
  double getMagnitude(mlir::Value value) const {
    return ranges.get(value).magnitude();
  }

private:
  /// What derivation says of a value.
  struct Fact {
    bool integral = false; ///< every value is an integer
    bool derived = false;  ///< comes from integers and constants alone
    bool constant = false; ///< a constant, or made of constants
  };
  Fact derive(mlir::Operation *op, mlir::Value result) const;
  bool isIndexUse(mlir::OpOperand &use) const;
  bool isSourceUse(mlir::OpOperand &use) const;
  void findSources(mlir::Block &body);

  KnownRanges ranges;
  llvm::DenseMap<mlir::Value, Fact> facts;
  llvm::DenseSet<mlir::Value> indexed, carriers, sources;
};

/// Whether `value` is a float constant of integers that 16 bits may not hold,
/// whatever it is used for. Weights are none: some element is no integer.
bool isIntegerTable(mlir::Value value);

} // namespace mpc

#endif // MPC_ANALYSIS_INTEGERVALUES_H
