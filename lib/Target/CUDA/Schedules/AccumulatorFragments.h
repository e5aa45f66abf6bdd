//===- AccumulatorFragments.h - accumulators as mma operands ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Back-to-back GEMMs in attention and its gradient: the accumulators of the
// first (a warp's 16 rows of scores) are the left operand of the second and
// stay in registers: a lane's accumulators of two adjacent columns are exactly
// its two words of a left fragment. In tf32 these are four columns apart in the
// fragment, so the rows of the right operand are permuted instead.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_ACCUMULATORFRAGMENTS_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_ACCUMULATORFRAGMENTS_H

#include "Mma.h"

#include "Target/Kernel/MathExpansion.h"

namespace mpc::cuda {

class AccumulatorFragments {
public:
  /// Operands are rounded to `type`, the type of the tensors.
  AccumulatorFragments(GpuKernel &kernel, MathExpansion &values,
                       cuda::FragmentType type)
      : kernel(kernel), b(kernel.builder), values(values), type(type),
        mma(kernel, type) {}

  /// Computes the lane's indices; must be called first.
  void place();

  /// Packs columns [step * depth, (step + 1) * depth) of `sums` ([1][8-column
  /// blocks][4]) into a left fragment; depth is an instruction's k. In 16 bits,
  /// piece n is the rounding residual of the n previous pieces.
  void pack(mlir::Value words, mlir::Value sums, mlir::Value step,
            int64_t piece = 0);

  /// Loads the matching rows of `tile` ([..][row][column]) as right fragments,
  /// for columns from `firstColumn` on.
  void loadRows(mlir::Value words, mlir::Value tile,
                llvm::ArrayRef<mlir::Value> leading, mlir::Value step,
                mlir::Value firstColumn);

  /// Lane layout (WarpMma).
  mlir::Value group, pair;

private:
  void packWords(mlir::Value words, mlir::Value sums, mlir::Value step,
                 int64_t piece);
  void packTf32(mlir::Value words, mlir::Value sums, mlir::Value step);
  mlir::Value call(llvm::StringRef name, mlir::ValueRange arguments);

  GpuKernel &kernel;
  mlir::OpBuilder &b;
  MathExpansion &values;
  cuda::FragmentType type;
  WarpMma mma;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_ACCUMULATORFRAGMENTS_H
