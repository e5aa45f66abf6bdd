//===- Image.h - images and sliding windows ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_REFERENCE_IMAGE_H
#define MPC_LIB_REFERENCE_IMAGE_H

#include "StridedLoop.h"

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "llvm/ADT/STLExtras.h"

namespace mpc::reference {

/// Extents of an image tensor in either layout.
struct ImageShape {
  ImageShape(llvm::ArrayRef<int64_t> shape, ImageLayout layout)
      : batch(shape[0]), last(layout == ImageLayout::channels_last) {
    channels = last ? shape.back() : shape[1];
    spatial = llvm::SmallVector<int64_t>(last ? shape.drop_front().drop_back()
                                              : shape.drop_front(2));
    pixels = productOf(spatial);
  }

  /// Offset of an element; `pixel` is the linear spatial index.
  int64_t offset(int64_t image, int64_t channel, int64_t pixel) const {
    return last ? (image * pixels + pixel) * channels + channel
                : (image * channels + channel) * pixels + pixel;
  }

  int64_t batch, channels, pixels;
  llvm::SmallVector<int64_t> spatial;
  /// Whether channels are the last dimension.
  bool last;
};

/// Enumerates the input pixels of a window.
class SlidingWindow {
public:
  SlidingWindow(llvm::ArrayRef<int64_t> input, llvm::ArrayRef<int64_t> output,
                llvm::ArrayRef<int64_t> window, llvm::ArrayRef<int64_t> strides,
                llvm::ArrayRef<int64_t> padLow, llvm::ArrayRef<int64_t> padHigh,
                llvm::ArrayRef<int64_t> dilations)
      : input(input), output(output), strides(strides), padLow(padLow),
        padHigh(padHigh), inputStrides(rowMajorStrides(input)) {
    size = productOf(window);
    offsets.resize(size * window.size());
    for (int64_t position = 0; position < size; ++position)
      for (int64_t dim = window.size(), rest = position; dim-- > 0;
           rest /= window[dim])
        offsets[position * window.size() + dim] =
            rest % window[dim] * dilations[dim];
  }

  /// Calls `fn(window index, linear input pixel or -1, inside padded extent)`
  /// for every window element at output pixel `pixel`.
  template <typename Fn> void visit(int64_t pixel, Fn fn) const {
    size_t rank = input.size();
    llvm::SmallVector<int64_t, 4> base(rank);
    for (size_t dim = rank; dim-- > 0; pixel /= output[dim])
      base[dim] = pixel % output[dim] * strides[dim] - padLow[dim];
    const int64_t *offset = offsets.data();
    for (int64_t position = 0; position < size; ++position, offset += rank) {
      int64_t linear = 0;
      bool inside = true, padded = true;
      for (size_t dim = 0; dim < rank; ++dim) {
        int64_t at = base[dim] + offset[dim];
        inside &= at >= 0 && at < input[dim];
        padded &= at < input[dim] + padHigh[dim];
        linear += at * inputStrides[dim];
      }
      fn(position, inside ? linear : -1, padded);
    }
  }

  /// Number of window elements.
  int64_t size;

private:
  llvm::ArrayRef<int64_t> input, output, strides, padLow, padHigh;
  llvm::SmallVector<int64_t> inputStrides;
  std::vector<int64_t> offsets;
};

/// Calls `fn(result offset, input offsets, padded count)` for every result
/// element; `input offsets` are the window's elements inside the input,
/// `padded count` the number of window elements inside the padded extent.
template <typename OpTy, typename Fn>
void forEachWindow(OpTy op, const Tensor &input, const Tensor &result, Fn fn) {
  ImageLayout layout = op.getLayout();
  ImageShape in(input.getShape(), layout), out(result.getShape(), layout);
  SlidingWindow window(in.spatial, out.spatial, op.getWindow(), op.getStrides(),
                       op.getPadLow(), op.getPadHigh(), op.getDilations());
  llvm::SmallVector<int64_t> pixels, offsets;
  for (int64_t pixel = 0; pixel < out.pixels; ++pixel) {
    pixels.clear();
    int64_t paddedCount = 0;
    window.visit(pixel, [&](int64_t, int64_t at, bool padded) {
      paddedCount += padded;
      if (at >= 0)
        pixels.push_back(at);
    });
    offsets.resize(pixels.size());
    for (int64_t image = 0; image < in.batch; ++image)
      for (int64_t channel = 0; channel < in.channels; ++channel) {
        for (auto [target, at] : llvm::zip_equal(offsets, pixels))
          target = in.offset(image, channel, at);
        fn(out.offset(image, channel, pixel), llvm::ArrayRef<int64_t>(offsets),
           paddedCount);
      }
  }
}

} // namespace mpc::reference

#endif // MPC_LIB_REFERENCE_IMAGE_H
