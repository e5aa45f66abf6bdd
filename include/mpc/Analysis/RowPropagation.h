//===- RowPropagation.h - propagation of rows through ops -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_ROWPROPAGATION_H
#define MPC_ANALYSIS_ROWPROPAGATION_H

#include "mpc/Analysis/BatchIndependence.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

namespace mpc {
class GatherNdOp;
class MatmulOp;

/// Maps the row location from an op's operands to its results, if each row of a
/// result depends only on the same row of the operands.
class RowPropagation {
public:
  /// `places` has the row locations of operands; `rows` is the number of rows.
  RowPropagation(mlir::Operation *op,
                 const llvm::DenseMap<mlir::Value, RowLocation> &places,
                 int64_t rows)
      : op(op), places(places), rows(rows) {}

  /// Returns the row location in a result; nullopt if rows are or may be mixed.
  std::optional<RowLocation> placeIn(unsigned result);

  /// After placeIn() failed: what the op does to rows, as a predicate.
  const char *why() const { return reason; }

private:
  /// Returns the location in a result of rows in dimension `place.dim` of an
  /// operand.
  std::optional<RowLocation> fromOperand(unsigned operand, RowLocation place,
                                         unsigned result);
  std::optional<unsigned> dimFrom(unsigned operand, unsigned dim,
                                  unsigned result);
  std::optional<unsigned> throughProduct(MatmulOp product, unsigned operand,
                                         unsigned dim);
  std::optional<unsigned> throughReduction(unsigned operand, unsigned dim);
  std::optional<unsigned> throughGather(GatherNdOp gather, unsigned operand,
                                        unsigned dim);
  std::optional<RowLocation> throughReshape(RowLocation place);
  std::nullopt_t fails(const char *text) {
    reason = text;
    return std::nullopt;
  }

  mlir::Operation *op;
  const llvm::DenseMap<mlir::Value, RowLocation> &places;
  int64_t rows;
  const char *reason = "combines different rows";
};

} // namespace mpc

#endif // MPC_ANALYSIS_ROWPROPAGATION_H
