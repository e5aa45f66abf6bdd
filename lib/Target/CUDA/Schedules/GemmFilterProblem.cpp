//===- GemmFilterProblem.cpp - filters' gradients as matrix products ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows are output channels, columns the places of the window and, fastest, the
// input channels; k runs over the output positions of all images. The right
// matrix is that of the convolution itself the other way round, and is never
// stored either: its tiles are gathered from the image.
//
//===----------------------------------------------------------------------===//

#include "ConvolutionHalo.h"
#include "FilterProblem.h"
#include "Gemm.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Positions of the deepest tile, and the part of k by which it may grow.
static constexpr int64_t kDeepest = 64, kGrowth = 16;

/// k rounded up by at most one part in `kGrowth`, so that its steps can be
/// shared evenly by many numbers of blocks, whatever the images' extents are.
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
/// What both operands know of k.
class PositionsOperand : public GemmOperand {
public:
  PositionsOperand(BlockArgument memory, const ConvolutionShape &shape)
      : shape(shape), view(*StridedView::of(memory)) {
    tensor = memory;
    argument = memory;
    depth = roundedDepth(shape.pixels());
  }

protected:
  /// The output pixel [n, d, h, w] that `k` is, and whether it is one (null:
  /// always).
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

/// The gradient of the convolution's result.
class GradientOperand : public PositionsOperand {
public:
  GradientOperand(BlockArgument gradient, const ConvolutionShape &shape,
                  int64_t tileBytes)
      : PositionsOperand(gradient, shape) {
    rows = shape.outputs;
    int64_t most = 16 / tileBytes;
    alongDepth = !shape.channelsLast;
    // Runs of positions stay inside an image and its channel.
    chunk = alongDepth ? powerOfTwoIn(shape.pixels() / shape.batch, most)
                       : powerOfTwoIn(shape.outputs, most);
  }

  OperandPlace locate(const IndexMath &math, ValueRange, Value row,
                      Value k) const override {
    auto [pixel, inside] = pixelAt(math, k);
    OperandPlace place;
    place.inside = inside;
    place.indices =
        shape.indices(pixel.front(), ValueRange(pixel).drop_front(), row);
    // All but the channels lie side by side.
    if (shape.channelsLast)
      place.offset = math.add(math.mul(k, shape.outputs), row);
    else
      place.offset = view.offsetAt(math, place.indices);
    return place;
  }
};

/// The image at the pixels that a place of the window covers.
class WindowOperand : public PositionsOperand {
public:
  WindowOperand(BlockArgument image, const ConvolutionShape &shape,
                int64_t tileBytes)
      : PositionsOperand(image, shape) {
    rows = shape.windowSize() * shape.channels;
    // Neighbouring threads read neighbouring pixels where those are neighbours
    // in memory.
    alongDepth = !shape.channelsLast || shape.channels == 1;
    int64_t bytes =
        std::max<int64_t>(tileBytes, elementType().getIntOrFloatBitWidth() / 8);
    chunk = alongDepth ? 1 : powerOfTwoIn(shape.channels, 16 / bytes);
    if (chunk == 1)
      halo = image;
  }

  int64_t haloElements(int64_t, int64_t depth) const override {
    return ConvolutionHalo(shape, view).elements(depth);
  }
  Value haloBegin(const IndexMath &math, Value, Value k) const override {
    return ConvolutionHalo(shape, view).begin(math, k);
  }

  OperandPlace locate(const IndexMath &math, ValueRange, Value row,
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
    OperandPlace place;
    place.inside = both(math, isPixel, position.inside);
    place.indices = shape.indices(pixel.front(), position.spatial, channel);
    place.offset = view.offsetAt(math, place.indices);
    return place;
  }
};
} // namespace

std::optional<GemmProblem>
GemmProblem::filterGradient(func::FuncOp kernel, const CudaTarget &target) {
  std::optional<FilterOps> ops = FilterOps::of(kernel);
  if (!ops || ops->filter.getGroups() != 1)
    return std::nullopt;
  ConvFilterGradientOp op = ops->filter;
  std::optional<ConvolutionShape> found = ConvolutionShape::of(op);
  Type element = getElementTypeOrSelf(op.getInput()),
       result = getElementTypeOrSelf(op.getResult());
  GemmProblem problem;
  if (!found || op.getAccumulate().value_or(result).isF64() ||
      !chooseUnit(element, result, op.getCompute(), target, problem))
    return std::nullopt;
  // An image that is narrowed on the way is narrowed to what a tile holds.
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
  problem.rhs = std::make_unique<WindowOperand>(ops->input, shape, tileBytes);
  keepHalos(problem, target);
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
