//===- FilterGradientProblem.cpp - analysis of filter gradient kernels ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FilterGradientProblem.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Output channels per thread, and input channels if they are contiguous.
static constexpr int64_t kTile = 4;

/// Returns the argument for `value`, possibly through one cast of floats.
static BlockArgument argumentOf(Value value, CastOp &cast) {
  cast = value.getDefiningOp<CastOp>();
  if (cast && !isa<FloatType>(getElementTypeOrSelf(cast.getInput())))
    return {};
  return dyn_cast<BlockArgument>(cast ? cast.getInput() : value);
}

std::optional<FilterGradientOps> FilterGradientOps::of(func::FuncOp kernel) {
  FilterGradientOps ops;
  Block &body = kernel.getBody().front();
  size_t casts = 0;
  for (Operation &op : body.without_terminator()) {
    if (auto filter = dyn_cast<ConvFilterGradientOp>(op); filter && !ops.filter)
      ops.filter = filter;
    else if (auto sum = dyn_cast<ReduceSumOp>(op); sum && !ops.bias)
      ops.bias = sum;
    else if (isa<CastOp>(op))
      ++casts;
    else
      return std::nullopt;
  }
  if (!ops.filter)
    return std::nullopt;
  ops.input = argumentOf(ops.filter.getInput(), ops.narrowed);
  ops.gradient = dyn_cast<BlockArgument>(ops.filter.getGradient());
  if (!ops.input || !ops.gradient)
    return std::nullopt;
  casts -= ops.narrowed ? 1 : 0;
  if (ops.bias) {
    // Both are accumulated in f32, from the gradient in memory.
    CastOp widened;
    auto spatial = shapeOf(ops.gradient).size() - 2;
    SmallVector<int64_t> axes = {0};
    for (size_t d = 0; d < spatial; ++d)
      axes.push_back(
          d + (ops.filter.getLayout() == ImageLayout::channels_last ? 1 : 2));
    if (argumentOf(ops.bias.getInput(), widened) != ops.gradient ||
        ops.bias.getAxes() != ArrayRef<int64_t>(axes) ||
        ops.bias.getKeepDims() || !accumulatorType(ops.bias).isF32() ||
        !getElementTypeOrSelf(ops.bias.getInput()).isF32() ||
        !getElementTypeOrSelf(ops.filter.getResult()).isF32())
      return std::nullopt;
    casts -= widened ? 1 : 0;
  }
  for (Value result : body.getTerminator()->getOperands()) {
    Operation *maker = result.getDefiningOp();
    if (auto cast = dyn_cast_or_null<CastOp>(maker)) {
      maker = cast.getInput().getDefiningOp();
      if (!getElementTypeOrSelf(cast.getInput()).isF32() ||
          !isa<FloatType>(getElementTypeOrSelf(result)))
        return std::nullopt;
      --casts;
    }
    if (!maker || (maker != ops.filter && maker != ops.bias))
      return std::nullopt;
    ops.results.push_back(maker);
  }
  if (casts != 0 || ops.results.empty())
    return std::nullopt;
  return ops;
}

FilterGradientProblem::FilterGradientProblem(const FilterGradientOps &ops)
    : ops(ops), op(ops.filter),
      channelsLast(op.getLayout() == ImageLayout::channels_last) {
  ArrayRef<int64_t> input = shapeOf(op.getInput()),
                    gradient = shapeOf(op.getGradient()),
                    result = shapeOf(op.getResult());
  size_t spatial = input.size() - 2;
  auto spatialOf = [&](ArrayRef<int64_t> shape) {
    return SmallVector<int64_t>(shape.slice(channelsLast ? 1 : 2, spatial));
  };
  batch = input.front();
  inputs = input[channelsLast ? spatial + 1 : 1];
  outputs = gradient[channelsLast ? spatial + 1 : 1];
  extents = spatialOf(input);
  positions = spatialOf(gradient);
  window.assign(result.begin() + 2, result.end());
  groupInputs = result[1];
  groupOutputs = outputs / std::max<int64_t>(op.getGroups(), 1);
  rows = groupOutputs % kTile == 0 ? kTile : 1;
  lanes = channelsLast && groupInputs % kTile == 0 ? kTile : 1;
  filterItems = outputs / rows * (groupInputs / lanes) * productOf(window);
  items = filterItems + (ops.bias ? outputs / rows : 0);
  lines = batch * productOf(ArrayRef<int64_t>(positions).drop_back());
  Type element = getElementTypeOrSelf(op.getResult());
  type = element.isF64() ? element : Float32Type::get(op.getContext());
}

/// Returns the indices into an image.
SmallVector<Value> FilterGradientProblem::place(Value image, Value channel,
                                                ArrayRef<Value> spatial) const {
  SmallVector<Value> indices = {image};
  if (!channelsLast)
    indices.push_back(channel);
  llvm::append_range(indices, spatial);
  if (channelsLast)
    indices.push_back(channel);
  return indices;
}
