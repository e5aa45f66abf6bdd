//===- StridedView.h - tensors that are views of an argument ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a kernel reads an operand through reshapes, slices, transposes and
// broadcasts of one of its arguments, the operand's elements stand at a linear
// function of their indices; and how many neighbours of a computed tensor can
// be read with aligned vectors.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_STRIDEDVIEW_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_STRIDEDVIEW_H

#include "Target/Kernel/IndexMath.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace mpc {

/// A tensor whose element at indices i is element offset + sum of i * strides
/// of a kernel argument. Dimensions of extent 1 have stride 0.
struct StridedView {
  mlir::BlockArgument argument;
  llvm::SmallVector<int64_t> strides;
  int64_t offset = 0;

  /// nullopt where `tensor` is computed, or no such function exists.
  static std::optional<StridedView> of(mlir::Value tensor);

  /// The largest power of two, at most `most`, such that runs along dimension
  /// `dim` that begin at multiples of it are contiguous and aligned to their
  /// length; `extent` is the dimension's.
  int64_t alignedRun(unsigned dim, int64_t extent, int64_t most) const;

  /// The position in the argument of the element at `indices`.
  mlir::Value offsetAt(const IndexMath &math, mlir::ValueRange indices) const;

  /// The stride of dimensions [begin, end) seen as one, where there is one.
  std::optional<int64_t> joinedStride(llvm::ArrayRef<int64_t> shape,
                                      unsigned begin, unsigned end) const;
};

/// The largest power of two, at most `most`, such that runs of `tensor` along
/// its last dimension that begin at multiples of it are computed from whole
/// aligned vectors. Tensors in `known` have the run given there.
int64_t alignedRunOf(mlir::Value tensor, int64_t most,
                     const llvm::DenseMap<mlir::Value, int64_t> &known =
                         llvm::DenseMap<mlir::Value, int64_t>());

/// The largest power of two up to `most` that divides `value` (`most` for 0).
int64_t powerOfTwoIn(int64_t value, int64_t most);

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_STRIDEDVIEW_H
