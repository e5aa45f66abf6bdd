//===- MpcRecurrenceOps.h - recurrences that learn --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCRECURRENCEOPS_H
#define MPC_DIALECT_MPC_IR_MPCRECURRENCEOPS_H

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include <optional>

namespace mpc {

/// Gates of a recurrent cell, rows of its weights per hidden unit.
int64_t gatesOf(RecurrentCell cell);
/// Values that a step keeps of a hidden unit for the gradient: its gates and,
/// last, the state that follows.
int64_t keptValuesOf(RecurrentCell cell);

} // namespace mpc

#define GET_OP_CLASSES
#include "mpc/Dialect/Mpc/IR/MpcRecurrenceOps.h.inc"

namespace mpc {

/// What `recurrence` and `recurrence_training` have in common.
struct RecurrenceSteps {
  /// Nothing of other ops.
  static std::optional<RecurrenceSteps> of(mlir::Operation *op);

  RecurrentCell cell;
  RecurrentDirection direction;
  mlir::Value projected, recurrence, bias, initialH, initialC, peephole;
  /// What the op makes; null where it has no such result.
  mlir::Value result, finalH, finalC, kept;

  int64_t count() const { return shapeOf(projected)[0]; }
  int64_t batch() const { return shapeOf(projected)[1]; }
  int64_t hidden() const { return shapeOf(recurrence)[2]; }
  int64_t directions() const { return shapeOf(recurrence)[0]; }

private:
  static llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
    return llvm::cast<mlir::RankedTensorType>(value.getType()).getShape();
  }
};

} // namespace mpc

#endif // MPC_DIALECT_MPC_IR_MPCRECURRENCEOPS_H
