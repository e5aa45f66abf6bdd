//===- SlidingWindow.h - sliding windows per output position ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to this folder.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_SLIDINGWINDOW_H
#define MPC_LIB_TARGET_KERNEL_SLIDINGWINDOW_H

#include "LoopKernels.h"

namespace mpc {

/// One spatial dimension of a window at one output position.
struct WindowDimension {
  /// Window positions [begin, end) inside the input.
  mlir::Value begin, end;
  /// Window positions inside the padded extent.
  mlir::Value padded;
  /// Input position of window position 0 (may be negative).
  mlir::Value start;
  int64_t dilation;
};

/// Window parameters of pools and convolutions.
struct WindowShape {
  template <typename Op>
  WindowShape(Op op, llvm::ArrayRef<int64_t> extents)
      : window(extents), strides(op.getStrides()), low(op.getPadLow()),
        high(op.getPadHigh()), dilations(op.getDilations()),
        channelsLast(op.getLayout() == ImageLayout::channels_last) {}

  /// Returns the window at output position `output`; positions and shapes have
  /// all dimensions.
  llvm::SmallVector<WindowDimension>
  at(IndexMath &math, mlir::ValueRange output,
     llvm::ArrayRef<int64_t> inputShape,
     llvm::ArrayRef<int64_t> outputShape) const;

  llvm::SmallVector<int64_t> window;
  llvm::ArrayRef<int64_t> strides, low, high, dilations;
  bool channelsLast;
};

/// Loops over the positions of a window inside the input, with carried values:
/// `place(dim, k, position)` sets window position `k` of a dimension and its
/// input position, `body` is the innermost.
Carried overWindow(
    ElementEmitter &emitter, llvm::ArrayRef<WindowDimension> window,
    mlir::ValueRange initial,
    llvm::function_ref<void(size_t dim, mlir::Value k, mlir::Value position)>
        place,
    llvm::function_ref<Carried(mlir::ValueRange)> body);

/// The outputs whose windows may contain one input position, along one
/// dimension.
struct HoldingWindows {
  /// Output positions [begin, end).
  mlir::Value begin, end;
  /// Whether `begin` is the only one, whatever the position.
  bool isSingle = false;
};

HoldingWindows windowsAround(IndexMath &math, const WindowShape &pool,
                             size_t dim, mlir::Value input, int64_t inputExtent,
                             int64_t outputExtent);

/// Returns the divisor of an average's window, at least 1 (a window entirely in
/// the padding), as a float of `type`.
mlir::Value countedElements(IndexMath &math,
                            llvm::ArrayRef<WindowDimension> window,
                            bool includesPadding, mlir::Type type);

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_SLIDINGWINDOW_H
