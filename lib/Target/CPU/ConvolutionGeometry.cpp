//===- ConvolutionGeometry.cpp - extents and padded regions ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ConvolutionGeometry.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;

/// The geometry of `op`, which slides `window` over images of type `input` and
/// has positions as in `result`.
template <typename OpTy>
static FailureOr<ConvolutionGeometry>
geometryOf(OpTy op, Value image, Value positions, ArrayRef<int64_t> window) {
  auto input = cast<RankedTensorType>(image.getType());
  auto result = cast<RankedTensorType>(positions.getType());
  ConvolutionGeometry g;
  int64_t rank = input.getRank() - 2;
  if (rank < 1 || rank > 3)
    return op.emitError() << "code generation takes convolutions of 1 to 3 "
                             "spatial dimensions, "
                             "not "
                          << rank;
  g.spatialRank = rank;
  g.channelsLast = op.getLayout() == ImageLayout::channels_last;
  g.batch = input.getDimSize(0);
  g.channels = input.getDimSize(g.channelDim());
  g.outputs = result.getDimSize(g.channelDim());
  g.groups = op.getGroups();
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

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

RegionReader::RegionReader(const ContractionKernel &context,
                           const ConvolutionGeometry &geometry, Value input,
                           Type sumType, int64_t rows)
    : context(context), geometry(geometry), input(input), sumType(sumType) {
  readsInPlace = geometry.channelsLast && geometry.needsNoPadding() &&
                 context.memoryOf(input) &&
                 getElementTypeOrSelf(input.getType()) == sumType;
  regionRows = geometry.reach(1, rows);
  regionColumns = geometry.reach(2, geometry.out[2]);
  layout.pixelStride = geometry.channels;
  layout.rowStride =
      geometry.channels * (readsInPlace ? geometry.in[2] : regionColumns);
  layout.planeStride =
      readsInPlace ? geometry.dilation[0] * geometry.in[1] * layout.rowStride
                   : regionRows * layout.rowStride;
}

int64_t RegionReader::scratchBytes() const {
  if (readsInPlace)
    return 0;
  return llvm::alignTo(
      geometry.window[0] * layout.planeStride * bytesPerElement(sumType), 64);
}

void RegionReader::prepare(OpBuilder &builder, int64_t offset) {
  IndexMath math{builder, context.anchor->getLoc()};
  layout.memory =
      readsInPlace
          ? math.flatten(context.memoryOf(input))
          : math.view(context.arguments.scratch, offset,
                      geometry.window[0] * layout.planeStride, sumType);
}

FailureOr<Value> RegionReader::read(OpBuilder &builder, Value n, Value plane,
                                    Value row) {
  IndexMath math{builder, context.anchor->getLoc()};
  if (readsInPlace) {
    Value position = math.add(math.mul(n, geometry.in[0]),
                              math.mul(plane, geometry.stride[0]));
    position = math.add(math.mul(position, geometry.in[1]),
                        math.mul(row, geometry.stride[1]));
    return math.mul(position, layout.rowStride);
  }
  // Positions before the input wrap to huge numbers, which the comparison with
  // the extent rejects as well.
  LogicalResult result = success();
  math.loop(geometry.window[0], [&](Value kd) {
    Value d = math.add(math.mul(plane, geometry.stride[0]),
                       math.mul(kd, geometry.dilation[0]));
    d = math.sub(d, math.constant(geometry.pad[0]));
    math.loop(regionRows, [&](Value r) {
      Value h = math.add(math.mul(row, geometry.stride[1]), r);
      h = math.sub(h, math.constant(geometry.pad[1]));
      Value target = math.add(math.mul(kd, layout.planeStride),
                              math.mul(r, layout.rowStride));
      Value inside =
          arith::AndIOp::create(builder, math.loc, math.less(d, geometry.in[0]),
                                math.less(h, geometry.in[1]));
      math.branch(
          inside,
          [&] {
            if (failed(copyRow(builder, n, d, h, target)))
              result = failure();
          },
          [&] { fillZeros(builder, target, layout.rowStride); });
    });
  });
  if (failed(result))
    return failure();
  return math.constant(0);
}

void RegionReader::fillZeros(OpBuilder &builder, Value offset, int64_t count) {
  Location loc = context.anchor->getLoc();
  IndexMath math{builder, loc};
  int64_t wide = 2 * vectorLanes(sumType, context.target);
  auto store = [&](Value at, int64_t lanes) {
    auto type = VectorType::get({lanes}, sumType);
    Value zero = arith::ConstantOp::create(builder, loc, type,
                                           builder.getZeroAttr(type));
    vector::StoreOp::create(builder, loc, zero, layout.memory,
                            math.add(offset, at));
  };
  if (int64_t whole = count - count % wide)
    math.loop(math.constant(0), math.constant(whole), wide,
              [&](Value at) { store(at, wide); });
  for (const Chunk &chunk :
       chunksOf(count % wide, wide, CpuTarget{CpuIsa::Avx2}))
    store(math.constant(count - count % wide + chunk.offset), chunk.lanes);
}

LogicalResult RegionReader::copyRow(OpBuilder &builder, Value n, Value plane,
                                    Value row, Value target) {
  Location loc = context.anchor->getLoc();
  IndexMath math{builder, loc};
  int64_t channels = geometry.channels, width = geometry.in[2];
  int64_t left = std::min(std::max<int64_t>(geometry.pad[2], 0), regionColumns);
  int64_t first = std::max<int64_t>(-geometry.pad[2], 0);
  int64_t valid = std::clamp<int64_t>(width - first, 0, regionColumns - left);
  int64_t right = regionColumns - left - valid;
  Type element = getElementTypeOrSelf(input.getType());
  LogicalResult result = success();

  if (left)
    fillZeros(builder, target, left * channels);
  Value begin = math.add(target, left * channels);
  Value memory = context.memoryOf(input);
  int64_t wide = 2 * vectorLanes(sumType, context.target);
  auto store = [&](Value value, Value at) {
    value = context.toSumType(builder, value, sumType);
    if (isa<VectorType>(value.getType()))
      vector::StoreOp::create(builder, loc, value, layout.memory, at);
    else
      memref::StoreOp::create(builder, loc, value, layout.memory, at);
  };
  if (geometry.channelsLast && memory) {
    // Pixels of a row are contiguous.
    Value flat = math.flatten(memory);
    Value line = math.add(math.mul(n, geometry.in[0]), plane);
    line = math.add(math.mul(line, geometry.in[1]), row);
    Value source = math.add(math.mul(line, width * channels), first * channels);
    ElementEmitter emitter = context.makeEmitter(builder);
    auto copy = [&](Value offset, int64_t lanes) {
      Value value =
          emitter.load(flat, element, math.add(source, offset), lanes);
      store(value, math.add(begin, offset));
    };
    int64_t count = valid * channels;
    if (int64_t whole = count - count % wide)
      math.loop(math.constant(0), math.constant(whole), wide,
                [&](Value offset) { copy(offset, wide); });
    for (const Chunk &chunk :
         chunksOf(count % wide, wide, CpuTarget{CpuIsa::Avx2}))
      copy(math.constant(count - count % wide + chunk.offset), chunk.lanes);
  } else {
    math.loop(valid, [&](Value w) {
      Value pixel = math.add(begin, math.mul(w, channels));
      auto copy = [&](Value channel, int64_t lanes) {
        ElementEmitter emitter = context.makeEmitter(builder);
        FailureOr<Value> value = emitter.emit(
            input,
            geometry.indices(n, {plane, row, math.add(w, first)}, channel),
            lanes);
        if (failed(value))
          result = failure();
        else
          store(*value, math.add(pixel, channel));
      };
      if (!geometry.channelsLast) {
        math.loop(channels, [&](Value channel) { copy(channel, 1); });
        return;
      }
      if (int64_t whole = channels - channels % wide)
        math.loop(math.constant(0), math.constant(whole), wide,
                  [&](Value channel) { copy(channel, wide); });
      for (const Chunk &chunk :
           chunksOf(channels % wide, wide, CpuTarget{CpuIsa::Avx2}))
        copy(math.constant(channels - channels % wide + chunk.offset),
             chunk.lanes);
    });
  }
  if (right)
    fillZeros(builder, math.add(begin, valid * channels), right * channels);
  return result;
}
