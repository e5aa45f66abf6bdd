//===- RegionReader.h - padded parts of an image ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The input region that one work item of a convolution reads, in place or as a
// copy: what padding reads where that was, elements in the type that is
// multiplied, channels last.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_REGIONREADER_H
#define MPC_LIB_TARGET_CPU_REGIONREADER_H

#include "ContractionEmitter.h"

namespace mpc {

class RegionReader {
public:
  /// What a copy holds of a pixel.
  struct Pixels {
    int64_t channels = 0; ///< so many
    int64_t pitch = 0;    ///< between pixels
    /// Where not 0, each element stands in a word together with that of the
    /// pixel that is so many behind it in its line.
    int64_t distance = 0;
    /// Whether pixels of a line are neighbours, its channels one after another;
    /// not of pairs. `pitch` is that of a line on its way there.
    bool isPlanar = false;
  };

  /// Sets up memory for what `rows` lines of the output read of the left
  /// operand, `images` times.
  RegionReader(ContractionEmitter &emitter, int64_t rows);
  RegionReader(ContractionEmitter &emitter, int64_t rows, Pixels pixels,
               int64_t images = 1);

  /// Makes the region for output plane `plane` and lines from `row` on of image
  /// `n` readable, with the channels from `channel` on, as copy number `image`,
  /// and returns the offset of its first pixel's channel 0, which may lie
  /// before the memory.
  mlir::Value read(mlir::Value n, mlir::Value plane, mlir::Value row,
                   mlir::Value channel = {}, mlir::Value image = {});

  /// One-dimensional, in the type of rows or, with a distance, of words.
  mlir::Value memory;
  /// Between copies, window planes, lines, pixels and channels.
  int64_t imageStride, planeStride, rowStride, pixelStride, channelStride;

private:
  void copyLines(mlir::Value n, mlir::Value plane, mlir::Value row,
                 mlir::Value channel, mlir::Value copy);
  void copyRow(mlir::Value n, mlir::Value plane, mlir::Value row,
               mlir::Value channel, mlir::Value memory, mlir::Value target);
  void pairRow(mlir::Value target);
  void turnRow(mlir::Value target);
  void pairStored(mlir::Value n, mlir::Value plane, mlir::Value row,
                  mlir::Value channel, mlir::Value target);
  /// The offset of a line of the input in its memory.
  mlir::Value lineOf(mlir::Value n, mlir::Value plane, mlir::Value row);
  void fillPadding(mlir::Value memory, mlir::Value offset, int64_t count);

  ContractionEmitter &e;
  const IndexMath &math;
  const ConvolutionGeometry &g;
  Pixels pixels;
  int64_t regionRows, regionColumns;
  /// Pixels of a copied line: padding on the left, then those from `first` on.
  int64_t left, first, valid;
  /// Between pixels of a line that is copied.
  int64_t copyStride;
  /// Of pairs: the input where it lies in memory, else a line of factors before
  /// they are put together. Of planes: a line before it is turned.
  mlir::Value stored, line;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CPU_REGIONREADER_H
