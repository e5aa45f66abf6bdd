//===- SeedLinearization.h - nonlinear backward passes ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRAINING_SEEDLINEARIZATION_H
#define MPC_LIB_DIALECT_MPC_TRAINING_SEEDLINEARIZATION_H

#include "mlir/IR/Builders.h"

#include "llvm/ADT/DenseMap.h"

namespace mpc {

/// Makes a user-written backward pass linear in the loss-scale seed: a gradient
/// clipped at 0.01 is clipped at 0.01 times the scale, a sign is multiplied by
/// the scale. Propagates the power of the seed from a cotangent through the
/// ops; inserts factors of the seed before ops that combine different powers or
/// are not homogeneous. Linear passes are unchanged.
class SeedLinearization {
public:
  /// `seed`, a float scalar, is defined before all users of `cotangent`.
  SeedLinearization(mlir::Value seed, mlir::Value cotangent)
      : seed(seed), powers{{cotangent, 1}} {}

  /// Visits an op after its producers.
  void visit(mlir::Operation *op);
  /// Returns `value` with power 1, as a gradient; new ops at `builder`.
  mlir::Value gradient(mlir::OpBuilder &builder, mlir::Value value) const {
    return raised(builder, value, 1);
  }

private:
  int powerOf(mlir::Value value) const { return powers.lookup(value); }
  /// Multiplies `value` by powers of the seed up to `power`.
  mlir::Value raised(mlir::OpBuilder &builder, mlir::Value value,
                     int power) const;

  mlir::Value seed;
  llvm::DenseMap<mlir::Value, int> powers;
};

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRAINING_SEEDLINEARIZATION_H
