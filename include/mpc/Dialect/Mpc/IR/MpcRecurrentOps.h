//===- MpcRecurrentOps.h - lstm, gru, rnn -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCRECURRENTOPS_H
#define MPC_DIALECT_MPC_IR_MPCRECURRENTOPS_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

namespace mpc {

/// Multiply-adds of a recurrent op per gate; flops are twice this times the
/// number of gates.
template <typename OpTy> int64_t recurrentCost(OpTy op) {
  llvm::ArrayRef<int64_t> input = op.getInput().getType().getShape();
  llvm::ArrayRef<int64_t> recurrence = op.getRecurrence().getType().getShape();
  int64_t hidden = recurrence[2];
  return productOf(
      {recurrence[0], input[0], input[1], hidden, input[2] + hidden});
}

} // namespace mpc

#define GET_OP_CLASSES
#include "mpc/Dialect/Mpc/IR/MpcRecurrentOps.h.inc"

#endif // MPC_DIALECT_MPC_IR_MPCRECURRENTOPS_H
