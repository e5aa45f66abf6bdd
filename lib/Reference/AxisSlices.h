//===- AxisSlices.h - 1-D slices of a tensor along an axis ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_REFERENCE_AXISSLICES_H
#define MPC_LIB_REFERENCE_AXISSLICES_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

namespace mpc::reference {

/// The 1-D slices of a contiguous tensor along one axis, in row-major order of
/// the other dimensions.
struct AxisSlices {
  AxisSlices(llvm::ArrayRef<int64_t> shape, int64_t axis)
      : count(productOf(shape.take_front(axis)) *
              productOf(shape.drop_front(axis + 1))),
        extent(shape[axis]), stride(productOf(shape.drop_front(axis + 1))) {}

  /// Offset of a slice's first element.
  int64_t base(int64_t line) const {
    return line / stride * stride * extent + line % stride;
  }

  /// Calls `fn(slice index, offset of its first element)`.
  template <typename Fn> void run(Fn fn) const {
    for (int64_t line = 0; line < count; ++line)
      fn(line, base(line));
  }

  int64_t count;
  /// Number of elements of a slice.
  int64_t extent;
  /// Stride between elements of a slice.
  int64_t stride;
};

} // namespace mpc::reference

#endif // MPC_LIB_REFERENCE_AXISSLICES_H
