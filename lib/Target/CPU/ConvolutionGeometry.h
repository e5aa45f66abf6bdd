//===- ConvolutionGeometry.h - extents of convolutions ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A convolution seen as three spatial dimensions; missing ones have extent 1.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_CONVOLUTIONGEOMETRY_H
#define MPC_LIB_TARGET_CPU_CONVOLUTIONGEOMETRY_H

#include "MicroKernel.h"

#include "mpc/Dialect/Mpc/IR/MpcOps.h"
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
  /// What padding reads.
  int64_t padValue = 0;
  Spatial in{1, 1, 1}, out{1, 1, 1}, window{1, 1, 1}, stride{1, 1, 1},
      dilation{1, 1, 1}, pad{0, 0, 0};

  int64_t groupChannels() const { return channels / groups; }
  int64_t groupOutputs() const { return outputs / groups; }
  int64_t windowSize() const { return window[0] * window[1] * window[2]; }
  int64_t depth() const { return windowSize() * groupChannels(); }
  /// Positions of the window and its channels that are neighbours in a region:
  /// ConvOp::getContractionRun().
  int64_t run() const {
    return groups == 1 && dilation[2] == 1 ? window[2] * channels
                                           : groupChannels();
  }
  /// Input positions along `dim` that `count` output positions read.
  int64_t reach(unsigned dim, int64_t count) const {
    return (count - 1) * stride[dim] + (window[dim] - 1) * dilation[dim] + 1;
  }
  /// Whether every read lands inside the input.
  bool needsNoPadding() const;
  /// Whether rows of the input times the filter are the result.
  bool isProduct() const {
    return windowSize() == 1 && groups == 1 && channelsLast &&
           needsNoPadding() && stride == Spatial{1, 1, 1};
  }
  /// Pixels of the copy of what `rows` lines of the output read, and elements.
  int64_t regionPixels(int64_t rows) const {
    return window[0] * reach(1, rows) * reach(2, out[2]);
  }
  int64_t regionElements(int64_t rows) const {
    return regionPixels(rows) * channels;
  }
  /// Indices of a result or input element; `channel` null leaves the channel
  /// out.
  llvm::SmallVector<mlir::Value> indices(mlir::Value n,
                                         llvm::ArrayRef<mlir::Value> spatial,
                                         mlir::Value channel) const;
  /// Dimension of the channel in input and result.
  unsigned channelDim() const { return channelsLast ? spatialRank + 1 : 1; }
};

/// How a convolution's output is cut: blocks are one line of up to `rows`
/// pixels, or several whole lines of a narrow image.
struct PixelBlocks {
  PixelBlocks(const ConvolutionGeometry &g, int64_t rows)
      : columns(g.out[2], rows),
        lines(g.out[1], g.out[2] < rows ? rows / g.out[2] : 1) {}

  RowSplit columns, lines;
};

/// How a filter's gradient is cut into blocks of `rows` rows. Rows are side by
/// side in the input: the channels of a group, or where those are few of all
/// pixels of a window's line that touch (`joined`); `stacked` puts all lines of
/// the window into one block. A unit is one block at one of the window's
/// positions `outer`, which come one after the other for a block. Where
/// channels of a pixel lie apart (`isPlanar`), no others touch them.
struct FilterBlocks {
  FilterBlocks(const ConvolutionGeometry &g, int64_t rows, bool isPlanar);

  bool joined, stacked;
  int64_t line;
  RowSplit split;
  Spatial outer;  ///< window positions that units run over
  int64_t places; ///< how many these are
};

/// The channels whose rows items of `blocks` blocks keep copies of, in words or
/// elements of `bytes`, and how far pixels of the copy stand apart.
struct FilterRegion {
  FilterRegion(const ConvolutionGeometry &g, const FilterBlocks &cut,
               int64_t blocks, int64_t bytes);

  int64_t channels, pitch;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CPU_CONVOLUTIONGEOMETRY_H
