//===- ConvolutionShape.cpp - extents of a convolution --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ConvolutionShape.h"

#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Returns the shape for an input, a result, and a window.
template <typename Op>
static std::optional<ConvolutionShape>
shapeOfWindow(Op op, Value image, Value images, ArrayRef<int64_t> window) {
  auto input = cast<RankedTensorType>(image.getType());
  auto result = cast<RankedTensorType>(images.getType());
  ConvolutionShape shape;
  shape.rank = input.getRank() - 2;
  if (shape.rank < 1 || shape.rank > 3)
    return std::nullopt;
  shape.channelsLast = op.getLayout() == ImageLayout::channels_last;
  shape.batch = input.getDimSize(0);
  shape.channels = input.getDimSize(shape.channelDim());
  shape.outputs = result.getDimSize(shape.channelDim());
  shape.groups = op.getGroups();
  for (unsigned i = 0; i < shape.rank; ++i) {
    unsigned to = 3 - shape.rank + i, from = shape.spatialDim(to);
    shape.in[to] = input.getDimSize(from);
    shape.out[to] = result.getDimSize(from);
    shape.window[to] = window[i];
    shape.stride[to] = op.getStrides()[i];
    shape.dilation[to] = op.getDilations()[i];
    shape.pad[to] = op.getPadLow()[i];
  }
  return shape;
}

std::optional<ConvolutionShape> ConvolutionShape::of(ConvOp op) {
  return shapeOfWindow(op, op.getInput(), op.getResult(), op.getWindowShape());
}

std::optional<ConvolutionShape> ConvolutionShape::of(ConvFilterGradientOp op) {
  return shapeOfWindow(op, op.getInput(), op.getGradient(),
                       cast<RankedTensorType>(op.getResult().getType())
                           .getShape()
                           .drop_front(2));
}

ConvolutionShape::Position
ConvolutionShape::inputPosition(const IndexMath &math, ValueRange pixel,
                                ValueRange place) const {
  Position position;
  for (unsigned dim = 0; dim < 3; ++dim) {
    Value at = math.add(math.mul(pixel[dim + 1], stride[dim]),
                        math.mul(place[dim], dilation[dim]));
    if (pad[dim])
      at = math.sub(at, math.constant(pad[dim]));
    position.spatial[dim] = at;
    int64_t reach =
        (out[dim] - 1) * stride[dim] + (window[dim] - 1) * dilation[dim] + 1;
    if (pad[dim] == 0 && reach <= in[dim])
      continue;
    // As unsigned, positions before the image exceed the extent too.
    Value fits = math.less(at, in[dim]);
    position.inside = position.inside ? math.b.createOrFold<arith::AndIOp>(
                                            math.loc, position.inside, fits)
                                      : fits;
  }
  return position;
}

SmallVector<Value> ConvolutionShape::indices(Value image, ValueRange spatial,
                                             Value channel) const {
  SmallVector<Value> result = {image};
  if (!channelsLast)
    result.push_back(channel);
  llvm::append_range(result, spatial.take_back(rank));
  if (channelsLast)
    result.push_back(channel);
  return result;
}
