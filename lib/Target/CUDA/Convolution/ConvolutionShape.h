//===- ConvolutionShape.h - extents of a convolution ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_CONVOLUTION_CONVOLUTIONSHAPE_H
#define MPC_LIB_TARGET_CUDA_CONVOLUTION_CONVOLUTIONSHAPE_H

#include "Target/Kernel/IndexMath.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include <array>

namespace mpc {
class ConvFilterGradientOp;
class ConvOp;
} // namespace mpc

namespace mpc::cuda {

/// A convolution with one to three spatial dimensions, padded to three by
/// leading extents of 1.
struct ConvolutionShape {
  using Spatial = std::array<int64_t, 3>;

  unsigned rank = 0;
  bool channelsLast = true;
  int64_t batch = 0, channels = 0, outputs = 0, groups = 1;
  Spatial in{1, 1, 1}, out{1, 1, 1}, window{1, 1, 1}, stride{1, 1, 1},
      dilation{1, 1, 1}, pad{0, 0, 0};

  /// Returns nullopt for other ranks.
  static std::optional<ConvolutionShape> of(ConvOp op);
  /// Returns the shape of the forward convolution of a filter gradient.
  static std::optional<ConvolutionShape> of(ConvFilterGradientOp op);

  int64_t groupChannels() const { return channels / groups; }
  int64_t groupOutputs() const { return outputs / groups; }
  int64_t windowSize() const { return window[0] * window[1] * window[2]; }
  int64_t pixels() const { return batch * out[0] * out[1] * out[2]; }

  /// Dimension of the channels in input and result, and of spatial dimension
  /// `dim` (0 to 2; at least 3 - rank).
  unsigned channelDim() const { return channelsLast ? rank + 1 : 1; }
  unsigned spatialDim(unsigned dim) const {
    return dim + rank - 3 + (channelsLast ? 1 : 2);
  }

  /// Input position for an output pixel [n, d, h, w] and a window position [d,
  /// h, w], and whether it is in bounds (null: always).
  struct Position {
    std::array<mlir::Value, 3> spatial;
    mlir::Value inside;
  };
  Position inputPosition(const IndexMath &math, mlir::ValueRange pixel,
                         mlir::ValueRange place) const;
  /// Returns the indices into the input or the result.
  llvm::SmallVector<mlir::Value> indices(mlir::Value image,
                                         mlir::ValueRange spatial,
                                         mlir::Value channel) const;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_CONVOLUTION_CONVOLUTIONSHAPE_H
