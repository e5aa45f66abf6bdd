//===- Window.h - sliding windows at one output position --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to this folder.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_WINDOW_H
#define MPC_LIB_TARGET_KERNEL_WINDOW_H

#include "LoopKernels.h"

namespace mpc {

/// One spatial dimension of a window at one output position.
struct WindowDimension {
  /// Window positions [begin, end) whose elements exist.
  mlir::Value begin, end;
  /// Window positions inside the padded extent.
  mlir::Value padded;
  /// Input position of window position 0 (may be negative).
  mlir::Value start;
  int64_t dilation;
};

/// What pools and convolutions say of their windows.
struct WindowShape {
  template <typename Op>
  WindowShape(Op op, llvm::ArrayRef<int64_t> extents)
      : window(extents), strides(op.getStrides()), low(op.getPadLow()),
        high(op.getPadHigh()), dilations(op.getDilations()),
        channelsLast(op.getLayout() == ImageLayout::channels_last) {}

  /// Dimension `dim` of the window of position `output`.
  WindowDimension at(IndexMath &math, size_t dim, mlir::Value output,
                     int64_t inputExtent, int64_t outputExtent) const;

  llvm::SmallVector<int64_t> window;
  llvm::ArrayRef<int64_t> strides, low, high, dilations;
  bool channelsLast;
};

/// The outputs whose windows may hold one input position, along one dimension.
struct HoldingWindows {
  /// Output positions [begin, end).
  mlir::Value begin, end;
  /// Whether there is exactly one, `begin`, whatever the position.
  bool isSingle = false;
};

HoldingWindows windowsAround(IndexMath &math, const WindowShape &pool,
                             size_t dim, mlir::Value input, int64_t inputExtent,
                             int64_t outputExtent);

/// How many elements the window of an average counts, at least 1, as a float of
/// `type`: a window wholly in the padding has nothing to average.
mlir::Value countedElements(IndexMath &math,
                            llvm::ArrayRef<WindowDimension> window,
                            bool includesPadding, mlir::Type type);

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_WINDOW_H
