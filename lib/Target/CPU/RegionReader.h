//===- RegionReader.h - padded parts of an image ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The input region that one work item of a convolution reads, in place or as a
// copy: zeros where padding was, elements in the type that is multiplied,
// channels last.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_REGIONREADER_H
#define MPC_LIB_TARGET_CPU_REGIONREADER_H

#include "ContractionEmitter.h"

namespace mpc {

class RegionReader {
public:
  /// Sets up memory for what `rows` lines of the output read of the left
  /// operand. With a `distance` each element stands in a word together with the
  /// one that is so many elements behind it in its line.
  RegionReader(ContractionEmitter &emitter, int64_t rows, int64_t distance = 0);

  /// Makes the region for output plane `plane` and lines from `row` on of image
  /// `n` readable, and returns the offset of its first element.
  mlir::Value read(mlir::Value n, mlir::Value plane, mlir::Value row);

  /// One-dimensional, in the type of rows or, with a distance, of words.
  mlir::Value memory;
  /// Between window planes, lines and pixels; channels are adjacent.
  int64_t planeStride, rowStride, pixelStride;

private:
  void copyRow(mlir::Value n, mlir::Value plane, mlir::Value row,
               mlir::Value memory, mlir::Value target);
  void pairRow(mlir::Value target);
  void fillZeros(mlir::Value memory, mlir::Value offset, int64_t count);

  ContractionEmitter &e;
  const IndexMath &math;
  const ConvolutionGeometry &g;
  int64_t regionRows, regionColumns, distance;
  mlir::Value line; ///< of factors, before they are put together in pairs
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CPU_REGIONREADER_H
