//===- DepthwiseEmitter.cpp - depthwise convolution kernels ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Channels share no operands, so lanes are channels of both operands: a few
// pixels times two vectors of channels in registers. The filter is packed to
// `[window][channels]` once per call.
//
//===----------------------------------------------------------------------===//

#include "InputRegionReader.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

namespace {
class DepthwiseEmitter : public ContractionEmitter {
public:
  using ContractionEmitter::ContractionEmitter;

  void prepare() override;
  void emitItem(Value item) override;

private:
  Value filterValue(Value channel, Value position);
  void emitPixels(Value row, Value column, int64_t width, Value region,
                  Value channel, int64_t count);

  const ConvolutionGeometry &g = contraction.geometry;
  int64_t pixels = blocks.getRows();
  int64_t rowsPerItem = perItem(blocks.getBlocksPerItem(), g.out[1]);
  int64_t rowGroups = llvm::divideCeil(g.out[1], rowsPerItem);
  std::optional<InputRegionReader> reader;
  Value filter, tile, image, plane;
};
} // namespace

void DepthwiseEmitter::prepare() {
  items = g.batch * g.out[0] * rowGroups;
  cyclesPerItem =
      2.0 * rowsPerItem * g.out[2] * g.channels * g.windowSize() / lanes;
  filter = area(g.windowSize() * g.channels, sumType);
  reader.emplace(*this, rowsPerItem);
  tile = stack(pixels * columns);
  math.loop(g.channels, [&](Value channel) {
    math.loop(g.windowSize(), [&](Value position) {
      store(filterValue(channel, position), filter,
            math.add(math.mul(position, g.channels), channel));
    });
  });
}

/// Loads the filter's element for a channel at a window position, from either
/// layout.
Value DepthwiseEmitter::filterValue(Value channel, Value position) {
  // A packed filter has one panel per channel, its group; the first column
  // contains it.
  SmallVector<Value> at = {channel, position, math.constant(0)};
  if (!contraction.packed) {
    at = {channel, math.constant(0)};
    llvm::append_range(at, ArrayRef<Value>(math.delinearize(position, g.window))
                               .take_back(g.spatialRank));
  }
  return load(contraction.rhs(), at, 1);
}

void DepthwiseEmitter::emitItem(Value item) {
  SmallVector<Value> position =
      math.delinearize(item, {g.batch, g.out[0], rowGroups});
  image = position[0];
  plane = position[1];
  auto [rowBegin, rowEnd] = groupOf(position[2], rowsPerItem, g.out[1]);
  Value region = reader->read(image, plane, rowBegin);
  auto channels = [&](Value row, Value local, Value column, int64_t width) {
    Value base =
        math.add(region, math.mul(local, g.stride[1] * reader->rowStride));
    base = math.add(base, math.mul(column, g.stride[2] * reader->pixelStride));
    forRuns(g.channels, columns, [&](Value channel, int64_t count) {
      emitPixels(row, column, width, base, channel, count);
    });
  };
  math.loop(rowBegin, rowEnd, 1, [&, rowBegin = rowBegin](Value row) {
    Value local = math.sub(row, rowBegin);
    int64_t whole = g.out[2] - g.out[2] % pixels;
    if (whole)
      math.loop(math.constant(0), math.constant(whole), pixels,
                [&](Value column) { channels(row, local, column, pixels); });
    if (whole < g.out[2])
      channels(row, local, math.constant(whole), g.out[2] - whole);
  });
}

/// Emits `width` pixels from `column` on, `count` channels from `channel` on.
void DepthwiseEmitter::emitPixels(Value row, Value column, int64_t width,
                                  Value base, Value channel, int64_t count) {
  auto type = VectorType::get({count}, sumType);
  Carried sums(width, values.constant(type, 0));
  base = math.add(base, channel);
  auto windowRow = [&](Value number, ValueRange before) {
    Carried next(before);
    Value kd = math.div(number, g.window[1]),
          kh = math.rem(number, g.window[1]);
    Value start = math.add(base, math.mul(kd, reader->planeStride));
    start = math.add(start, math.mul(kh, g.dilation[1] * reader->rowStride));
    for (int64_t kw = 0; kw < g.window[2]; ++kw) {
      Value at = math.add(math.mul(number, g.window[2] * g.channels), channel);
      Value weights = math.load(filter, math.add(at, kw * g.channels), type);
      for (int64_t j = 0; j < width; ++j) {
        int64_t offset =
            (j * g.stride[2] + kw * g.dilation[2]) * reader->pixelStride;
        Value input = math.load(reader->memory, math.add(start, offset), type);
        next[j] = values.fma(input, weights, next[j]);
      }
    }
    return next;
  };
  sums = math.loop(math.constant(0), math.constant(g.window[0] * g.window[1]),
                   1, sums, windowRow);
  for (int64_t j = 0; j < width; ++j)
    math.store(sums[j], tile, math.constant(j * count));
  auto indices = [&](Value pixel) {
    return g.indices(image, {plane, row, math.add(column, pixel)}, Value());
  };
  storeTile(tile, count, math.constant(width), indices, g.channelDim(), channel,
            count);
}

FailureOr<int64_t> cpu::emitDepthwise(const ContractionKernel &kernel) {
  return DepthwiseEmitter(kernel).run();
}
