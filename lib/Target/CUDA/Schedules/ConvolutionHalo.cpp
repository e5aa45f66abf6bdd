//===- ConvolutionHalo.cpp - input region of an output tile ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ConvolutionHalo.h"

#include <numeric>

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

ConvolutionHalo::ConvolutionHalo(const ConvolutionShape &shape,
                                 const StridedView &view)
    : shape(shape), offset(view.offset) {
  imageStride = view.strides.front();
  reach = (shape.channels - 1) * view.strides[shape.channelDim()];
  inOrder = llvm::all_of(view.strides, [](int64_t s) { return s >= 0; });
  int64_t below = 0;
  for (unsigned dim = 3; dim-- > 3 - shape.rank;) {
    int64_t stride = view.strides[shape.spatialDim(dim)];
    steps[dim] = shape.stride[dim] * stride;
    padding += shape.pad[dim] * stride;
    reach += (shape.window[dim] - 1) * shape.dilation[dim] * stride;
    // The next pixel of this dimension starts after all previous ones.
    inOrder &= shape.out[dim] == 1 || steps[dim] >= below;
    below += (shape.out[dim] - 1) * steps[dim];
  }
  inOrder &= shape.batch == 1 || imageStride >= below;
}

int64_t ConvolutionHalo::startOf(int64_t pixel) const {
  int64_t start = 0;
  for (unsigned dim = 3; dim-- > 0;) {
    start += pixel % shape.out[dim] * steps[dim];
    pixel /= shape.out[dim];
  }
  return start + pixel * imageStride;
}

int64_t ConvolutionHalo::elements(int64_t pixels) const {
  if (!inOrder)
    return 0;
  // Distances between pixels are the same in every image.
  int64_t ofImage = shape.out[0] * shape.out[1] * shape.out[2], most = 0;
  for (int64_t first = 0, step = std::gcd(pixels, ofImage); first < ofImage;
       first += step) {
    int64_t last = std::min(first + pixels, shape.pixels()) - 1;
    most = std::max(most, startOf(last) - startOf(first));
  }
  return most + reach + 1;
}

Value ConvolutionHalo::begin(const IndexMath &math, Value pixel) const {
  SmallVector<Value> place = math.delinearize(
      pixel, {shape.batch, shape.out[0], shape.out[1], shape.out[2]});
  Value start = math.mul(place.front(), imageStride);
  for (unsigned dim = 0; dim < 3; ++dim)
    start = math.add(start, math.mul(place[dim + 1], steps[dim]));
  start = math.add(start, offset);
  return padding ? math.subOrZero(start, padding) : start;
}
