//===- GradientCheckKernel.h - kernels of gradient checks -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Analysis and codegen of gradient checks. Private to this folder.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_GRADIENTCHECKKERNEL_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_GRADIENTCHECKKERNEL_H

#include "Schedule.h"

#include "Target/Kernel/LoopKernels.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

namespace mpc {

/// One all_finite or global_norm op.
struct GradientCheck {
  mlir::Operation *op;
  llvm::SmallVector<mlir::Value> gradients;
  mlir::Value unscale;
  bool divides = false, isNorm = false;
  /// Type of the accumulators.
  mlir::Type type;
};

/// All checks of one kernel. Layout of the scratch buffer: arrival counter, one
/// flag per gradient of each all_finite, one partial sum per block of each
/// global_norm.
struct GradientCheckPlan {
  static std::optional<GradientCheckPlan> of(mlir::func::FuncOp kernel);

  llvm::SmallVector<GradientCheck> checks;
  /// Arguments to traverse, each with the gradients that use it: index of the
  /// check, index of the gradient in it, and its value.
  struct Use {
    size_t check, number;
    mlir::Value value;
  };
  llvm::MapVector<mlir::Value, llvm::SmallVector<Use>> walks;

  int64_t lanesOf(mlir::Value argument) const;
  int64_t items(mlir::Value argument) const {
    return llvm::divideCeil(elementCount(argument), lanesOf(argument));
  }
  /// Returns the name of the schedule parameter with the blocks of an argument.
  static std::string parameterOf(size_t walk);
  /// Returns the scratch offset of each check; sets `bytes` to the total size.
  llvm::SmallVector<int64_t> offsets(int64_t blocks, int64_t &bytes) const;
};

/// Generates the kernel.
class GradientCheckEmitter {
public:
  GradientCheckEmitter(GpuKernel &kernel, GradientCheckPlan &plan)
      : kernel(kernel), plan(plan), builder(kernel.builder), loc(kernel.loc),
        emitter(builder, loc, cudaElementTarget()), math(builder, loc),
        index{builder, loc} {}
  mlir::LogicalResult run();

private:
  mlir::LogicalResult walk(mlir::Value argument, int64_t first, int64_t blocks);
  mlir::FailureOr<mlir::Value> unscaled(const GradientCheck &check,
                                        mlir::Value value);
  void leave(const GradientCheckPlan::Use &use, mlir::Value sum);
  void finish();
  void finishNorm(size_t check);
  /// Reduces the partial sums of the blocks [first, first + blocks) for one
  /// tensor, and stores the sum or norm at `place`; by one warp.
  void joinTensor(size_t check, int64_t first, int64_t blocks,
                  mlir::Value ofTensors, size_t place);
  void finishFlags(size_t check);
  /// Sums over the threads of a warp and of a block, in the first thread.
  mlir::Value sumOfWarp(mlir::Value own);
  mlir::Value sumOfBlock(mlir::Value own);
  mlir::Value isFirstThread();
  /// Moves the insertion point into a new `if`.
  void enter(mlir::Value condition);
  mlir::Value zero() { return emitter.index(0); }

  GpuKernel &kernel;
  GradientCheckPlan &plan;
  mlir::OpBuilder &builder;
  mlir::Location loc;
  ElementEmitter emitter;
  ValueMath math;
  IndexMath index;
  /// Arrival counter, and the scratch array of each check.
  mlir::Value counters;
  llvm::SmallVector<mlir::Value> left;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_GRADIENTCHECKKERNEL_H
