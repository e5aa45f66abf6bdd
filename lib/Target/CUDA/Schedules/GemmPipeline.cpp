//===- GemmPipeline.cpp - loads of tiles into shared memory ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmPipeline.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

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
      places(tiles.placesOf(operand)), tile(tile), rows(rows), depth(tiles.k),
      chunk(operand.chunk) {
  // Tiles may be smaller than the maximum chunk.
  chunk = std::min(chunk, operand.alongDepth ? depth : rows);
  if (places.isPermuted)
    chunk = std::min(chunk, TileLayout::kPiece);
  auto memoryOf = [&](const GemmOperand &source) {
    return math().flatten(kernel.inputs[source.argument.getArgNumber()]);
  };
  if (operand.argument)
    memory = memoryOf(operand);
  else if (operand.parts.empty())
    return;
  int64_t bytes = chunk * problem.tileType.getIntOrFloatBitWidth() / 8;
  async = kernel.target.hasAsyncCopies() &&
          operand.elementType() == problem.tileType && bytes >= 4;
  if (async)
    for (const std::unique_ptr<GemmOperand> &part : operand.parts)
      partMemory.push_back(memoryOf(*part));
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

void TileLoader::bringHalo(Value shared, Value row, Value k) {
  OpBuilder &b = kernel.builder;
  Location loc = kernel.loc;
  halo = shared;
  Value image = math().flatten(kernel.inputs[operand.halo.getArgNumber()]);
  Type element = getElementTypeOrSelf(operand.halo.getType());
  int64_t bytes = bytesPerElement(element), lanes = kHaloVectorBytes / bytes;
  int64_t kept = cast<MemRefType>(shared.getType()).getDimSize(0);
  int64_t whole =
      cast<RankedTensorType>(operand.halo.getType()).getNumElements();
  Value first = operand.haloBegin(math(), row, k);
  haloBegin =
      named(math(), math().mul(math().div(first, lanes), lanes), "haloBegin");
  chunk = powerOfTwoIn(operand.alongDepth ? depth : rows,
                       kHaloVectorBytes / bytesPerElement(problem.tileType));
  int64_t threads = kernel.schedule.threads, vectors = kept / lanes;
  Value thread = named(math(), kernel.thread(), "thread");
  auto copy = [&](Value round) {
    Value to =
        named(math(),
              math().mul(math().add(math().mul(round, threads), thread), lanes),
              "inHalo");
    Value from = math().add(haloBegin, to);
    // Zero-fill past the end of the image.
    Value left = math().mul(
        math().sub(math().constant(whole), math().min(from, whole)), bytes);
    Value valid = arith::IndexCastOp::create(
        b, loc, b.getI32Type(), math().min(left, kHaloVectorBytes));
    Value at = math().min(from, whole - 1 - (whole - 1) % lanes);
    cuda::CopyAsyncOp::create(b, loc, halo, to, image, at, valid,
                              b.getI64IntegerAttr(kHaloVectorBytes));
  };
  int64_t rounds = vectors / threads;
  if (rounds > 0)
    unrolled(kernel, rounds, "round", copy);
  if (vectors > rounds * threads)
    kernel.within(math().less(thread, vectors - rounds * threads),
                  [&] { copy(math().constant(rounds)); });
}

Value TileLoader::withinOperand(Value inside, Value atRow, Value atDepth) {
  auto require = [&](Value condition) {
    inside = inside ? kernel.builder.createOrFold<arith::AndIOp>(
                          kernel.loc, inside, condition)
                    : condition;
  };
  if (operand.rows % rows != 0)
    require(math().less(atRow, operand.rows));
  if (operand.depth % depth != 0)
    require(math().less(atDepth, operand.depth));
  return inside;
}

Value TileLoader::chunkOfHalo(ValueRange batch, Value row, Value k) {
  OpBuilder &b = kernel.builder;
  Location loc = kernel.loc;
  Type element = getElementTypeOrSelf(operand.halo.getType());
  Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(element));
  Value elements = kernel.local({chunk}, element, "elements");
  unrolled(kernel, chunk, "e", [&](Value e) {
    Value atRow = operand.alongDepth ? row : math().add(row, e),
          atDepth = operand.alongDepth ? math().add(k, e) : k;
    OperandLocation place = operand.locateInHalo(math(), batch, atRow, atDepth);
    Value inside = withinOperand(place.inside, atRow, atDepth);
    Value at = math().sub(place.offset, haloBegin);
    if (inside)
      at = arith::SelectOp::create(b, loc, inside, at, math().constant(0));
    Value value = memref::LoadOp::create(b, loc, halo, at);
    if (inside)
      value = arith::SelectOp::create(b, loc, inside, value, zero);
    memref::StoreOp::create(b, loc, value, elements, e);
  });
  SmallVector<Value> values;
  for (int64_t e = 0; e < chunk; ++e)
    values.push_back(
        memref::LoadOp::create(b, loc, elements, math().constant(e)));
  Value value = values.front();
  if (chunk > 1)
    value = vector::FromElementsOp::create(
        b, loc, VectorType::get({chunk}, element), values);
  return narrowed(value, element);
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
      !places.isPermuted ||
      threads / perLine % (TileLayout::kLine / TileLayout::kPiece) == 0;
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
        b.getI64IntegerAttr(chunk * bytesPerElement(problem.tileType)));
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
  auto put = [&](Value value) {
    if (chunk == 1)
      memref::StoreOp::create(b, loc, value, tile, to);
    else
      vector::StoreOp::create(b, loc, value, tile, to);
    return success();
  };
  if (halo)
    return put(chunkOfHalo(batch, atRow, atDepth));
  Value inside = withinOperand(Value(), atRow, atDepth);
  if (async && !operand.parts.empty()) {
    copyPart(0, operand.parts.size(), batch, atRow, atDepth, inside, to);
    return success();
  }
  if (async) {
    copyAsync(operand, memory, batch, atRow, atDepth, inside, to);
    return success();
  }
  OperandLocation place = operand.locate(math(), batch, atRow, atDepth);
  if (inside)
    place.inside =
        place.inside ? b.createOrFold<arith::AndIOp>(loc, place.inside, inside)
                     : inside;

  LogicalResult result = success();
  Type type = lanesOf(problem.tileType, chunk);
  put(kernel.orElse(place.inside, type, [&]() -> Value {
    FailureOr<Value> element = read(place);
    if (succeeded(element))
      return *element;
    result = failure();
    return arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  }));
  return result;
}

void TileLoader::copyAsync(const GemmOperand &source, Value memory,
                           ValueRange batch, Value atRow, Value atDepth,
                           Value inside, ValueRange to) {
  OpBuilder &b = kernel.builder;
  Location loc = kernel.loc;
  OperandLocation place = source.locate(math(), batch, atRow, atDepth);
  if (place.inside)
    inside = inside ? b.createOrFold<arith::AndIOp>(loc, place.inside, inside)
                    : place.inside;
  int64_t bytes = chunk * problem.tileType.getIntOrFloatBitWidth() / 8;
  Value valid, offset = place.offset;
  if (inside) {
    auto number32 = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value));
    };
    valid =
        arith::SelectOp::create(b, loc, inside, number32(bytes), number32(0));
    // Nothing is read, but the address must be valid.
    offset =
        arith::SelectOp::create(b, loc, inside, offset, math().constant(0));
  }
  cuda::CopyAsyncOp::create(b, loc, tile, to, memory, ValueRange{offset}, valid,
                            b.getI64IntegerAttr(bytes));
}

int64_t TileLoader::beginOf(size_t part) const {
  int64_t begin = 0;
  for (size_t i = 0; i < part; ++i)
    begin += operand.partsAlongRows ? operand.parts[i]->rows
                                    : operand.parts[i]->depth;
  return begin;
}

void TileLoader::copyPart(size_t first, size_t limit, ValueRange batch,
                          Value atRow, Value atDepth, Value inside,
                          ValueRange to) {
  Value &along = operand.partsAlongRows ? atRow : atDepth;
  if (limit - first == 1) {
    along = math().sub(along, math().constant(beginOf(first)));
    return copyAsync(*operand.parts[first], partMemory[first], batch, atRow,
                     atDepth, inside, to);
  }
  size_t middle = (first + limit) / 2;
  auto copy = [&](size_t from, size_t end) {
    copyPart(from, end, batch, atRow, atDepth, inside, to);
  };
  math().branch(
      math().less(along, beginOf(middle)), [&] { copy(first, middle); },
      [&] { copy(middle, limit); });
}

FailureOr<Value> TileLoader::read(const OperandLocation &place) {
  OpBuilder &b = kernel.builder;
  Location loc = kernel.loc;
  Type element = operand.elementType();
  Value value;
  if (place.offset) {
    if (chunk == 1)
      value = memref::LoadOp::create(b, loc, memory, place.offset);
    else
      value = vector::LoadOp::create(b, loc, VectorType::get({chunk}, element),
                                     memory, place.offset);
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
  return narrowed(value, element);
}

Value TileLoader::narrowed(Value value, Type element) {
  OpBuilder &b = kernel.builder;
  Location loc = kernel.loc;
  if (element == problem.tileType)
    return value;
  Type type = lanesOf(problem.tileType, chunk);
  if (problem.tileType.getIntOrFloatBitWidth() <
      element.getIntOrFloatBitWidth())
    return Value(arith::TruncFOp::create(b, loc, type, value));
  return Value(arith::ExtFOp::create(b, loc, type, value));
}
