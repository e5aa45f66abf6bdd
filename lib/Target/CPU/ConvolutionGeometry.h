//===- ConvolutionGeometry.h - geometry of convolutions ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A convolution with three spatial dimensions; missing ones have extent 1.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_CONVOLUTIONGEOMETRY_H
#define MPC_LIB_TARGET_CPU_CONVOLUTIONGEOMETRY_H

#include "MicroKernel.h"

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include <array>

namespace mpc {
class ConvFilterGradientOp;
class ConvOp;
} // namespace mpc

namespace mpc::cpu {

/// Depth, height, width.
using Spatial = std::array<int64_t, 3>;

struct ConvolutionGeometry {
  /// Fails with a diagnostic for more than three spatial dimensions.
  static mlir::FailureOr<ConvolutionGeometry> get(ConvOp op);
  /// The geometry of the convolution whose filter gradient `op` is.
  static mlir::FailureOr<ConvolutionGeometry> get(ConvFilterGradientOp op);

  unsigned spatialRank = 0;
  bool channelsLast = true;
  int64_t batch = 0, channels = 0, outputs = 0, groups = 1;
  /// Value of padding elements.
  int64_t padValue = 0;
  Spatial in{1, 1, 1}, out{1, 1, 1}, window{1, 1, 1}, stride{1, 1, 1},
      dilation{1, 1, 1}, pad{0, 0, 0};

  int64_t groupChannels() const { return channels / groups; }
  int64_t groupOutputs() const { return outputs / groups; }
  int64_t windowSize() const { return window[0] * window[1] * window[2]; }
  int64_t depth() const { return windowSize() * groupChannels(); }
  /// Number of contiguous window positions and channels in a region:
  /// ConvOp::getContractionRun().
  int64_t run() const {
    return groups == 1 && dilation[2] == 1 ? window[2] * channels
                                           : groupChannels();
  }
  /// Number of input positions along `dim` for `count` output positions.
  int64_t reach(unsigned dim, int64_t count) const {
    return (count - 1) * stride[dim] + (window[dim] - 1) * dilation[dim] + 1;
  }
  /// Returns true if no read is outside the input.
  bool needsNoPadding() const;
  /// Returns true if the result is a GEMM of the input's rows and the filter.
  bool isProduct() const {
    return windowSize() == 1 && groups == 1 && channelsLast &&
           needsNoPadding() && stride == Spatial{1, 1, 1};
  }
  /// Pixels of the input copy for `rows` output rows, and elements.
  int64_t regionPixels(int64_t rows) const {
    return window[0] * reach(1, rows) * reach(2, out[2]);
  }
  int64_t regionElements(int64_t rows) const {
    return regionPixels(rows) * channels;
  }
  /// Returns the indices of a result or input element; a null `channel` is
  /// omitted.
  llvm::SmallVector<mlir::Value> indices(mlir::Value n,
                                         llvm::ArrayRef<mlir::Value> spatial,
                                         mlir::Value channel) const;
  /// Dimension of the channel in input and result.
  unsigned channelDim() const { return channelsLast ? spatialRank + 1 : 1; }
};

/// Blocking of a convolution's output: blocks are up to `rows` pixels of one
/// output row, or several whole rows of a narrow image.
struct PixelBlocks {
  PixelBlocks(const ConvolutionGeometry &g, int64_t rows)
      : columns(g.out[2], rows),
        lines(g.out[1], g.out[2] < rows ? rows / g.out[2] : 1) {}

  RowSplit columns, lines;
};

/// Blocking of a filter's gradient into blocks of `rows` rows. Rows are
/// adjacent in the input: the channels of a group or, if those are few, of all
/// adjacent pixels of a window row (`joined`); `stacked` combines all rows of
/// the window in one block. A unit is one block at one of the window positions
/// `outer`, which a block processes one after another. If the channels of a
/// pixel are not contiguous (`isPlanar`), adjacent pixels are never joined.
struct FilterBlocks {
  FilterBlocks(const ConvolutionGeometry &g, int64_t rows, bool isPlanar);

  bool joined, stacked;
  int64_t line;
  RowSplit split;
  Spatial outer;  ///< window positions of units
  int64_t places; ///< number of these
};

/// The channels copied for the rows of items of `blocks` blocks, in words or
/// elements of `bytes` bytes, and the distance of pixels in the copy.
struct FilterRegion {
  FilterRegion(const ConvolutionGeometry &g, const FilterBlocks &cut,
               int64_t blocks, int64_t bytes);

  int64_t channels, pitch;
};

} // namespace mpc::cpu

#endif // MPC_LIB_TARGET_CPU_CONVOLUTIONGEOMETRY_H
