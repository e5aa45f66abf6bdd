//===- Linearity.h - operands in which ops are linear -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRAINING_LINEARITY_H
#define MPC_LIB_DIALECT_MPC_TRAINING_LINEARITY_H

#include "mlir/IR/Operation.h"

namespace mpc {

/// Operands in which an op with one float result is linear.
struct Linearity {
  using Operands = llvm::SmallVector<unsigned, 2>;
  /// Operands in which the op is jointly linear: terms of a sum, parts of a
  /// concat.
  Operands together;
  /// Operands in each of which the op is linear with the others fixed.
  Operands alone;
  /// Whether the op sums elements, as ops of a backward pass do.
  bool adds = false;
};

/// Returns no operands if the op is not linear or has several results.
Linearity linearityOf(mlir::Operation *op);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRAINING_LINEARITY_H
