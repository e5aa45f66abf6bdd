//===- GemmPipeline.cpp - tiles on their way to shared memory -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmPipeline.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;

TileLoader::TileLoader(GpuKernel &kernel, const GemmProblem &problem,
                       const GemmOperand &operand, Value tile, int64_t rows,
                       int64_t depth)
    : kernel(kernel), problem(problem), operand(operand), tile(tile),
      rows(rows), depth(depth), chunk(operand.chunk) {
  // Tiles may be narrower than the widest chunk.
  chunk = std::min(chunk, operand.alongDepth ? depth : rows);
  if (!operand.argument)
    return;
  memory = math().flatten(kernel.inputs[operand.argument.getArgNumber()]);
  int64_t bytes = chunk * problem.tileType.getIntOrFloatBitWidth() / 8;
  async = kernel.target.hasAsyncCopies() &&
          operand.elementType() == problem.tileType && bytes >= 4;
}

WarpOperand TileLoader::operandAt(Value stage, Value row) const {
  WarpOperand result;
  result.tile = tile;
  result.alongDepth = operand.alongDepth;
  result.leading = {stage};
  result.row = row;
  return result;
}

LogicalResult TileLoader::load(ValueRange batch, Value row, Value k,
                               Value stage) {
  int64_t threads = kernel.schedule.threads;
  int64_t chunks = rows * depth / chunk;
  LogicalResult result = success();
  auto one = [&](Value number) {
    if (failed(loadChunk(batch, row, k, stage, number)))
      result = failure();
  };
  Value thread = named(math(), kernel.thread(), "thread");
  unrolled(kernel, llvm::divideCeil(chunks, threads), "c", [&](Value c) {
    Value number =
        named(math(), math().add(math().mul(c, threads), thread), "chunk");
    if (chunks % threads == 0)
      return one(number);
    auto inRange = scf::IfOp::create(kernel.builder, kernel.loc,
                                     math().less(number, chunks));
    OpBuilder::InsertionGuard guard(kernel.builder);
    kernel.builder.setInsertionPoint(inRange.thenBlock()->getTerminator());
    one(number);
  });
  return result;
}

LogicalResult TileLoader::loadChunk(ValueRange batch, Value row, Value k,
                                    Value stage, Value number) {
  OpBuilder &b = kernel.builder;
  Location loc = kernel.loc;
  bool alongDepth = operand.alongDepth;
  int64_t perLine = (alongDepth ? depth : rows) / chunk;
  Value line = named(math(), math().div(number, perLine), "line");
  Value position =
      named(math(), math().mul(math().rem(number, perLine), chunk), "position");
  Value atRow =
      named(math(), math().add(row, alongDepth ? line : position), "atRow");
  Value atDepth =
      named(math(), math().add(k, alongDepth ? position : line), "atK");
  OperandPlace place = operand.locate(math(), batch, atRow, atDepth);

  // Where the operand ends.
  auto require = [&](Value condition) {
    place.inside =
        place.inside
            ? b.createOrFold<arith::AndIOp>(loc, place.inside, condition)
            : condition;
  };
  if (operand.rows % rows != 0)
    require(math().less(atRow, operand.rows));
  if (operand.depth % depth != 0)
    require(math().less(atDepth, operand.depth));
  SmallVector<Value> to = {stage, line, position};

  if (async) {
    int64_t bytes = chunk * problem.tileType.getIntOrFloatBitWidth() / 8;
    Value valid, offset = place.offset;
    if (place.inside) {
      auto number32 = [&](int64_t value) -> Value {
        return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value));
      };
      valid = arith::SelectOp::create(b, loc, place.inside, number32(bytes),
                                      number32(0));
      // Nothing is read there, but the address has to be one.
      offset = arith::SelectOp::create(b, loc, place.inside, offset,
                                       math().constant(0));
    }
    cuda::CopyAsyncOp::create(b, loc, tile, to, memory, ValueRange{offset},
                              valid, b.getI64IntegerAttr(bytes));
    return success();
  }

  Type type = lanesOf(problem.tileType, chunk);
  Value value;
  if (place.inside) {
    auto branch =
        scf::IfOp::create(b, loc, TypeRange{type}, place.inside,
                          /*addThenBlock=*/true, /*addElseBlock=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(branch.thenBlock());
    FailureOr<Value> element = read(place);
    if (failed(element))
      return failure();
    scf::YieldOp::create(b, loc, *element);
    b.setInsertionPointToEnd(branch.elseBlock());
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
    scf::YieldOp::create(b, loc, zero);
    value = branch.getResult(0);
  } else {
    FailureOr<Value> element = read(place);
    if (failed(element))
      return failure();
    value = *element;
  }
  if (chunk == 1)
    memref::StoreOp::create(b, loc, value, tile, to);
  else
    vector::StoreOp::create(b, loc, value, tile, to);
  return success();
}

FailureOr<Value> TileLoader::read(const OperandPlace &place) {
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
    for (auto [argument, memref] :
         llvm::zip_equal(kernel.kernel.getArguments(), kernel.inputs))
      emitter.bindMemory(argument, memref);
    FailureOr<Value> computed =
        emitter.emit(operand.tensor, place.indices, chunk);
    if (failed(computed))
      return failure();
    value = *computed;
    // Carried in f32.
    element = carriedType(element);
  }
  if (element == problem.tileType)
    return value;
  Type type = lanesOf(problem.tileType, chunk);
  if (problem.tileType.getIntOrFloatBitWidth() <
      element.getIntOrFloatBitWidth())
    return Value(arith::TruncFOp::create(b, loc, type, value));
  return Value(arith::ExtFOp::create(b, loc, type, value));
}
