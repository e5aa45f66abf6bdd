//===- ConvolutionHalo.h - the image that a block's windows see -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_CONVOLUTIONHALO_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_CONVOLUTIONHALO_H

#include "ConvolutionShape.h"
#include "StridedView.h"

namespace mpc {

/// Where in the memory of an image lies what neighbouring output pixels read.
class ConvolutionHalo {
public:
  ConvolutionHalo(const ConvolutionShape &shape, const StridedView &view);

  /// The most elements from the first to the last that a run of `pixels` reads,
  /// of those that begin at multiples of `pixels`; 0 where later pixels may
  /// begin earlier.
  int64_t elements(int64_t pixels) const;
  /// No later than the first that the run at `pixel` reads.
  mlir::Value begin(const IndexMath &math, mlir::Value pixel) const;

private:
  /// The element at the first place of a pixel's window, but for the padding.
  int64_t startOf(int64_t pixel) const;

  ConvolutionShape shape;
  int64_t offset = 0, imageStride = 0, padding = 0, reach = 0;
  /// Elements between neighbouring output pixels of each dimension.
  ConvolutionShape::Spatial steps{};
  bool inOrder = true;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_CONVOLUTIONHALO_H
