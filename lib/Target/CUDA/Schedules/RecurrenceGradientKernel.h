//===- RecurrenceGradientKernel.h - a layer's steps back --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The walk against a layer's steps: a step makes the cotangents of its gates of
// those of its state, and hands them over, for the product with the weights is
// the cotangent of the state before.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_RECURRENCEGRADIENTKERNEL_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_RECURRENCEGRADIENTKERNEL_H

#include "RecurrenceWalk.h"

namespace mpc {

class RecurrenceGradientKernel : RecurrenceWalk {
public:
  RecurrenceGradientKernel(GpuKernel &kernel, RecurrenceGradientOp op,
                           const RecurrencePlan &plan)
      : RecurrenceWalk(kernel, op, op.getRecurrence(), op.getDirection(), plan),
        op(op) {}
  mlir::LogicalResult emit();

private:
  // RecurrenceGradientKernel.cpp: the steps.
  void loadFinalStates();
  /// Loads what the layer kept of the step that is `step`th from its end.
  void loadKept(mlir::Value step, mlir::Value time);
  void emitStep(mlir::Value step);
  void storeInitialStates();
  /// Whether what flows into the first step's state is wanted, which takes one
  /// product more.
  bool reachesInitialState() { return isStored(op.getInitialHGradient()); }

  // RecurrenceGradientCell.cpp: what a thread computes.
  void emitCell(size_t product, mlir::Value time, const Item &item);
  void lstm(mlir::Value time, const Item &item);
  void linearGru(mlir::Value time, const Item &item);
  void freshGru(const Item &item);
  void finishGru(mlir::Value time, const Item &item);
  void rnn(mlir::Value time, const Item &item);
  /// The cotangent of the step's state.
  mlir::Value ofState(const Item &item);
  mlir::Value keptValue(int64_t number, const Item &item);
  mlir::Value ofSigmoid(mlir::Value value);
  mlir::Value ofTanh(mlir::Value value);
  mlir::Value lessThanOne(mlir::Value value);
  void storeGates(mlir::Value result, mlir::ValueRange gates, mlir::Value time,
                  const Item &item);
  /// Puts values where emitStep() hands them over.
  void leave(mlir::ValueRange gates, const Item &item);

  RecurrenceGradientOp op;
  /// Of the thread, by item: what reaches a state past the product, and the
  /// cell's; what the layer kept, with the state before the step and the
  /// incoming cotangent behind it; what is handed over.
  mlir::Value past, cell, kept, left;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_RECURRENCEGRADIENTKERNEL_H
