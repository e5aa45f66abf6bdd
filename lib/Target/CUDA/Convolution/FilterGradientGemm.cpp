//===- FilterGradientGemm.cpp - filter gradients as implicit GEMM ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows are output channels, columns are window positions times (fastest) input
// channels; k runs over the output positions of all images. The right-hand side
// is the im2col matrix, transposed, which is never stored: its tiles are
// gathered from the image.
//
//===----------------------------------------------------------------------===//

#include "../Gemm/Gemm.h"
#include "ConvolutionShape.h"
#include "FilterGradientProblem.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Depth of the deepest tile, and the inverse of the relative padding of k.
static constexpr int64_t kDeepest = 64, kGrowth = 16;

/// Pads k by at most 1 / `kGrowth`, so that its steps can be divided evenly
/// among many numbers of split-K blocks.
static int64_t roundedDepth(int64_t positions) {
  if (positions < kDeepest * kGrowth)
    return positions;
  int64_t unit = llvm::bit_floor<uint64_t>(positions / kGrowth);
  return llvm::alignTo(positions, unit);
}

static Value both(const IndexMath &math, Value x, Value y) {
  if (!x || !y)
    return x ? x : y;
  return math.b.createOrFold<arith::AndIOp>(math.loc, x, y);
}

namespace {
/// Common base: k enumerates output positions.
class FilterGradientOperand : public GemmOperand {
public:
  FilterGradientOperand(BlockArgument memory, const ConvolutionShape &shape)
      : shape(shape), view(*StridedView::of(memory)) {
    tensor = memory;
    argument = memory;
    depth = roundedDepth(shape.pixels());
  }

protected:
  /// Returns the output pixel [n, d, h, w] of `k`, and whether it is in bounds
  /// (null: always).
  std::pair<SmallVector<Value>, Value> pixelAt(const IndexMath &math,
                                               Value k) const {
    Value inside;
    if (depth != shape.pixels())
      inside = math.less(k, shape.pixels());
    return {math.delinearize(
                k, {shape.batch, shape.out[0], shape.out[1], shape.out[2]}),
            inside};
  }

  ConvolutionShape shape;
  StridedView view;
};

/// Left-hand side: the gradient of the convolution's result.
class GradientOperand : public FilterGradientOperand {
public:
  GradientOperand(BlockArgument gradient, const ConvolutionShape &shape,
                  int64_t tileBytes)
      : FilterGradientOperand(gradient, shape) {
    rows = shape.outputs;
    int64_t most = 16 / tileBytes;
    alongDepth = !shape.channelsLast;
    // Vectors of positions must not cross an image or channel.
    chunk = alongDepth ? powerOfTwoIn(shape.pixels() / shape.batch, most)
                       : powerOfTwoIn(shape.outputs, most);
  }

  OperandLocation locate(const IndexMath &math, ValueRange, Value row,
                         Value k) const override {
    auto [pixel, inside] = pixelAt(math, k);
    OperandLocation place;
    place.inside = inside;
    place.indices =
        shape.indices(pixel.front(), ValueRange(pixel).drop_front(), row);
    // All dimensions but the channels are contiguous.
    if (shape.channelsLast)
      place.offset = math.add(math.mul(k, shape.outputs), row);
    else
      place.offset = view.offsetAt(math, place.indices);
    return place;
  }
};

/// Right-hand side: the image at the pixels under a window position.
class TransposedIm2colOperand : public FilterGradientOperand {
public:
  TransposedIm2colOperand(BlockArgument image, const ConvolutionShape &shape,
                          int64_t tileBytes)
      : FilterGradientOperand(image, shape) {
    rows = shape.windowSize() * shape.channels;
    // Adjacent threads read pixels that are adjacent in memory.
    alongDepth = !shape.channelsLast || shape.channels == 1;
    int64_t bytes =
        std::max<int64_t>(tileBytes, elementType().getIntOrFloatBitWidth() / 8);
    chunk = alongDepth ? 1 : powerOfTwoIn(shape.channels, 16 / bytes);
  }

  OperandLocation locate(const IndexMath &math, ValueRange, Value row,
                         Value k) const override {
    auto [pixel, isPixel] = pixelAt(math, k);
    SmallVector<Value> window =
        math.delinearize(math.div(row, shape.channels), shape.window);
    Value channel = math.rem(row, shape.channels);
    ConvolutionShape::Position position =
        shape.inputPosition(math, pixel, window);
    static constexpr StringRef kNames[] = {"inputD", "inputH", "inputW"};
    for (unsigned dim = 3 - shape.rank; dim < 3; ++dim)
      named(math, position.spatial[dim], kNames[dim]);
    named(math, pixel.front(), "image");
    named(math, channel, "channel");
    OperandLocation place;
    place.inside = both(math, isPixel, position.inside);
    place.indices = shape.indices(pixel.front(), position.spatial, channel);
    place.offset = view.offsetAt(math, place.indices);
    return place;
  }
};
} // namespace

std::optional<FusedGemm> FusedGemm::filterGradient(func::FuncOp kernel,
                                                   const CudaTarget &target) {
  std::optional<FilterGradientOps> ops = FilterGradientOps::of(kernel);
  if (!ops || ops->filter.getGroups() != 1)
    return std::nullopt;
  ConvFilterGradientOp op = ops->filter;
  std::optional<ConvolutionShape> found = ConvolutionShape::of(op);
  Type element = getElementTypeOrSelf(op.getInput()),
       result = getElementTypeOrSelf(op.getResult());
  FusedGemm problem;
  if (!found || op.getAccumulate().value_or(result).isF64() ||
      !chooseUnit(element, result, op.getCompute(), target, problem))
    return std::nullopt;
  // An image converted to low precision must have the tile's type.
  if (ops->narrowed && problem.tileType != element)
    return std::nullopt;
  const ConvolutionShape &shape = *found;
  problem.anchor = op;
  problem.m = shape.outputs;
  problem.n = shape.windowSize() * shape.channels;
  problem.k = roundedDepth(shape.pixels());
  if (problem.m == 0 || problem.n == 0 || problem.k == 0 ||
      elementCount(op.getInput()) == 0)
    return std::nullopt;
  int64_t tileBytes = problem.tileType.getIntOrFloatBitWidth() / 8;
  problem.lhs =
      std::make_unique<GradientOperand>(ops->gradient, shape, tileBytes);
  problem.rhs =
      std::make_unique<TransposedIm2colOperand>(ops->input, shape, tileBytes);
  problem.columnsLast = false;
  problem.columnsNearer = true;
  problem.sumsLeft = true;
  for (auto [number, maker] : llvm::enumerate(ops->results))
    if (maker == ops->bias)
      problem.sums.push_back({number, 0, shape.outputs});
  problem.resultIndices = [shape](const IndexMath &math, ValueRange, Value row,
                                  Value column) {
    SmallVector<Value> indices = {row, math.rem(column, shape.channels)};
    SmallVector<Value> window =
        math.delinearize(math.div(column, shape.channels), shape.window);
    llvm::append_range(indices, ArrayRef<Value>(window).take_back(shape.rank));
    return indices;
  };
  return problem;
}
