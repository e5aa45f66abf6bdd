//===- Sampling.h - interpolated sampling of images -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A sample is a weighted sum of neighboring elements. Each of these taps is one
// gather from the flattened image, with index and weight computed per dimension
// by elementwise ops.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_SAMPLING_H
#define MPC_LIB_IMPORT_ONNX_SAMPLING_H

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"

#include "NodeImport.h"

namespace mpc::onnx {

/// Values outside of an image.
enum class Padding { Zeros, Border, Reflection };

/// One element of a sample: index in the flattened image (i64) and weight (null
/// means 1).
struct Tap {
  mlir::Value index, weight;
};

/// Positions along one spatial dimension: 0 is the center of the first element,
/// `extent` - 1 that of the last. `type` is the positions' type.
class SampleAxis {
public:
  /// Reflects at the centers of the border elements if `aligned`, else at their
  /// edges.
  SampleAxis(NodeImport &n, int64_t extent, Padding padding, mlir::Type type,
             bool aligned = true)
      : n(n), extent(extent), padding(padding), type(type),
        low(aligned ? 0.0 : -0.5), high(double(extent) - (aligned ? 1 : 0.5)) {}

  mlir::Value number(double value) { return n.scalar(value, type); }
  mlir::Value scale(mlir::Value x, double factor) {
    return n.op<MulOp>({x, number(factor)});
  }
  /// Clamps or reflects positions outside, unless padding is zeros.
  mlir::Value mapIntoExtent(mlir::Value x);
  /// Returns the single tap at whole positions `x`.
  Tap at(mlir::Value x, mlir::Value weight = nullptr);
  /// Returns the two taps of linear interpolation at `x`.
  llvm::SmallVector<Tap> linear(mlir::Value x);

  NodeImport &n;
  const int64_t extent;

private:
  mlir::Value clamp(mlir::Value x);
  mlir::Value reflect(mlir::Value x);
  mlir::Value zeroPaddingWeight(mlir::Value x);

  Padding padding;
  mlir::Type type;
  double low, high;
};

/// Returns all pairs of taps of the previous dimensions and one more, whose
/// stride in the flattened image is `stride`.
llvm::SmallVector<Tap> combineTaps(NodeImport &n, llvm::ArrayRef<Tap> before,
                                   llvm::ArrayRef<Tap> taps, int64_t stride);

/// Sums the taps of `image` [..., places]; indices and weights are [...,
/// samples] and broadcast over leading dimensions.
mlir::Value sumOfTaps(NodeImport &n, mlir::Value image,
                      llvm::ArrayRef<Tap> taps);

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_SAMPLING_H
