//===- DepthwiseEmitter.cpp - conv with one filter per channel ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// No product is shared between channels, so lanes run over channels of both
// operands: a few pixels times two vectors of channels in registers. The filter
// is laid out `[window][channels]` once per call.
//
//===----------------------------------------------------------------------===//

#include "ContractionEmitter.h"
#include "ConvolutionGeometry.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Output rows of one item; rows at its edge are copied twice.
static constexpr int64_t kRowsPerItem = 8;

namespace {
class DepthwiseEmitter {
public:
  DepthwiseEmitter(func::FuncOp kernel, func::FuncOp impl, ConvOp op,
                   const CpuTarget &target, const ConvolutionGeometry &geometry)
      : context(kernel, impl, op, target), op(op), target(target), g(geometry),
        b(impl.getBody().front().getTerminator()), math{b, op.getLoc()},
        sumType(sumTypeOf(op)), lanes(vectorLanes(sumType, target)),
        pixels(target.blockRows() / 2),
        rowsPerItem(std::min(kRowsPerItem, g.out[1])),
        reader(context, g, op.getInput(), sumType, rowsPerItem) {}

  FailureOr<EmittedKernel> run();

private:
  void packFilter();
  Value filterValue(Value channel, Value position);
  void emitItem(Value item);
  void emitPixels(Value row, Value column, int64_t width, Value region,
                  Value channel, int64_t count);

  ContractionKernel context;
  ConvOp op;
  CpuTarget target;
  const ConvolutionGeometry &g;
  OpBuilder b;
  IndexMath math;
  LogicalResult status = success();
  Type sumType;
  int64_t lanes, pixels, rowsPerItem, rowGroups = 1;
  RegionReader reader;
  Value filter, tile, image, plane;
};
} // namespace

FailureOr<EmittedKernel> DepthwiseEmitter::run() {
  if (failed(context.checkResults()))
    return failure();
  int64_t bytes = bytesPerElement(sumType);
  int64_t filterBytes = llvm::alignTo(g.windowSize() * g.channels * bytes, 64);
  filter = math.view(context.arguments.scratch, 0, g.windowSize() * g.channels,
                     sumType);
  reader.prepare(b, filterBytes);
  tile = memref::AllocaOp::create(
      b, op.getLoc(), MemRefType::get({pixels * 2 * lanes}, sumType),
      b.getI64IntegerAttr(64));
  rowGroups = llvm::divideCeil(g.out[1], rowsPerItem);
  packFilter();
  math.loop(context.arguments.begin, context.arguments.end, 1,
            [&](Value item) { emitItem(item); });
  if (failed(status))
    return failure();
  EmittedKernel result;
  result.items = g.batch * g.out[0] * rowGroups;
  result.scratchBytes = filterBytes + reader.scratchBytes();
  double cycles =
      2.0 * rowsPerItem * g.out[2] * g.channels * g.windowSize() / lanes;
  result.grain = grainOf(cycles);
  return result;
}

/// The filter's element for a channel at a window position, from either layout.
Value DepthwiseEmitter::filterValue(Value channel, Value position) {
  ElementEmitter emitter = context.makeEmitter(b);
  SmallVector<Value> at;
  if (op.getPackedAttr()) {
    // One panel per channel, which is its group; the first column holds it.
    at = {channel, position, math.constant(0)};
  } else {
    at = {channel, math.constant(0)};
    llvm::append_range(at, ArrayRef<Value>(math.delinearize(position, g.window))
                               .take_back(g.spatialRank));
  }
  FailureOr<Value> value = emitter.emit(op.getFilter(), at, 1);
  if (failed(value)) {
    status = failure();
    return arith::ConstantOp::create(b, op.getLoc(), sumType,
                                     b.getZeroAttr(sumType));
  }
  return context.toSumType(b, *value, sumType);
}

void DepthwiseEmitter::packFilter() {
  math.loop(g.channels, [&](Value channel) {
    math.loop(g.windowSize(), [&](Value position) {
      memref::StoreOp::create(
          b, op.getLoc(), filterValue(channel, position), filter,
          math.add(math.mul(position, g.channels), channel));
    });
  });
}

void DepthwiseEmitter::emitItem(Value item) {
  SmallVector<Value> position =
      math.delinearize(item, {g.batch, g.out[0], rowGroups});
  image = position[0];
  plane = position[1];
  Value rowBegin = math.mul(position[2], rowsPerItem);
  Value rowEnd = math.min(math.add(rowBegin, rowsPerItem), g.out[1]);
  FailureOr<Value> region = reader.read(b, image, plane, rowBegin);
  if (failed(region)) {
    status = failure();
    return;
  }
  int64_t wide = 2 * lanes;
  auto channels = [&](Value row, Value local, Value column, int64_t width) {
    Value base = math.add(
        *region, math.mul(local, g.stride[1] * reader.region().rowStride));
    base = math.add(
        base, math.mul(column, g.stride[2] * reader.region().pixelStride));
    if (int64_t whole = g.channels - g.channels % wide)
      math.loop(math.constant(0), math.constant(whole), wide,
                [&](Value channel) {
                  emitPixels(row, column, width, base, channel, wide);
                });
    for (const Chunk &chunk :
         chunksOf(g.channels % wide, wide, CpuTarget{CpuIsa::Avx2}))
      emitPixels(row, column, width, base,
                 math.constant(g.channels - g.channels % wide + chunk.offset),
                 chunk.lanes);
  };
  math.loop(rowBegin, rowEnd, 1, [&](Value row) {
    Value local = math.sub(row, rowBegin);
    int64_t whole = g.out[2] - g.out[2] % pixels;
    if (whole)
      math.loop(math.constant(0), math.constant(whole), pixels,
                [&](Value column) { channels(row, local, column, pixels); });
    if (whole < g.out[2])
      channels(row, local, math.constant(whole), g.out[2] - whole);
  });
}

/// `width` pixels from `column` on, `count` channels from `channel` on.
void DepthwiseEmitter::emitPixels(Value row, Value column, int64_t width,
                                  Value base, Value channel, int64_t count) {
  Location loc = op.getLoc();
  const InputRegion &region = reader.region();
  auto type = VectorType::get({count}, sumType);
  Value zero = arith::ConstantOp::create(b, loc, type, b.getZeroAttr(type));
  SmallVector<Value> sums(width, zero);
  base = math.add(base, channel);
  auto windowRow = [&](Value kd, Value kh, SmallVectorImpl<Value> &values) {
    Value start = math.add(base, math.mul(kd, region.planeStride));
    start = math.add(start, math.mul(kh, g.dilation[1] * region.rowStride));
    Value position = math.add(math.mul(kd, g.window[1]), kh);
    for (int64_t kw = 0; kw < g.window[2]; ++kw) {
      Value at =
          math.add(math.mul(position, g.window[2] * g.channels), channel);
      Value weights = vector::LoadOp::create(b, loc, type, filter,
                                             math.add(at, kw * g.channels));
      for (int64_t j = 0; j < width; ++j) {
        int64_t offset =
            (j * g.stride[2] + kw * g.dilation[2]) * region.pixelStride;
        Value input = vector::LoadOp::create(b, loc, type, region.memory,
                                             math.add(start, offset));
        values[j] = math::FmaOp::create(b, loc, input, weights, values[j]);
      }
    }
  };
  auto rows = scf::ForOp::create(b, loc, math.constant(0),
                                 math.constant(g.window[0] * g.window[1]),
                                 math.constant(1), sums);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(rows.getBody());
    SmallVector<Value> values(rows.getRegionIterArgs());
    Value number = rows.getInductionVar();
    windowRow(math.div(number, g.window[1]), math.rem(number, g.window[1]),
              values);
    scf::YieldOp::create(b, loc, values);
  }
  for (int64_t j = 0; j < width; ++j)
    vector::StoreOp::create(b, loc, rows.getResult(j), tile,
                            math.constant(j * count));
  auto indices = [&](Value pixel) {
    return g.indices(image, {plane, row, math.add(column, pixel)}, Value());
  };
  if (failed(context.storeTile(b, tile, count, math.constant(width), indices,
                               g.channelDim(), channel, count)))
    status = failure();
}

FailureOr<EmittedKernel> mpc::emitDepthwise(func::FuncOp kernel,
                                            func::FuncOp impl, ConvOp op,
                                            const ConvolutionGeometry &geometry,
                                            const CpuTarget &target) {
  return DepthwiseEmitter(kernel, impl, op, target, geometry).run();
}
