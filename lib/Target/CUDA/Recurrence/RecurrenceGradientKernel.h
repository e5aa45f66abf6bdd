//===- RecurrenceGradientKernel.h - backprop through time -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops over time steps in reverse: computes gate gradients from the state's
// gradient and exchanges them between blocks; their GEMM with the weights is
// the gradient of the previous state.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_RECURRENCE_RECURRENCEGRADIENTKERNEL_H
#define MPC_LIB_TARGET_CUDA_RECURRENCE_RECURRENCEGRADIENTKERNEL_H

#include "mpc/Dialect/Mpc/IR/MpcRecurrenceOps.h"

#include "PersistentRecurrence.h"

namespace mpc::cuda {

class RecurrenceGradientKernel : PersistentRecurrence {
public:
  RecurrenceGradientKernel(GpuKernel &kernel, RecurrenceGradientOp op,
                           const PersistentRnnPlan &plan)
      : PersistentRecurrence(kernel, op, op.getRecurrence(), op.getDirection(),
                             plan),
        op(op) {}
  mlir::LogicalResult emit();

private:
  // RecurrenceGradientKernel.cpp: the steps.
  void loadFinalStates();
  /// Loads saved activations of the step that is `step`th from the layer's end.
  void loadKept(mlir::Value step, mlir::Value time);
  void emitStep(mlir::Value step);
  void storeInitialStates();
  /// Whether the gradient of the initial state is stored, which takes one more
  /// GEMM.
  bool reachesInitialState() { return isStored(op.getInitialHGradient()); }

  // Per-thread computation.
  void emitCell(size_t product, mlir::Value time, const Item &item);
  void lstm(mlir::Value time, const Item &item);
  void linearGru(mlir::Value time, const Item &item);
  void freshGru(const Item &item);
  void finishGru(mlir::Value time, const Item &item);
  void rnn(mlir::Value time, const Item &item);
  /// Gradient of the step's state.
  mlir::Value ofState(const Item &item);
  mlir::Value keptValue(int64_t number, const Item &item);
  mlir::Value ofSigmoid(mlir::Value value);
  mlir::Value ofTanh(mlir::Value value);
  mlir::Value lessThanOne(mlir::Value value);
  void storeGates(mlir::Value result, mlir::ValueRange gates, mlir::Value time,
                  const Item &item);
  /// Stores values for emitStep() to exchange.
  void leave(mlir::ValueRange gates, const Item &item);

  RecurrenceGradientOp op;
  /// Per thread, by item: gradient that bypasses the GEMM, gradient of the cell
  /// state, saved activations followed by the previous state and the result
  /// gradient, gate gradients to exchange.
  mlir::Value past, cell, kept, left;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_RECURRENCE_RECURRENCEGRADIENTKERNEL_H
