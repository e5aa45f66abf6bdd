//===- AttentionFragments.h - from scores to factors ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In attention and its gradient the sums of one product, a warp's 16 rows of
// scores, are the left factor of the next. They stay in the registers where
// they are: the lane that has the sums of two neighbouring columns has just
// these two words of a left fragment. In tf32 the two stand four columns apart
// in the fragment, so the right factor's rows are read in that order instead.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONFRAGMENTS_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONFRAGMENTS_H

#include "Mma.h"

#include "Target/Kernel/MathExpansion.h"

namespace mpc {

class AttentionFragments {
public:
  /// Factors are rounded to `type`, of which the operands' elements are.
  AttentionFragments(GpuKernel &kernel, MathExpansion &values,
                     cuda::FragmentType type)
      : kernel(kernel), b(kernel.builder), values(values), type(type),
        mma(kernel, type) {}

  /// Finds the lane's place; before any other call.
  void place();

  /// Columns [step * depth, (step + 1) * depth) of `sums` ([1][blocks of 8
  /// columns][4]) as a left fragment, depth being an instruction's. In 16 bits
  /// piece n is what rounding has left of the n pieces before.
  void pack(mlir::Value words, mlir::Value sums, mlir::Value step,
            int64_t piece = 0);

  /// The rows of `tile` ([..][row][column]) that multiply this fragment, as
  /// right fragments of the columns from `firstColumn` on.
  void loadRows(mlir::Value words, mlir::Value tile,
                llvm::ArrayRef<mlir::Value> leading, mlir::Value step,
                mlir::Value firstColumn);

  /// Of the lane (WarpMma).
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

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONFRAGMENTS_H
