//===- GemmPipeline.cpp - loads of tiles into shared memory ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmPipeline.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Maximum elements that a thread gathers in straight-line code, and thus has
/// in flight.
static constexpr int64_t kStraightElements = 8;

TileLoader::TileLoader(GpuKernel &kernel, const FusedGemm &problem,
                       const GemmOperand &operand, const GemmTiles &tiles,
                       Value tile, int64_t rows)
    : kernel(kernel), problem(problem), operand(operand),
      type(problem.tileTypeOf(operand)),
      places(tiles.placesOf(problem, operand)), tile(tile), rows(rows),
      depth(tiles.k), chunk(operand.chunk) {
  // Tiles may be smaller than the maximum chunk.
  chunk = std::min(chunk, operand.alongDepth ? depth : rows);
  if (places.isPermuted)
    chunk = std::min(chunk, TileLayout::pieceOf(places.bytes));
  if (!operand.argument)
    return;
  memory = math().flatten(kernel.inputs[operand.argument.getArgNumber()]);
  int64_t bytes = chunk * bytesPerElement(type);
  async = kernel.target.hasAsyncCopies() && operand.elementType() == type &&
          bytes >= 4;
}

WarpOperand TileLoader::operandAt(Value stage, Value row) const {
  WarpOperand result;
  result.tile = tile;
  result.alongDepth = operand.alongDepth;
  result.leading = {stage};
  result.row = row;
  result.places = places;
  return result;
}

LogicalResult TileLoader::load(ValueRange batch, Value row, Value k,
                               Value stage) {
  int64_t threads = kernel.schedule.threads;
  int64_t chunks = rows * depth / chunk;
  LogicalResult result = success();
  int64_t perLine = (operand.alongDepth ? depth : rows) / chunk;
  auto one = [&](Value line, Value inLine) {
    Value position = named(math(), math().mul(inLine, chunk), "position");
    if (failed(loadChunk(batch, row, k, stage, named(math(), line, "line"),
                         position)))
      result = failure();
  };
  Value thread = named(math(), kernel.thread(), "thread");
  int64_t count = llvm::divideCeil(chunks, threads);
  // Whether all rows of a thread have the same swizzle.
  bool inStep =
      !places.isPermuted || threads / perLine % TileLayout::kPieces == 0;
  if (threads % perLine == 0 && inStep && async && operand.lineStride() &&
      operand.rows % rows == 0 && operand.depth % depth == 0) {
    copyLines(batch, row, k, stage, thread, perLine);
    return success();
  }
  // In straight-line code the compiler keeps the address of each chunk live, in
  // one or more registers: too many for single elements.
  bool spills = chunk == 1 && !async && count > kStraightElements;
  unrolled(kernel, count, "c", [&](Value c) {
    if (spills)
      c.getParentBlock()->getParentOp()->setAttr(
          kUnrollAttr, kernel.builder.getI64IntegerAttr(kStraightElements));
    // A thread's chunks are in one column if whole rows are loaded together:
    // their addresses differ by constants.
    if (chunks % threads == 0 && threads % perLine == 0)
      return one(math().add(math().mul(c, threads / perLine),
                            math().div(thread, perLine)),
                 math().rem(thread, perLine));
    Value number =
        named(math(), math().add(math().mul(c, threads), thread), "chunk");
    kernel.within(
        chunks % threads ? math().less(number, chunks) : Value(),
        [&] { one(math().div(number, perLine), math().rem(number, perLine)); });
  });
  return result;
}

void TileLoader::copyLines(ValueRange batch, Value row, Value k, Value stage,
                           Value thread, int64_t perLine) {
  OpBuilder &b = kernel.builder;
  bool alongDepth = operand.alongDepth;
  int64_t threads = kernel.schedule.threads, lines = alongDepth ? rows : depth;
  int64_t apart = threads / perLine, whole = lines / apart;
  int64_t reach = llvm::divideCeil(lines, apart) - 1;
  Value line = named(math(), math().div(thread, perLine), "line");
  Value position =
      named(math(), math().mul(math().rem(thread, perLine), chunk), "position");
  Value atRow = math().add(row, alongDepth ? line : position),
        atDepth = math().add(k, alongDepth ? position : line);
  Value offset = operand.locate(math(), batch, atRow, atDepth).offset;
  int64_t stride = apart * *operand.lineStride();
  Value from =
      partFrom(kernel, memory, offset, {reach * stride + chunk}, "from");
  Value to = partFrom(kernel, tile, places.at(math(), stage, line, position),
                      {reach * apart + 1, chunk}, "to");
  auto copy = [&](Value c) {
    cuda::CopyAsyncOp::create(
        b, kernel.loc, to, ValueRange{math().mul(c, apart), math().constant(0)},
        from, ValueRange{math().mul(c, stride)}, Value(),
        b.getI64IntegerAttr(chunk * bytesPerElement(type)));
  };
  if (whole > 0)
    unrolled(kernel, whole, "c", copy);
  if (whole > reach)
    return;
  // Remainder: fewer rows than threads.
  kernel.within(math().less(line, lines - whole * apart),
                [&] { copy(math().constant(whole)); });
}

LogicalResult TileLoader::loadChunk(ValueRange batch, Value row, Value k,
                                    Value stage, Value line, Value position) {
  OpBuilder &b = kernel.builder;
  Location loc = kernel.loc;
  bool alongDepth = operand.alongDepth;
  Value atRow =
      named(math(), math().add(row, alongDepth ? line : position), "atRow");
  Value atDepth =
      named(math(), math().add(k, alongDepth ? position : line), "atK");
  SmallVector<Value> to = places.at(math(), stage, line, position);
  auto both = [&](Value x, Value y) {
    return x && y ? b.createOrFold<arith::AndIOp>(loc, x, y) : x ? x : y;
  };
  Value inside;
  if (operand.rows % rows != 0)
    inside = math().less(atRow, operand.rows);
  if (operand.depth % depth != 0)
    inside = both(inside, math().less(atDepth, operand.depth));
  OperandLocation place = operand.locate(math(), batch, atRow, atDepth);
  place.inside = both(place.inside, inside);
  if (async) {
    copyAsync(place, to);
    return success();
  }

  LogicalResult result = success();
  Type vector = lanesOf(type, chunk);
  Value value = kernel.orElse(place.inside, vector, [&]() -> Value {
    FailureOr<Value> element = read(place);
    if (succeeded(element))
      return *element;
    result = failure();
    return arith::ConstantOp::create(b, loc, b.getZeroAttr(vector));
  });
  math().store(value, tile, to);
  return result;
}

void TileLoader::copyAsync(const OperandLocation &place, ValueRange to) {
  OpBuilder &b = kernel.builder;
  Location loc = kernel.loc;
  int64_t bytes = chunk * bytesPerElement(type);
  Value valid, offset = place.offset;
  if (place.inside) {
    auto number32 = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value));
    };
    valid = arith::SelectOp::create(b, loc, place.inside, number32(bytes),
                                    number32(0));
    // Nothing is read, but the address must be valid.
    offset = arith::SelectOp::create(b, loc, place.inside, offset,
                                     math().constant(0));
  }
  cuda::CopyAsyncOp::create(b, loc, tile, to, memory, ValueRange{offset}, valid,
                            b.getI64IntegerAttr(bytes));
}

FailureOr<Value> TileLoader::read(const OperandLocation &place) {
  OpBuilder &b = kernel.builder;
  Location loc = kernel.loc;
  Type element = operand.elementType();
  Value value;
  if (place.offset) {
    value = math().load(memory, place.offset, chunk);
  } else {
    ElementEmitter emitter(b, problem.anchor->getLoc(), cudaElementTarget());
    kernel.bindInputs(emitter);
    FailureOr<Value> computed =
        emitter.emit(operand.tensor, place.indices, chunk);
    if (failed(computed))
      return failure();
    value = *computed;
    // Computed in f32.
    element = carriedType(element);
  }
  if (element == type)
    return value;
  Type vector = lanesOf(type, chunk);
  if (type.getIntOrFloatBitWidth() < element.getIntOrFloatBitWidth())
    return Value(arith::TruncFOp::create(b, loc, vector, value));
  return Value(arith::ExtFOp::create(b, loc, vector, value));
}
