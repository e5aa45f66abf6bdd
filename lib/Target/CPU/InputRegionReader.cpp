//===- InputRegionReader.cpp - padded input regions of convolutions -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InputRegionReader.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

InputRegionReader::InputRegionReader(ContractionEmitter &emitter, int64_t rows,
                                     std::optional<Pixels> layout,
                                     int64_t images)
    : e(emitter), math(e.math), g(e.contraction.geometry),
      pixels(layout.value_or(Pixels{g.channels, g.channels})),
      regionRows(g.reach(1, rows)), regionColumns(g.reach(2, g.out[2])),
      left(std::min(std::max<int64_t>(g.pad[2], 0), regionColumns)),
      first(std::max<int64_t>(-g.pad[2], 0)),
      valid(std::clamp<int64_t>(g.in[2] - first, 0, regionColumns - left)) {
  bool inPlace = !e.blocks.packsLeft();
  copyStride = inPlace ? g.channels : pixels.pitch;
  pixelStride = pixels.isPlanar ? 1 : copyStride;
  channelStride = pixels.isPlanar ? regionColumns : 1;
  rowStride = pixels.isPlanar
                  ? pixels.channels * regionColumns
                  : pixelStride * (inPlace ? g.in[2] : regionColumns);
  planeStride =
      inPlace ? g.dilation[0] * g.in[1] * rowStride : regionRows * rowStride;
  imageStride =
      inPlace ? g.in[0] * g.in[1] * rowStride : g.window[0] * planeStride;
  Type rowType = e.contraction.rowType();
  bool isPaired = pixels.distance && !inPlace;
  if (isPaired && g.channelsLast && e.contraction.isStored(e.contraction.lhs()))
    stored = e.inPlace(e.contraction.lhs(), rowType);
  else if (isPaired)
    line = e.area(rowStride + pixels.distance * pixelStride, rowType);
  if (pixels.isPlanar)
    line = e.area(regionColumns * copyStride, rowType);
  e.terms.rowPlane = images * imageStride;
  memory = inPlace ? e.inPlace(e.contraction.lhs(), rowType)
                   : e.area(e.terms.count * e.terms.rowPlane,
                            isPaired ? e.contraction.wordType() : rowType);
}

Value InputRegionReader::lineOf(Value n, Value plane, Value row) {
  Value line = math.add(math.mul(n, g.in[0]), plane);
  return math.mul(math.add(math.mul(line, g.in[1]), row), g.in[2] * g.channels);
}

Value InputRegionReader::read(Value n, Value plane, Value row, Value channel,
                              Value image) {
  if (!e.blocks.packsLeft())
    return lineOf(n, math.mul(plane, g.stride[0]), math.mul(row, g.stride[1]));
  if (!channel)
    channel = math.constant(0);
  Value copy = math.mul(image ? image : math.constant(0), imageStride);
  e.forTerms(e.terms.rowPlane, [&](Value term) {
    copyLines(n, plane, row, channel, math.add(copy, term));
  });
  return math.sub(copy, math.mul(channel, channelStride));
}

void InputRegionReader::copyLines(Value n, Value plane, Value row,
                                  Value channel, Value copy) {
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
      target = math.add(copy, target);
      Value inside =
          e.values.bitAnd(math.less(d, g.in[0]), math.less(h, g.in[1]));
      auto fill = [&] {
        if (!pixels.distance && !pixels.isPlanar)
          return copyRow(n, d, h, channel, memory, target);
        if (stored)
          return pairStored(n, d, h, channel, target);
        copyRow(n, d, h, channel, line, math.constant(0));
        pixels.isPlanar ? turnRow(target) : pairRow(target);
      };
      math.branch(inside, fill,
                  [&] { fillPadding(memory, target, rowStride); });
    });
  });
}

/// Combines the elements of `line` into words, with zeros after its end.
void InputRegionReader::pairRow(Value target) {
  int64_t distance = pixels.distance * pixelStride;
  fillPadding(line, math.constant(rowStride), distance);
  e.forRuns(rowStride, e.lanes, [&](Value at, int64_t lanes) {
    auto load = [&](Value from) {
      return e.values.extendUnsigned(math.load(line, from, lanes),
                                     e.contraction.wordType());
    };
    Value words = e.values.bitOr(
        load(at), e.values.shiftLeft(load(math.add(at, distance)), 16));
    e.store(words, memory, math.add(target, at));
  });
}

/// Combines pixels of a stored row into words without an intermediate copy:
/// reading recent stores at another alignment stalls (no store forwarding).
void InputRegionReader::pairStored(Value n, Value plane, Value row,
                                   Value channel, Value target) {
  Type half = e.contraction.rowType(), word = e.contraction.wordType();
  Value source = math.add(lineOf(n, plane, row), channel);
  auto load = [&](Value at, int64_t lanes) {
    return math.load(stored, at, VectorType::get({lanes}, half));
  };
  // Emits `count` elements at `to`, from pixel `pixel` of the row on, with
  // zeros for operands that do not exist.
  auto join = [&](Value to, Value pixel, bool hasLow, bool hasHigh,
                  int64_t count) {
    if (!hasLow && !hasHigh)
      return fillPadding(memory, to, count);
    // Pixel 0 of the input is pixel left - first of the row.
    Value from = math.sub(math.add(source, math.mul(pixel, g.channels)),
                          math.constant((left - first) * g.channels));
    e.forRuns(count, 2 * e.lanes, [&](Value at, int64_t lanes) {
      Value zeros = e.values.constant(VectorType::get({lanes}, half), 0);
      Value place = math.add(from, at);
      Value low = hasLow ? load(place, lanes) : zeros;
      Value high =
          hasHigh ? load(math.add(place, pixels.distance * g.channels), lanes)
                  : zeros;
      Value both = vector::InterleaveOp::create(e.b, e.loc, low, high);
      math.store(e.values.reinterpret(both, word), memory, math.add(to, at));
    });
  };
  // Ranges of pixels by which of their operands exist.
  int64_t behind = left + valid, distance = pixels.distance;
  SmallVector<int64_t> edges = {
      0, left, left - distance, behind, behind - distance, regionColumns};
  llvm::sort(edges);
  bool touch = pixels.channels == pixelStride && pixelStride == g.channels;
  for (auto [begin, end] : llvm::zip(edges, llvm::drop_begin(edges))) {
    begin = std::clamp<int64_t>(begin, 0, regionColumns);
    int64_t count = std::clamp<int64_t>(end, 0, regionColumns) - begin;
    if (count <= 0)
      continue;
    auto exists = [&](int64_t pixel) {
      return pixel >= left && pixel < behind;
    };
    bool low = exists(begin), high = exists(begin + distance);
    Value to = math.add(target, begin * pixelStride);
    if (touch || (!low && !high)) {
      join(to, math.constant(begin), low, high, count * pixelStride);
      continue;
    }
    math.loop(count, [&](Value pixel) {
      join(math.add(to, math.mul(pixel, pixelStride)), math.add(pixel, begin),
           low, high, pixels.channels);
    });
  }
}

/// Transposes `line` to channel-major order.
void InputRegionReader::turnRow(Value target) {
  auto values = [&](Value channel, Value pixel, int64_t lanes) {
    return math.load(line, math.add(math.mul(pixel, copyStride), channel),
                     lanes);
  };
  e.packRowsAcross(pixels.channels, regionColumns, memory, target,
                   channelStride, values);
}

void InputRegionReader::fillPadding(Value memory, Value offset, int64_t count) {
  e.forRuns(count, 2 * e.lanes, [&](Value at, int64_t lanes) {
    e.storeNumbers(g.padValue, memory, math.add(offset, at), lanes);
  });
}

void InputRegionReader::copyRow(Value n, Value plane, Value row, Value channel,
                                Value memory, Value target) {
  Value input = e.contraction.lhs();
  int64_t right = regionColumns - left - valid;
  if (left)
    fillPadding(memory, target, left * copyStride);
  Value begin = math.add(target, left * copyStride);
  Value source = e.memoryOf(input);
  if (g.channelsLast && source && pixels.channels == g.channels &&
      copyStride == g.channels) {
    // Pixels of a row are contiguous.
    Value flat = math.flatten(source);
    Value from = math.add(lineOf(n, plane, row), first * g.channels);
    Type element = getElementTypeOrSelf(input.getType());
    // Bytes fill a vector as words do.
    int64_t most = 2 * e.lanes * (element.isInteger(8) ? 2 : 1);
    e.forRuns(valid * g.channels, most, [&](Value at, int64_t lanes) {
      Value value =
          e.makeEmitter().load(flat, element, math.add(from, at), lanes);
      e.store(e.termOf(e.toSumType(value, element)), memory,
              math.add(begin, at));
    });
  } else {
    math.loop(valid, [&](Value w) {
      Value pixel = math.add(begin, math.mul(w, copyStride));
      auto copy = [&](Value at, int64_t lanes) {
        e.copyRun(input,
                  g.indices(n, {plane, row, math.add(w, first)},
                            math.add(channel, at)),
                  lanes, memory, math.add(pixel, at));
      };
      if (g.channelsLast)
        e.forRuns(pixels.channels, 2 * e.lanes, copy);
      else
        math.loop(pixels.channels, [&](Value at) { copy(at, 1); });
    });
  }
  if (right)
    fillPadding(memory, math.add(begin, valid * copyStride),
                right * copyStride);
}
