//===- WindowAttributes.h - windows of convolutions and pools ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_WINDOWATTRIBUTES_H
#define MPC_LIB_IMPORT_ONNX_WINDOWATTRIBUTES_H

#include "NodeImport.h"

namespace mpc::onnx {

/// Attributes of a sliding window, one entry per spatial dimension, with
/// resolved padding.
struct Window {
  llvm::SmallVector<int64_t> kernel, strides, dilations, low, high;
  /// True if `auto_pad` determined the padding (SAME_UPPER or SAME_LOWER).
  bool same = false, sameUpper = false;
  bool automatic = false;

  int64_t rank() const { return int64_t(kernel.size()); }
  /// Returns the extent of the dilated window in dimension `i`.
  int64_t reach(int64_t i) const { return (kernel[i] - 1) * dilations[i] + 1; }
  /// Returns the attributes strides, pad_low, pad_high, dilations.
  llvm::SmallVector<mlir::NamedAttribute> attributes(NodeImport &n) const;
};

/// Reads strides, dilations, pads and auto_pad of `n`. `kernel` is the window,
/// `spatial` the input's spatial extents (for SAME padding). Errors are sticky
/// in `n`.
Window readWindow(NodeImport &n, llvm::ArrayRef<int64_t> kernel,
                  llvm::ArrayRef<int64_t> spatial);

/// Builds a convolution with the node's window attributes that returns
/// accumulators: f32 for 16-bit operands. Null after an error.
mlir::Value buildConv(NodeImport &n, mlir::Value input, mlir::Value filter);

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_WINDOWATTRIBUTES_H
