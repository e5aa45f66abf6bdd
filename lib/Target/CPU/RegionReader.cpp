//===- RegionReader.cpp - padded parts of an image ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RegionReader.h"

using namespace mlir;
using namespace mpc;

RegionReader::RegionReader(ContractionEmitter &emitter, int64_t rows)
    : e(emitter), math(e.math), g(e.contraction.geometry),
      regionRows(g.reach(1, rows)), regionColumns(g.reach(2, g.out[2])) {
  bool inPlace = !e.blocks.packsLeft();
  pixelStride = g.channels;
  rowStride = g.channels * (inPlace ? g.in[2] : regionColumns);
  planeStride =
      inPlace ? g.dilation[0] * g.in[1] * rowStride : regionRows * rowStride;
  memory = inPlace ? math.flatten(e.memoryOf(e.contraction.lhs()))
                   : e.area(g.window[0] * planeStride);
}

Value RegionReader::read(Value n, Value plane, Value row) {
  if (!e.blocks.packsLeft()) {
    Value position =
        math.add(math.mul(n, g.in[0]), math.mul(plane, g.stride[0]));
    position =
        math.add(math.mul(position, g.in[1]), math.mul(row, g.stride[1]));
    return math.mul(position, rowStride);
  }
  // Positions before the input wrap to huge numbers, which the comparison with
  // the extent rejects as well.
  math.loop(g.window[0], [&](Value kd) {
    Value d =
        math.add(math.mul(plane, g.stride[0]), math.mul(kd, g.dilation[0]));
    d = math.sub(d, math.constant(g.pad[0]));
    math.loop(regionRows, [&](Value r) {
      Value h = math.add(math.mul(row, g.stride[1]), r);
      h = math.sub(h, math.constant(g.pad[1]));
      Value target =
          math.add(math.mul(kd, planeStride), math.mul(r, rowStride));
      Value inside = arith::AndIOp::create(e.b, e.loc, math.less(d, g.in[0]),
                                           math.less(h, g.in[1]));
      math.branch(
          inside, [&] { copyRow(n, d, h, target); },
          [&] { fillZeros(target, rowStride); });
    });
  });
  return math.constant(0);
}

void RegionReader::fillZeros(Value offset, int64_t count) {
  e.forRuns(count, 2 * e.lanes, [&](Value at, int64_t lanes) {
    e.storeZeros(memory, math.add(offset, at), lanes);
  });
}

void RegionReader::copyRow(Value n, Value plane, Value row, Value target) {
  Value input = e.contraction.lhs();
  int64_t channels = g.channels, width = g.in[2];
  int64_t left = std::min(std::max<int64_t>(g.pad[2], 0), regionColumns);
  int64_t first = std::max<int64_t>(-g.pad[2], 0);
  int64_t valid = std::clamp<int64_t>(width - first, 0, regionColumns - left);
  int64_t right = regionColumns - left - valid;

  if (left)
    fillZeros(target, left * channels);
  Value begin = math.add(target, left * channels);
  Value stored = e.memoryOf(input);
  if (g.channelsLast && stored) {
    // Pixels of a row are contiguous.
    Value flat = math.flatten(stored);
    Value line = math.add(math.mul(n, g.in[0]), plane);
    line = math.add(math.mul(line, g.in[1]), row);
    Value source = math.add(math.mul(line, width * channels), first * channels);
    e.forRuns(valid * channels, 2 * e.lanes, [&](Value at, int64_t lanes) {
      Value value =
          e.makeEmitter().load(flat, getElementTypeOrSelf(input.getType()),
                               math.add(source, at), lanes);
      e.store(value, memory, math.add(begin, at));
    });
  } else {
    math.loop(valid, [&](Value w) {
      Value pixel = math.add(begin, math.mul(w, channels));
      auto copy = [&](Value channel, int64_t lanes) {
        e.copyRun(input,
                  g.indices(n, {plane, row, math.add(w, first)}, channel),
                  lanes, memory, math.add(pixel, channel));
      };
      if (g.channelsLast)
        e.forRuns(channels, 2 * e.lanes, copy);
      else
        math.loop(channels, [&](Value channel) { copy(channel, 1); });
    });
  }
  if (right)
    fillZeros(math.add(begin, valid * channels), right * channels);
}
