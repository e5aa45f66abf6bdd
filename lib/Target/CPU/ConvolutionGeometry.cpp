//===- ConvolutionGeometry.cpp - geometry of convolutions -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ConvolutionGeometry.h"

#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

/// Returns the geometry of `op`, which slides `window` over images of type
/// `input` and has positions as in `result`.
template <typename OpTy>
static FailureOr<ConvolutionGeometry>
geometryOf(OpTy op, Value image, Value positions, ArrayRef<int64_t> window) {
  auto input = cast<RankedTensorType>(image.getType());
  auto result = cast<RankedTensorType>(positions.getType());
  ConvolutionGeometry g;
  int64_t rank = input.getRank() - 2;
  if (rank < 1 || rank > 3)
    return op.emitError() << "code generation supports convolutions of 1 to 3 "
                             "spatial dimensions, not "
                          << rank;
  g.spatialRank = rank;
  g.channelsLast = op.getLayout() == ImageLayout::channels_last;
  g.batch = input.getDimSize(0);
  g.channels = input.getDimSize(g.channelDim());
  g.outputs = result.getDimSize(g.channelDim());
  g.groups = op.getGroups();
  if constexpr (std::is_same_v<OpTy, ConvOp>)
    g.padValue = op.getPadValue();
  for (int64_t i = 0; i < rank; ++i) {
    int64_t to = 3 - rank + i, from = g.channelsLast ? 1 + i : 2 + i;
    g.in[to] = input.getDimSize(from);
    g.out[to] = result.getDimSize(from);
    g.window[to] = window[i];
    g.stride[to] = op.getStrides()[i];
    g.dilation[to] = op.getDilations()[i];
    g.pad[to] = op.getPadLow()[i];
  }
  return g;
}

FailureOr<ConvolutionGeometry> ConvolutionGeometry::get(ConvOp op) {
  return geometryOf(op, op.getInput(), op.getResult(), op.getWindowShape());
}

FailureOr<ConvolutionGeometry>
ConvolutionGeometry::get(ConvFilterGradientOp op) {
  auto filter = cast<RankedTensorType>(op.getResult().getType());
  return geometryOf(op, op.getInput(), op.getGradient(),
                    filter.getShape().drop_front(2));
}

bool ConvolutionGeometry::needsNoPadding() const {
  for (unsigned dim = 0; dim < 3; ++dim)
    if (pad[dim] != 0 || reach(dim, out[dim]) > in[dim])
      return false;
  return true;
}

SmallVector<Value> ConvolutionGeometry::indices(Value n,
                                                ArrayRef<Value> spatial,
                                                Value channel) const {
  SmallVector<Value> result{n};
  if (channel && !channelsLast)
    result.push_back(channel);
  llvm::append_range(result, spatial.take_back(spatialRank));
  if (channel && channelsLast)
    result.push_back(channel);
  return result;
}

FilterBlocks::FilterBlocks(const ConvolutionGeometry &g, int64_t rows,
                           bool isPlanar)
    : joined(!isPlanar && g.dilation[2] == 1 && g.groups == 1 &&
             g.channels < rows),
      stacked(false),
      line(joined ? g.window[2] * g.channels : g.groupChannels()), split(1, 1),
      outer(g.window), places(1) {
  if (joined)
    outer[2] = 1;
  stacked = joined && g.window[1] * line <= rows;
  if (stacked)
    outer[1] = 1;
  split = RowSplit(stacked ? g.window[1] * line : line, rows);
  places = outer[0] * outer[1] * outer[2];
}

FilterRegion::FilterRegion(const ConvolutionGeometry &g,
                           const FilterBlocks &cut, int64_t blocks,
                           int64_t bytes)
    : channels(g.channels) {
  if (!cut.joined && g.groups == 1)
    channels = std::min(channels, blocks * cut.split.largest());
  pitch = channels;
  // Pixels at this distance would share few cache sets.
  if (!cut.joined && pitch * bytes % 1024 == 0)
    pitch += 64 / bytes;
}
