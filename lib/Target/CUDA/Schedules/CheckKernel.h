//===- CheckKernel.h - kernels that look at all gradients -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to this folder: what a check kernel computes, and how it is written.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_CHECKKERNEL_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_CHECKKERNEL_H

#include "Schedule.h"

#include "Target/Kernel/LoopKernels.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

namespace mpc {

/// One all_finite or global_norm.
struct GradientCheck {
  mlir::Operation *op;
  llvm::SmallVector<mlir::Value> gradients;
  mlir::Value unscale;
  bool divides = false, isNorm = false;
  /// Of what is summed.
  mlir::Type type;
};

/// All of one kernel, and where they leave what in the scratch buffer: counts
/// of blocks, one flag per gradient of each all_finite, one number per block
/// of each global_norm.
struct CheckPlan {
  static std::optional<CheckPlan> of(mlir::func::FuncOp kernel);

  llvm::SmallVector<GradientCheck> checks;
  /// Each argument that is walked, with the gradients that are made of it: the
  /// number of the check, of the gradient in it, and its value.
  struct Use {
    size_t check, number;
    mlir::Value value;
  };
  llvm::MapVector<mlir::Value, llvm::SmallVector<Use>> walks;

  int64_t lanesOf(mlir::Value argument) const;
  int64_t items(mlir::Value argument) const {
    return llvm::divideCeil(elementCount(argument), lanesOf(argument));
  }
  /// The schedule's parameter that has the blocks of a walk.
  static std::string parameterOf(size_t walk);
  /// Offsets into the scratch buffer by check; `bytes` is its size.
  llvm::SmallVector<int64_t> offsets(int64_t blocks, int64_t &bytes) const;
};

/// Writes the kernel of a plan.
class CheckEmitter {
public:
  CheckEmitter(GpuKernel &kernel, CheckPlan &plan)
      : kernel(kernel), plan(plan), builder(kernel.builder), loc(kernel.loc),
        emitter(builder, loc, cudaElementTarget()), math(builder, loc),
        index{builder, loc} {}
  mlir::LogicalResult run();

private:
  mlir::LogicalResult walk(mlir::Value argument, int64_t first, int64_t blocks);
  mlir::FailureOr<mlir::Value> unscaled(const GradientCheck &check,
                                        mlir::Value value);
  void leave(const CheckPlan::Use &use, mlir::Value sum);
  void finish();
  void finishNorm(size_t check);
  /// What the blocks [first, first + blocks) left of one tensor, or its norm,
  /// at `place`; by one warp.
  void joinTensor(size_t check, int64_t first, int64_t blocks,
                  mlir::Value ofTensors, size_t place);
  void finishFlags(size_t check);
  /// The sums over a warp's and a block's threads, in the first of them.
  mlir::Value sumOfWarp(mlir::Value own);
  mlir::Value sumOfBlock(mlir::Value own);
  mlir::Value isFirstThread();
  /// Moves the builder into a new `if`.
  void enter(mlir::Value condition);
  mlir::Value zero() { return emitter.index(0); }

  GpuKernel &kernel;
  CheckPlan &plan;
  mlir::OpBuilder &builder;
  mlir::Location loc;
  ElementEmitter emitter;
  ValueMath math;
  IndexMath index;
  /// The counter of blocks, and each check's part of the scratch buffer.
  mlir::Value counters;
  llvm::SmallVector<mlir::Value> left;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_CHECKKERNEL_H
