//===- Linearity.h - operands in which ops are linear -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRAINING_LINEARITY_H
#define MPC_LIB_DIALECT_MPC_TRAINING_LINEARITY_H

#include "mlir/IR/Operation.h"

namespace mpc {

/// The operands in which an op with one float result is linear.
struct Linearity {
  using Operands = llvm::SmallVector<unsigned, 2>;
  /// Those in which it is linear together: terms of a sum, parts of a whole.
  Operands together;
  /// Those in each of which it is linear while the others stay.
  Operands alone;
  /// Whether it adds elements up: a backward pass is made of such ops.
  bool adds = false;
};

/// Without operands for an op that is linear in none, and for one of several
/// results.
Linearity linearityOf(mlir::Operation *op);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRAINING_LINEARITY_H
