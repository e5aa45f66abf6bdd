//===- RecurrenceKernel.h - forward pass, recurrent layer -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loop over the time steps of a layer (PersistentRnnPlan.h), and its cells.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_RECURRENCE_RECURRENCEKERNEL_H
#define MPC_LIB_TARGET_CUDA_RECURRENCE_RECURRENCEKERNEL_H

#include "mpc/Dialect/Mpc/IR/MpcRecurrenceOps.h"

#include "PersistentRecurrence.h"

namespace mpc::cuda {

/// Generates the kernel of a `recurrence` or `recurrence_training`.
class RecurrenceKernel : PersistentRecurrence {
public:
  RecurrenceKernel(GpuKernel &kernel, mlir::Operation *op,
                   const RecurrenceSteps &steps, const PersistentRnnPlan &plan)
      : PersistentRecurrence(kernel, op, steps.recurrence, steps.direction,
                             plan),
        steps(steps) {}
  mlir::LogicalResult emit();

private:
  // RecurrenceKernel.cpp: the steps.
  void makeStates();
  void loadInitialStates();
  void loadGates(mlir::Value time);
  void emitStep(mlir::Value step);
  void storeFinalStates();

  // Per-thread computation.
  void emitCell(size_t product, mlir::Value time, const Item &item);
  mlir::Value lstm(const Item &item);
  mlir::Value linearGru(const Item &item);
  mlir::Value rnn(const Item &item);
  void resetGru(const Item &item);
  mlir::Value finishGru(const Item &item);
  mlir::Value mixed(mlir::Value update, mlir::Value fresh, mlir::Value state);
  mlir::Value gateInput(int64_t gate, const Item &item);
  /// Returns a GEMM's result plus input and bias of a gate.
  mlir::Value gateSum(int64_t gate, const Item &item);

  RecurrenceSteps steps;
  /// Per thread, by item: states, input of the gates, update gate.
  mlir::Value hidden, cell, gates, update;
  /// Activations to save, in the op's order, without the state.
  llvm::SmallVector<mlir::Value, 4> kept;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_RECURRENCE_RECURRENCEKERNEL_H
