//===- RegionReader.cpp - padded parts of an image ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RegionReader.h"

#include "../Kernel/MathExpansion.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;

RegionReader::RegionReader(ContractionEmitter &emitter, int64_t rows,
                           int64_t distance)
    : e(emitter), math(e.math), g(e.contraction.geometry),
      regionRows(g.reach(1, rows)), regionColumns(g.reach(2, g.out[2])),
      distance(distance) {
  bool inPlace = !e.blocks.packsLeft();
  pixelStride = g.channels;
  rowStride = g.channels * (inPlace ? g.in[2] : regionColumns);
  planeStride =
      inPlace ? g.dilation[0] * g.in[1] * rowStride : regionRows * rowStride;
  Type rowType = e.contraction.rowType();
  if (distance)
    line = e.area(rowStride + distance, rowType);
  memory = inPlace ? e.inPlace(e.contraction.lhs(), rowType)
                   : e.area(g.window[0] * planeStride,
                            distance ? e.contraction.wordType() : rowType);
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
      auto copy = [&] {
        if (!distance)
          return copyRow(n, d, h, memory, target);
        copyRow(n, d, h, line, math.constant(0));
        pairRow(target);
      };
      math.branch(inside, copy, [&] { fillZeros(memory, target, rowStride); });
    });
  });
  return math.constant(0);
}

/// Joins the elements of `line` to words; behind its end there are zeros.
void RegionReader::pairRow(Value target) {
  fillZeros(line, math.constant(rowStride), distance);
  ValueMath values(e.b, e.loc);
  Type word = e.contraction.wordType(), half = e.contraction.rowType();
  e.forRuns(rowStride, e.lanes, [&](Value at, int64_t lanes) {
    auto load = [&](Value from) {
      Value loaded =
          lanes == 1
              ? Value(memref::LoadOp::create(e.b, e.loc, line, from))
              : Value(vector::LoadOp::create(
                    e.b, e.loc, VectorType::get({lanes}, half), line, from));
      return values.extendUnsigned(loaded, word);
    };
    Value words = values.bitOr(
        load(at), values.shiftLeft(load(math.add(at, distance)), 16));
    e.store(words, memory, math.add(target, at));
  });
}

void RegionReader::fillZeros(Value memory, Value offset, int64_t count) {
  e.forRuns(count, 2 * e.lanes, [&](Value at, int64_t lanes) {
    e.storeZeros(memory, math.add(offset, at), lanes);
  });
}

void RegionReader::copyRow(Value n, Value plane, Value row, Value memory,
                           Value target) {
  Value input = e.contraction.lhs();
  int64_t channels = g.channels, width = g.in[2];
  int64_t left = std::min(std::max<int64_t>(g.pad[2], 0), regionColumns);
  int64_t first = std::max<int64_t>(-g.pad[2], 0);
  int64_t valid = std::clamp<int64_t>(width - first, 0, regionColumns - left);
  int64_t right = regionColumns - left - valid;

  if (left)
    fillZeros(memory, target, left * channels);
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
    fillZeros(memory, math.add(begin, valid * channels), right * channels);
}
