//===- Sampling.h - reading between the elements of an image ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A sample is a weighted sum of the elements around a place. Each of these taps
// is one gather over the flattened image, its index and weight computed by
// elementwise ops, dimension by dimension.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_SAMPLING_H
#define MPC_LIB_IMPORT_ONNX_SAMPLING_H

#include "NodeImport.h"

namespace mpc::onnx {

/// What lies outside an image.
enum class Padding { Zeros, Border, Reflection };

/// One element that a sample reads: its index in the flattened image (i64), and
/// its weight (null means 1).
struct Tap {
  mlir::Value index, weight;
};

/// Arithmetic on positions of one spatial dimension: 0 is the centre of its
/// first element, `extent` - 1 that of its last. `type` is that of positions.
class SampleAxis {
public:
  /// Reflection turns at the centres of the outer elements where it is
  /// `aligned`, else at their edges.
  SampleAxis(NodeImport &n, int64_t extent, Padding padding, mlir::Type type,
             bool aligned = true)
      : n(n), extent(extent), padding(padding), type(type),
        low(aligned ? 0.0 : -0.5), high(double(extent) - (aligned ? 1 : 0.5)) {}

  mlir::Value number(double value) { return n.scalar(value, type); }
  mlir::Value scale(mlir::Value x, double factor) {
    return n.op<MulOp>({x, number(factor)});
  }
  /// Brings positions beyond the borders back, unless they read zeros.
  mlir::Value bringInside(mlir::Value x);
  /// The one element at whole positions `x`.
  Tap at(mlir::Value x, mlir::Value weight = nullptr);
  /// The two elements around `x`, weighted by how near they lie.
  llvm::SmallVector<Tap> linear(mlir::Value x);

  NodeImport &n;
  const int64_t extent;

private:
  mlir::Value clamp(mlir::Value x);
  mlir::Value reflect(mlir::Value x);
  mlir::Value weightInside(mlir::Value x);

  Padding padding;
  mlir::Type type;
  double low, high;
};

/// All pairs of taps of the dimensions before and of one more, whose elements
/// lie `stride` apart in the flattened image.
llvm::SmallVector<Tap> combineTaps(NodeImport &n, llvm::ArrayRef<Tap> before,
                                   llvm::ArrayRef<Tap> taps, int64_t stride);

/// The sum of the taps of `image` [..., places], whose indices and weights are
/// [..., samples] and broadcast over the dimensions before.
mlir::Value sumOfTaps(NodeImport &n, mlir::Value image,
                      llvm::ArrayRef<Tap> taps);

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_SAMPLING_H
