//===- RegionReader.h - padded parts of an image ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The input region that one work item of a convolution reads, in place or as a
// copy: zeros where padding was, elements widened to the type of the sums,
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
  /// operand.
  RegionReader(ContractionEmitter &emitter, int64_t rows);

  /// Makes the region for output plane `plane` and lines from `row` on of image
  /// `n` readable, and returns the offset of its first element.
  mlir::Value read(mlir::Value n, mlir::Value plane, mlir::Value row);

  mlir::Value memory; ///< one-dimensional, in the type of sums
  /// Between window planes, lines and pixels; channels are adjacent.
  int64_t planeStride, rowStride, pixelStride;

private:
  void copyRow(mlir::Value n, mlir::Value plane, mlir::Value row,
               mlir::Value target);
  void fillZeros(mlir::Value offset, int64_t count);

  ContractionEmitter &e;
  const IndexMath &math;
  const ConvolutionGeometry &g;
  int64_t regionRows, regionColumns;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CPU_REGIONREADER_H
