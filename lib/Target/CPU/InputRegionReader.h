//===- InputRegionReader.h - padded convolution inputs ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The input region that one work item of a convolution reads, in place or as a
// copy: with padding values, in the operand type, channels last.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_INPUTREGIONREADER_H
#define MPC_LIB_TARGET_CPU_INPUTREGIONREADER_H

#include "ContractionEmitter.h"

namespace mpc::cpu {

class InputRegionReader {
public:
  /// Layout of a pixel in a copy.
  struct Pixels {
    int64_t channels = 0; ///< number of channels
    int64_t pitch = 0;    ///< elements between pixels
    /// If not 0, each element is combined in a word with that of the pixel at
    /// this distance in its row.
    int64_t distance = 0;
    /// Whether channels of a row are planar, with contiguous pixels; not for
    /// pairs. `pitch` is that of a row before the transposition.
    bool isPlanar = false;
  };

  /// Allocates memory for the input region (with halo) that `rows` output rows
  /// read, one copy for each of `images` images of the batch.
  InputRegionReader(ContractionEmitter &emitter, int64_t rows,
                    std::optional<Pixels> layout = std::nullopt,
                    int64_t images = 1);

  /// Makes the region of image `n` for output plane `plane` and rows from `row`
  /// on, channels from `channel` on, readable as copy `image`. Returns the
  /// offset of its first pixel's channel 0, which may precede the memory.
  mlir::Value read(mlir::Value n, mlir::Value plane, mlir::Value row,
                   mlir::Value channel = {}, mlir::Value image = {});

  /// One-dimensional, in the type of rows or, with a distance, of words.
  mlir::Value memory;
  /// Strides of copies, window planes, rows, pixels and channels, in elements.
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
  /// Returns the offset of a row of the input in its memory.
  mlir::Value lineOf(mlir::Value n, mlir::Value plane, mlir::Value row);
  void fillPadding(mlir::Value memory, mlir::Value offset, int64_t count);

  ContractionEmitter &e;
  const IndexMath &math;
  const ConvolutionGeometry &g;
  Pixels pixels;
  int64_t regionRows, regionColumns;
  /// Pixels of a copied row: left padding, then `valid` pixels from `first` on.
  int64_t left, first, valid;
  /// Elements between pixels of a row being copied.
  int64_t copyStride;
  /// For pairs: the input if it is stored, else a row of operands before they
  /// are combined. For planes: a row before it is transposed.
  mlir::Value stored, line;
};

} // namespace mpc::cpu

#endif // MPC_LIB_TARGET_CPU_INPUTREGIONREADER_H
