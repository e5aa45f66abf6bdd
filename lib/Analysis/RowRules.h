//===- RowRules.h - where an op puts rows -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_ROWRULES_H
#define MPC_LIB_ANALYSIS_ROWRULES_H

#include "mpc/Analysis/RowIndependence.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"

namespace mpc {

/// Tells of one op where the rows of its operands stand in its results, if each
/// row of a result depends on the same row of the operands.
class RowRules {
public:
  /// `places` has the operands that hold rows, of which there are `rows`.
  RowRules(mlir::Operation *op,
           const llvm::DenseMap<mlir::Value, RowPlace> &places, int64_t rows)
      : op(op), places(places), rows(rows) {}

  /// The rows of a result; nullopt where they are mixed, or may be.
  std::optional<RowPlace> placeIn(unsigned result);

  /// Behind placeIn() that gave nothing: what the op does to rows, after its
  /// name in a sentence.
  const char *why() const { return reason; }

private:
  /// Where rows in dimension `place.dim` of an operand stand in a result.
  std::optional<RowPlace> fromOperand(unsigned operand, RowPlace place,
                                      unsigned result);
  std::optional<unsigned> dimFrom(unsigned operand, unsigned dim,
                                  unsigned result);
  std::optional<unsigned> throughProduct(MatmulOp product, unsigned operand,
                                         unsigned dim);
  std::optional<unsigned> throughReduction(unsigned operand, unsigned dim);
  std::optional<RowPlace> throughReshape(RowPlace place);
  std::nullopt_t fails(const char *text) {
    reason = text;
    return std::nullopt;
  }

  mlir::Operation *op;
  const llvm::DenseMap<mlir::Value, RowPlace> &places;
  int64_t rows;
  const char *reason = "mixes rows";
};

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_ROWRULES_H
