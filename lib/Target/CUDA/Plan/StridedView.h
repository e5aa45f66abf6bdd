//===- StridedView.h - strided views of kernel arguments --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operands that a kernel reads through reshapes, slices, transposes and
// broadcasts of an argument, as offset and strides; and the widest aligned
// vector loads of computed tensors.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_PLAN_STRIDEDVIEW_H
#define MPC_LIB_TARGET_CUDA_PLAN_STRIDEDVIEW_H

#include "Target/Kernel/IndexMath.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace mpc::cuda {

/// A tensor whose element at indices i is element offset + sum(i * strides) of
/// a kernel argument. Dimensions of extent 1 have stride 0.
struct StridedView {
  mlir::BlockArgument argument;
  llvm::SmallVector<int64_t> strides;
  int64_t offset = 0;

  /// Returns the view, or nullopt if `tensor` is computed or not strided.
  static std::optional<StridedView> of(mlir::Value tensor);

  /// Returns the largest power of two, at most `most`, such that runs of that
  /// length at multiples of it along dimension `dim`, of extent `extent`, are
  /// contiguous and aligned to their size.
  int64_t alignedRun(unsigned dim, int64_t extent, int64_t most) const;

  /// Returns the offset in the argument of the element at `indices`.
  mlir::Value offsetAt(const IndexMath &math, mlir::ValueRange indices) const;

  /// Returns the stride of dimensions [begin, end) collapsed into one, if any.
  std::optional<int64_t> joinedStride(llvm::ArrayRef<int64_t> shape,
                                      unsigned begin, unsigned end) const;
};

/// Returns the largest power of two, at most `most`, such that runs of that
/// length at multiples of it along the last dimension of `tensor` are computed
/// from whole aligned vectors. Tensors in `known` have the given run length.
int64_t alignedRunOf(mlir::Value tensor, int64_t most,
                     const llvm::DenseMap<mlir::Value, int64_t> &known =
                         llvm::DenseMap<mlir::Value, int64_t>());

/// Returns the largest power of two up to `most` that divides `value` (`most`
/// for 0).
int64_t powerOfTwoIn(int64_t value, int64_t most);

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_PLAN_STRIDEDVIEW_H
