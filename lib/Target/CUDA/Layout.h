//===- Layout.h - layouts as values -----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The layout algebra of CuTe (CUTLASS, "CuTe Layout Algebra") on flat layouts.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_LAYOUT_H
#define MPC_LIB_TARGET_CUDA_LAYOUT_H

#include "Target/Kernel/IndexMath.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace mpc::cuda {

/// `extent` coordinates whose offsets are `stride` apart.
struct LayoutMode {
  int64_t extent = 1, stride = 0;
  bool operator==(const LayoutMode &) const = default;
};

/// A function from coordinates to offsets, (e0, e1, ...):(s0, s1, ...). A
/// coordinate is an integer, whose first mode varies fastest.
class Layout {
public:
  Layout() = default;
  Layout(std::initializer_list<LayoutMode> modes) : modes(modes) {}
  explicit Layout(llvm::ArrayRef<LayoutMode> modes) : modes(modes) {}

  int64_t size() const {
    int64_t size = 1;
    for (const LayoutMode &mode : modes)
      size *= mode.extent;
    return size;
  }
  int64_t operator()(int64_t coordinate) const {
    int64_t offset = 0;
    for (const LayoutMode &mode : modes) {
      offset += coordinate % mode.extent * mode.stride;
      coordinate /= mode.extent;
    }
    return offset;
  }
  /// Requires a coordinate below size().
  mlir::Value operator()(const IndexMath &math, mlir::Value coordinate) const {
    mlir::Value offset;
    int64_t before = 1;
    Layout simple = coalesce();
    for (const LayoutMode &mode : simple.modes) {
      if (mode.stride != 0) {
        mlir::Value index = math.div(coordinate, before);
        if (&mode != &simple.modes.back())
          index = math.rem(index, mode.extent);
        mlir::Value term = math.mul(index, mode.stride);
        offset = offset ? math.add(offset, term) : term;
      }
      before *= mode.extent;
    }
    return offset ? offset : math.constant(0);
  }

  /// The sublayout of the first `count` modes, or of the others.
  Layout take(size_t count) const {
    return Layout(llvm::ArrayRef(modes).take_front(count));
  }
  Layout drop(size_t count) const {
    return Layout(llvm::ArrayRef(modes).drop_front(count));
  }

  /// The same function with fewer modes.
  Layout coalesce() const {
    Layout result;
    for (const LayoutMode &mode : modes) {
      if (mode.extent == 1)
        continue;
      if (!result.modes.empty() &&
          mode.stride ==
              result.modes.back().stride * result.modes.back().extent)
        result.modes.back().extent *= mode.extent;
      else
        result.modes.push_back(mode);
    }
    return result;
  }

  /// The function this(inner(x)).
  Layout compose(const Layout &inner) const {
    Layout outer = coalesce(), result;
    if (outer.modes.empty())
      outer.modes.emplace_back();
    for (auto [extent, step] : inner.modes) {
      if (step == 0) {
        result.modes.push_back({extent, 0});
        continue;
      }
      for (const LayoutMode &mode : llvm::ArrayRef(outer.modes).drop_back()) {
        if (step % mode.extent == 0) {
          step /= mode.extent;
          continue;
        }
        int64_t count = std::min(extent, mode.extent / step);
        assert(mode.extent % step == 0 && extent % count == 0 &&
               "the layouts are not compatible");
        if (count > 1)
          result.modes.push_back({count, step * mode.stride});
        extent /= count;
        step = 1;
      }
      if (extent > 1)
        result.modes.push_back({extent, step * outer.modes.back().stride});
    }
    return result;
  }

  /// Returns a layout of the offsets below `extent` that this layout does not
  /// reach; sums of both reach each offset once.
  Layout complement(int64_t extent) const {
    Layout sorted = coalesce(), result;
    llvm::sort(sorted.modes, [](const LayoutMode &x, const LayoutMode &y) {
      return x.stride < y.stride;
    });
    int64_t reached = 1;
    for (const LayoutMode &mode : sorted.modes) {
      if (mode.stride == 0)
        continue;
      result.modes.push_back({mode.stride / reached, reached});
      reached = mode.stride * mode.extent;
    }
    result.modes.push_back({(extent + reached - 1) / reached, reached});
    return result.coalesce();
  }

  /// Splits into tiles: the modes of `tiler` composed with this layout, then
  /// those of the tiles.
  Layout divide(const Layout &tiler) const {
    Layout both = tiler;
    llvm::append_range(both.modes, tiler.complement(size()).modes);
    return compose(both);
  }

  bool operator==(const Layout &) const = default;

private:
  llvm::SmallVector<LayoutMode, 5> modes;
};

/// XOR swizzle of lines of shared memory: bits [base, base + bits) of the
/// position in a line are xored with the low bits of the line number.
struct Swizzle {
  int64_t bits = 0, base = 0;
  mlir::Value operator()(const IndexMath &math, mlir::Value line,
                         mlir::Value position) const {
    mlir::Value low = math.rem(line, int64_t(1) << bits);
    return math.exclusiveOr(position, math.mul(low, int64_t(1) << base));
  }
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_LAYOUT_H
