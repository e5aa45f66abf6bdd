//===- SeedPowers.h - backward passes that are not linear -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRAINING_SEEDPOWERS_H
#define MPC_LIB_DIALECT_MPC_TRAINING_SEEDPOWERS_H

#include "mlir/IR/Builders.h"

#include "llvm/ADT/DenseMap.h"

namespace mpc {

/// Makes a backward pass that a user may have written linear in the seed of
/// its cotangents, whatever it does to them: a gradient that is clipped at 0.01
/// is clipped at 0.01 times the loss scale, one that is replaced by its sign is
/// multiplied by the scale. Values are followed from a cotangent through the
/// ops, each with the power of the seed that it carries; where an op takes
/// values of two powers, or is no power of what it takes, factors of the seed
/// go in front of it. A pass of linear ops stays as it is.
class SeedPowers {
public:
  /// `seed`, of one float, is defined in front of what `cotangent` reaches.
  SeedPowers(mlir::Value seed, mlir::Value cotangent)
      : seed(seed), powers{{cotangent, 1}} {}

  /// Visits an op behind those that make its operands.
  void visit(mlir::Operation *op);
  /// `value` with the power 1 that a gradient has; new ops at `builder`.
  mlir::Value gradient(mlir::OpBuilder &builder, mlir::Value value) const {
    return raised(builder, value, 1);
  }

private:
  int powerOf(mlir::Value value) const { return powers.lookup(value); }
  /// `value` times what it lacks of the seed's `power`.
  mlir::Value raised(mlir::OpBuilder &builder, mlir::Value value,
                     int power) const;

  mlir::Value seed;
  llvm::DenseMap<mlir::Value, int> powers;
};

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRAINING_SEEDPOWERS_H
