//===- ConvolutionHalo.h - input region of an output tile -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_CONVOLUTIONHALO_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_CONVOLUTIONHALO_H

#include "ConvolutionShape.h"
#include "StridedView.h"

namespace mpc::cuda {

/// Memory range of an image (tile plus halo) read by consecutive output pixels.
class ConvolutionHalo {
public:
  ConvolutionHalo(const ConvolutionShape &shape, const StridedView &view);

  /// Returns the maximum extent, in elements, of the range read by `pixels`
  /// consecutive output pixels, starting at multiples of `pixels`; 0 if ranges
  /// do not start in pixel order.
  int64_t elements(int64_t pixels) const;
  /// Returns an offset at or before the start of the range at `pixel`.
  mlir::Value begin(const IndexMath &math, mlir::Value pixel) const;

private:
  /// Returns the offset of the first window element of a pixel, without
  /// padding.
  int64_t startOf(int64_t pixel) const;

  ConvolutionShape shape;
  int64_t offset = 0, imageStride = 0, padding = 0, reach = 0;
  /// Distance of adjacent output pixels per dimension, in elements.
  ConvolutionShape::Spatial steps{};
  bool inOrder = true;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_CONVOLUTIONHALO_H
