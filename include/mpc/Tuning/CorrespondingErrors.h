//===- CorrespondingErrors.h - errors measured at other shapes --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TUNING_CORRESPONDINGERRORS_H
#define MPC_TUNING_CORRESPONDINGERRORS_H

#include "mpc/Analysis/RoundingErrorModel.h"

#include "llvm/ADT/DenseMap.h"

namespace mpc {

/// Pairs the ops of two imports of one model for different shapes: the ops of
/// one kind and name, in order, if both functions have equally many of them.
class CorrespondingOps {
public:
  CorrespondingOps(mlir::func::FuncOp from, mlir::func::FuncOp to);

  /// Returns the op of `to`, or null if there is none.
  mlir::Operation *lookup(mlir::Operation *op) const { return ops.lookup(op); }

private:
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> ops;
};

/// The error model of one function for another import of its model: a decoder's
/// errors are those of a whole text, its costs those of one token. A rounding
/// without a counterpart has an infinite error, so it is never chosen.
class CorrespondingErrors : public RoundingErrorModel {
public:
  /// `errors` is of the function to which `ops` leads. Both must outlive this.
  CorrespondingErrors(const CorrespondingOps &ops,
                      const RoundingErrorModel &errors)
      : ops(ops), errors(errors) {}

  double ofValue(mlir::Value value, mlir::FloatType type) const override;
  double ofUse(mlir::OpOperand &use, mlir::FloatType type) const override;
  double ofWeights(mlir::Operation *op, const WeightFormat &format,
                   int bits) const override;
  double ofOperands(mlir::Operation *op) const override;

private:
  const CorrespondingOps &ops;
  const RoundingErrorModel &errors;
};

} // namespace mpc

#endif // MPC_TUNING_CORRESPONDINGERRORS_H
