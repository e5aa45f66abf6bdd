//===- KernelPlan.h - what a kernel computes, and how -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan is the result of recognizing a kernel on tensors: its family and that
// family's description of it (GEMM shape, access maps, epilogue). A kernel is
// recognized once; scheduling, verification and code generation use the plan.
// A plan refers to values of the kernel, so it is an analysis rather than an
// attribute; the attribute that passes exchange is the schedule.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_PLAN_KERNELPLAN_H
#define MPC_LIB_TARGET_CUDA_PLAN_KERNELPLAN_H

#include "Schedule.h"

namespace mpc::cuda {

/// A recognized kernel of one family. Refers to the kernel, which must not
/// change as long as the plan is used.
class KernelPlan {
public:
  KernelPlan(mlir::func::FuncOp kernel, const CudaTarget &target)
      : kernel(kernel), target(target) {}
  virtual ~KernelPlan() = default;

  /// Chooses a schedule; nullopt if the family cannot generate the kernel for
  /// this target.
  virtual std::optional<Schedule> schedule() const = 0;
  /// Validates a user-provided schedule: returns the chosen schedule with those
  /// parameters of `given` that the kernel can use, and all that depend on
  /// them.
  virtual std::optional<Schedule> scheduleAs(const Schedule & /*given*/) const {
    return schedule();
  }
  /// Generates the scheduled body. Diagnostics refer to the unsupported op.
  virtual mlir::LogicalResult emit(GpuKernel &gpuKernel) const = 0;

protected:
  /// MLIR's accessors are not const.
  mutable mlir::func::FuncOp kernel;
  CudaTarget target;
};

/// A code generator for one kind of kernel.
struct KernelFamily {
  llvm::StringLiteral name;
  /// Recognizes a kernel; null if it is of another kind.
  std::unique_ptr<KernelPlan> (*plan)(mlir::func::FuncOp kernel,
                                      const CudaTarget &target);
};

/// Returns all families in order of preference, the most specific first.
llvm::ArrayRef<KernelFamily> kernelFamilies();

/// A plan with its schedule.
struct PlannedKernel {
  std::unique_ptr<KernelPlan> plan;
  Schedule schedule;

  /// Plans a kernel by the first family that supports it; nullopt if there is
  /// none.
  static std::optional<PlannedKernel> choose(mlir::func::FuncOp kernel,
                                             const CudaTarget &target);
  /// Plans a kernel for the schedule in its attribute, which may be
  /// user-provided: reports an error if it is malformed or cannot be used.
  static mlir::FailureOr<PlannedKernel> verify(mlir::func::FuncOp kernel,
                                               const CudaTarget &target);
};

/// Analysis of a module: the plans of its kernels. mpc-schedule-kernels
/// computes them; mpc-lower-kernels-to-gpu uses them if it runs in the same
/// pass manager.
class KernelPlans {
public:
  explicit KernelPlans(mlir::Operation * /*module*/) {}

  /// Plans `kernel`: for its schedule attribute, else by choice, and sets the
  /// attribute. Reports an error if no family supports it.
  mlir::FailureOr<const PlannedKernel *> plan(mlir::func::FuncOp kernel,
                                              const CudaTarget &target);

private:
  /// Plans, and the attributes that they were made for.
  std::map<mlir::Operation *, std::pair<mlir::Attribute, PlannedKernel>>
      planned;
};

/// Returns `chosen` with the grid of `given` if that has as many threads. For
/// families with one work item per thread.
Schedule onGridOf(const Schedule &given, Schedule chosen);
/// Returns `chosen` with the thread group of `given` and the launch and memory
/// that follow from it, to be checked against the generated code.
Schedule withTeamOf(const Schedule &given, Schedule chosen);

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

#define MPC_KERNEL_FAMILY(NAME)                                                \
  std::unique_ptr<KernelPlan> plan##NAME(mlir::func::FuncOp kernel,            \
                                         const CudaTarget &target)

/// GEMV and skinny GEMM with quantized weights.
MPC_KERNEL_FAMILY(QuantizedGemv);
MPC_KERNEL_FAMILY(Gemm);
MPC_KERNEL_FAMILY(Convolution);
MPC_KERNEL_FAMILY(Attention);
MPC_KERNEL_FAMILY(AttentionGradient);
/// All time steps of a recurrent layer.
MPC_KERNEL_FAMILY(Recurrence);
/// Filter gradients of convolutions.
MPC_KERNEL_FAMILY(FilterGradient);
/// Row reductions in registers or shared memory: softmax, norms.
MPC_KERNEL_FAMILY(RowReduction);
/// Reductions over other dimensions than the last, and over few long rows.
MPC_KERNEL_FAMILY(ColumnReduction);
/// Transposes through shared memory.
MPC_KERNEL_FAMILY(Transpose);
/// Optimizer updates: parameters and states of any shapes.
MPC_KERNEL_FAMILY(OptimizerUpdate);
/// Finiteness and norm of gradients.
MPC_KERNEL_FAMILY(GradientCheck);
/// Elementwise, data movement, gather, pooling: a vector per thread.
MPC_KERNEL_FAMILY(Elementwise);
/// Fallback: one work item of a loop kernel per thread.
MPC_KERNEL_FAMILY(Fallback);

#undef MPC_KERNEL_FAMILY

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_PLAN_KERNELPLAN_H
