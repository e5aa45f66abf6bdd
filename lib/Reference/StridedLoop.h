//===- StridedLoop.h - iterate over several tensors -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A loop nest for broadcasts, permutations, slices and reductions.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_REFERENCE_STRIDEDLOOP_H
#define MPC_LIB_REFERENCE_STRIDEDLOOP_H

#include "mpc/Reference/Tensor.h"

#include "llvm/ADT/SmallVector.h"

#include <array>

namespace mpc::reference {

/// Strides of a contiguous row-major tensor.
llvm::SmallVector<int64_t> rowMajorStrides(llvm::ArrayRef<int64_t> shape);

/// Strides that read a tensor of `shape` broadcast to `target`: 0 for extents
/// of 1 and missing leading dimensions.
llvm::SmallVector<int64_t> broadcastStrides(llvm::ArrayRef<int64_t> shape,
                                            llvm::ArrayRef<int64_t> target);

/// Calls a function for every index of a shape in row-major order, with the
/// offsets of `N` strided operands. Adjacent dimensions that are contiguous in
/// all operands are merged first, so that equal shapes run as one loop.
template <size_t N> class StridedLoop {
public:
  using Offsets = std::array<int64_t, N>;

  StridedLoop(llvm::ArrayRef<int64_t> fullShape,
              const std::array<llvm::SmallVector<int64_t>, N> &fullStrides) {
    for (size_t dim = 0; dim < fullShape.size(); ++dim) {
      if (fullShape[dim] == 1)
        continue;
      Offsets stride;
      for (size_t i = 0; i < N; ++i)
        stride[i] = fullStrides[i][dim];
      bool merge = !shape.empty();
      for (size_t i = 0; i < N && merge; ++i)
        merge = strides.back()[i] == stride[i] * fullShape[dim];
      if (merge) {
        shape.back() *= fullShape[dim];
        strides.back() = stride;
      } else {
        shape.push_back(fullShape[dim]);
        strides.push_back(stride);
      }
    }
    if (shape.empty()) {
      shape.push_back(1);
      strides.push_back(Offsets{});
    }
  }

  /// Calls `fn(position, offsets)`; offsets start at 0.
  template <typename Fn> void run(Fn fn) const {
    int64_t count = 1;
    for (int64_t extent : shape)
      count *= extent;
    if (count == 0)
      return;
    size_t last = shape.size() - 1;
    const int64_t inner = shape[last];
    const Offsets innerStride = strides[last];
    llvm::SmallVector<int64_t> index(last, 0);
    Offsets base{};
    for (int64_t position = 0; position < count;) {
      Offsets offsets = base;
      for (int64_t i = 0; i < inner; ++i, ++position) {
        fn(position, offsets);
        for (size_t n = 0; n < N; ++n)
          offsets[n] += innerStride[n];
      }
      for (size_t dim = last; dim-- > 0;) {
        for (size_t n = 0; n < N; ++n)
          base[n] += strides[dim][n];
        if (++index[dim] < shape[dim])
          break;
        for (size_t n = 0; n < N; ++n)
          base[n] -= strides[dim][n] * shape[dim];
        index[dim] = 0;
      }
    }
  }

private:
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<Offsets> strides;
};

/// Calls `fn(source elements, target elements)` for two tensors of one kind
/// (both float or both integer).
template <typename Fn>
void visitElements(const Tensor &source, Tensor &target, Fn fn) {
  if (source.isFloat())
    fn(source.floats(), target.floats());
  else
    fn(source.ints(), target.ints());
}

/// `target[position] = source[base + strides . index(position)]`.
void copyStrided(const Tensor &source, int64_t base,
                 llvm::ArrayRef<int64_t> strides, Tensor &target);

} // namespace mpc::reference

#endif // MPC_LIB_REFERENCE_STRIDEDLOOP_H
