//===- RecurrenceKernel.h - one kernel for all steps ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The walk over a layer's steps (RecurrencePlan.h): what a step makes of the
// products' sums.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_RECURRENCEKERNEL_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_RECURRENCEKERNEL_H

#include "RecurrenceWalk.h"

namespace mpc {

/// The kernel of a `recurrence` or `recurrence_training`.
class RecurrenceKernel : RecurrenceWalk {
public:
  RecurrenceKernel(GpuKernel &kernel, mlir::Operation *op,
                   const RecurrenceSteps &steps, const RecurrencePlan &plan)
      : RecurrenceWalk(kernel, op, steps.recurrence, steps.direction, plan),
        steps(steps) {}
  mlir::LogicalResult emit();

private:
  // RecurrenceKernel.cpp: the steps.
  void makeStates();
  void loadInitialStates();
  void loadGates(mlir::Value time);
  void emitStep(mlir::Value step);
  void storeFinalStates();

  // RecurrenceCell.cpp: what a thread computes.
  void emitCell(size_t product, mlir::Value time, const Item &item);
  mlir::Value lstm(const Item &item);
  mlir::Value linearGru(const Item &item);
  mlir::Value rnn(const Item &item);
  void resetGru(const Item &item);
  mlir::Value finishGru(const Item &item);
  mlir::Value mixed(mlir::Value update, mlir::Value fresh, mlir::Value state);
  mlir::Value gateInput(int64_t gate, const Item &item);
  /// A sum with the input's and the bias's share.
  mlir::Value gateSum(int64_t gate, const Item &item);

  RecurrenceSteps steps;
  /// Of the thread, by item: states, gates of the input, the update gate.
  mlir::Value hidden, cell, gates, update;
  /// What the cell keeps, in the op's order but for the state.
  llvm::SmallVector<mlir::Value, 4> kept;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_RECURRENCEKERNEL_H
