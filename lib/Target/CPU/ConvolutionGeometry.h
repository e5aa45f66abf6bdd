//===- ConvolutionGeometry.h - extents and padded regions -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A convolution seen as three spatial dimensions (missing ones have extent 1),
// and the copy of the input region that one work item reads: zeros where
// padding was, elements widened to the type of the sums, channels last.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_CONVOLUTIONGEOMETRY_H
#define MPC_LIB_TARGET_CPU_CONVOLUTIONGEOMETRY_H

#include "ContractionSupport.h"

#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"

#include <array>

namespace mpc {

/// Depth, height, width.
using Spatial = std::array<int64_t, 3>;

struct ConvolutionGeometry {
  /// Fails with a diagnostic for more than three spatial dimensions.
  static mlir::FailureOr<ConvolutionGeometry> get(ConvOp op);
  /// That of the convolution whose filter's gradient `op` is.
  static mlir::FailureOr<ConvolutionGeometry> get(ConvFilterGradientOp op);

  unsigned spatialRank = 0;
  bool channelsLast = true;
  int64_t batch = 0, channels = 0, outputs = 0, groups = 1;
  Spatial in{1, 1, 1}, out{1, 1, 1}, window{1, 1, 1}, stride{1, 1, 1},
      dilation{1, 1, 1}, pad{0, 0, 0};

  int64_t groupChannels() const { return channels / groups; }
  int64_t groupOutputs() const { return outputs / groups; }
  int64_t windowSize() const { return window[0] * window[1] * window[2]; }
  int64_t depth() const { return windowSize() * groupChannels(); }
  /// Input positions along `dim` that `count` output positions read.
  int64_t reach(unsigned dim, int64_t count) const {
    return (count - 1) * stride[dim] + (window[dim] - 1) * dilation[dim] + 1;
  }
  /// Whether every read lands inside the input.
  bool needsNoPadding() const;
  /// Indices of a result or input element; `channel` null leaves the channel
  /// out.
  llvm::SmallVector<mlir::Value> indices(mlir::Value n,
                                         llvm::ArrayRef<mlir::Value> spatial,
                                         mlir::Value channel) const;
  /// Dimension of the channel in input and result.
  unsigned channelDim() const { return channelsLast ? spatialRank + 1 : 1; }
};

/// Where a work item finds its input: strides in elements, channels adjacent.
struct InputRegion {
  mlir::Value memory; ///< one-dimensional, in the type of sums
  /// Between window planes, rows and pixels.
  int64_t planeStride = 0, rowStride = 0, pixelStride = 0;
};

/// Provides input regions in place or as copies in scratch.
class RegionReader {
public:
  /// `rows` is the number of output rows that an item computes at most.
  RegionReader(const ContractionKernel &context,
               const ConvolutionGeometry &geometry, mlir::Value input,
               mlir::Type sumType, int64_t rows);

  bool inPlace() const { return readsInPlace; }
  /// Scratch that copies need.
  int64_t scratchBytes() const;
  /// Sets up the memory; `offset` is where the scratch area begins.
  void prepare(mlir::OpBuilder &builder, int64_t offset);
  /// Makes the region for output plane `plane` and rows from `row` on of image
  /// `n` readable, and returns the offset of its first element.
  mlir::FailureOr<mlir::Value> read(mlir::OpBuilder &builder, mlir::Value n,
                                    mlir::Value plane, mlir::Value row);
  const InputRegion &region() const { return layout; }

private:
  mlir::LogicalResult copyRow(mlir::OpBuilder &builder, mlir::Value n,
                              mlir::Value plane, mlir::Value row,
                              mlir::Value target);
  void fillZeros(mlir::OpBuilder &builder, mlir::Value offset, int64_t count);

  const ContractionKernel &context;
  const ConvolutionGeometry &geometry;
  mlir::Value input;
  mlir::Type sumType;
  bool readsInPlace;
  int64_t regionRows, regionColumns;
  InputRegion layout;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CPU_CONVOLUTIONGEOMETRY_H
