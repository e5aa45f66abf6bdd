//===- MpcRecurrenceOps.h - differentiable recurrences ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCRECURRENCEOPS_H
#define MPC_DIALECT_MPC_IR_MPCRECURRENCEOPS_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include <optional>

namespace mpc {

/// Number of gates of a recurrent cell: rows of its weights per hidden unit.
int64_t gatesOf(RecurrentCell cell);
/// Activations saved per step and hidden unit for the gradient: the gates and,
/// last, the new state.
int64_t savedActivationsOf(RecurrentCell cell);

} // namespace mpc

#define GET_OP_CLASSES
#include "mpc/Dialect/Mpc/IR/MpcRecurrenceOps.h.inc"

namespace mpc {

/// Common accessors of `recurrence` and `recurrence_training`.
struct RecurrenceSteps {
  /// Returns nullopt for other ops.
  static std::optional<RecurrenceSteps> of(mlir::Operation *op);

  RecurrentCell cell;
  RecurrentDirection direction;
  mlir::Value projected, recurrence, bias, initialH, initialC, peephole;
  /// Results of the op; null if absent.
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
