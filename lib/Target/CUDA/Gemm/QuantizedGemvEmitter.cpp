//===- QuantizedGemvEmitter.cpp - codegen of GEMV with quantized weights --===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block loads the rows into shared memory; each lane accumulates its chunks
// of a few columns; the lanes of a column reduce by shuffles; all threads apply
// the epilogue.
//
//===----------------------------------------------------------------------===//

#include "QuantizedGemv.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

namespace {
class QuantizedGemvEmitter {
public:
  QuantizedGemvEmitter(GpuKernel &kernel, const QuantizedGemv &product,
                       GemmEpilogue epilogue)
      : kernel(kernel), problem(product.problem), product(product),
        lines(product.lines), tiles(kernel.schedule.get<QuantizedGemvTiles>()),
        epilogue(std::move(epilogue)), b(kernel.builder),
        elements(kernel.builder, kernel.loc, cudaElementTarget()) {
    kernel.bindInputs(elements);
  }

  LogicalResult emit();

private:
  IndexMath math() { return {b, kernel.loc}; }
  Value load(Value from, ValueRange at) {
    return memref::LoadOp::create(b, kernel.loc, from, at);
  }
  void store(Value value, Value to, ValueRange at) {
    memref::StoreOp::create(b, kernel.loc, value, to, at);
  }

  /// Enters a loop that distributes `perRow` parts of each row over the block's
  /// threads; returns row and part.
  std::pair<Value, Value> enterItems(int64_t perRow);
  LogicalResult bringRows();
  FailureOr<Value> readRow(const OperandLocation &place, int64_t count);
  /// Returns the column for a thread's column `c`, clamped to the matrix.
  Value columnOf(Value c);
  void clear(Value sums);
  LogicalResult sumUp();
  LogicalResult addPiece(Value piece);
  void loadWords(Value piece);
  /// Loads a number per column of the thread, of group `group`, as f32.
  LogicalResult loadOfGroup(Value tensor, Value group, Value to);
  /// Accumulates the words of a chunk into `to`.
  void addWords(Value piece, Value to);
  LogicalResult join();
  LogicalResult finish();

  GpuKernel &kernel;
  const FusedGemm &problem;
  const QuantizedGemv &product;
  const QuantizedWeightRows &lines;
  QuantizedGemvTiles tiles;
  GemmEpilogue epilogue;
  OpBuilder &b;
  ElementEmitter elements;
  Value rows, results;
  /// First column of the block and of the thread, and the lane within a column.
  Value blockBegin, inBlock, lane;
  /// Per thread: accumulators of columns and rows, those of a chunk, weights,
  /// zero points, scales and offsets of weights with offsets, row elements of a
  /// word.
  Value sums, ofPiece, words, zeros, scales, offsets, row;
};
} // namespace

LogicalResult QuantizedGemvEmitter::emit() {
  Value shared = dynamicShared(kernel);
  rows = sharedView(kernel, shared, 0, product.rowsShape(), problem.tileType,
                    "rows");
  results =
      sharedView(kernel, shared, product.rowsBytes(),
                 {problem.m, tiles.blockColumns()}, b.getF32Type(), "results");
  Value block = kernel.named(kernel.block(), "block");
  blockBegin =
      kernel.named(math().mul(block, tiles.blockColumns()), "columnBegin");
  Value thread = kernel.named(kernel.thread(), "thread");
  lane = named(math(), math().rem(thread, tiles.lanes), "lane");
  inBlock =
      named(math(), math().mul(math().div(thread, tiles.lanes), tiles.columns),
            "inBlock");
  if (problem.rows) {
    if (failed(problem.rows->emit(kernel, product.rowTiles(tiles),
                                  math().constant(0), blockBegin, rows)))
      return failure();
  } else if (failed(bringRows())) {
    return failure();
  }
  kernel.barrier();
  if (failed(sumUp()) || failed(join()))
    return failure();
  kernel.barrier();
  return finish();
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Loads `count` contiguous elements in the tile type.
FailureOr<Value> QuantizedGemvEmitter::readRow(const OperandLocation &place,
                                               int64_t count) {
  const GemmOperand &lhs = *problem.lhs;
  Type element = lhs.elementType();
  Value value;
  if (place.offset) {
    Value memory = math().flatten(kernel.inputs[lhs.argument.getArgNumber()]);
    if (count == 1)
      value = load(memory, place.offset);
    else
      value = vector::LoadOp::create(b, kernel.loc,
                                     VectorType::get({count}, element), memory,
                                     place.offset);
  } else {
    FailureOr<Value> computed = elements.emit(lhs.tensor, place.indices, count);
    if (failed(computed))
      return failure();
    value = *computed;
    element = carriedType(element);
  }
  if (element == problem.tileType)
    return value;
  Type type = lanesOf(problem.tileType, count);
  if (element.getIntOrFloatBitWidth() > bytesPerElement(problem.tileType) * 8)
    return Value(arith::TruncFOp::create(b, kernel.loc, type, value));
  return Value(arith::ExtFOp::create(b, kernel.loc, type, value));
}

std::pair<Value, Value> QuantizedGemvEmitter::enterItems(int64_t perRow) {
  auto loop = scf::ForOp::create(
      b, kernel.loc, kernel.named(kernel.thread(), "thread"),
      math().constant(problem.m * perRow), math().constant(tiles.threads()));
  kernel.named(loop.getInductionVar(), "item");
  b.setInsertionPoint(loop.getBody()->getTerminator());
  Value item = loop.getInductionVar();
  Value line = named(math(), math().div(item, perRow), "row");
  return {line, math().rem(item, perRow)};
}

LogicalResult QuantizedGemvEmitter::bringRows() {
  const GemmOperand &lhs = *problem.lhs;
  int64_t chunk = lhs.alongDepth ? powerOfTwoIn(lines.piece(), lhs.chunk) : 1;
  int64_t perRow = problem.k / chunk;
  OpBuilder::InsertionGuard guard(b);
  auto [line, part] = enterItems(perRow);
  Value k = named(math(), math().mul(part, chunk), "k");
  SmallVector<Value> batch(problem.batchShape.size(), math().constant(0));
  FailureOr<Value> value = readRow(lhs.locate(math(), batch, line, k), chunk);
  if (failed(value))
    return failure();
  SmallVector<Value> to = {math().div(k, lines.piece()), line,
                           math().rem(k, lines.piece())};
  if (chunk == 1)
    store(*value, rows, to);
  else
    vector::StoreOp::create(b, kernel.loc, *value, rows, to);
  return success();
}

//===----------------------------------------------------------------------===//
// Accumulation
//===----------------------------------------------------------------------===//

Value QuantizedGemvEmitter::columnOf(Value c) {
  Value column = math().add(blockBegin, math().add(inBlock, c));
  if (lines.count % tiles.blockColumns() != 0)
    column = math().min(column, lines.count - 1);
  return named(math(), column, "column");
}

void QuantizedGemvEmitter::clear(Value array) {
  Value zero = arith::ConstantOp::create(b, kernel.loc, b.getF32FloatAttr(0));
  unrolled(kernel, tiles.columns, "c", [&](Value c) {
    unrolled(kernel, problem.m, "r",
             [&](Value r) { store(zero, array, {c, r}); });
  });
}

LogicalResult QuantizedGemvEmitter::sumUp() {
  Type f32 = b.getF32Type();
  sums = kernel.local({tiles.columns, problem.m}, f32, "sums");
  ofPiece = sums;
  if (lines.isGrouped())
    ofPiece = kernel.local({tiles.columns, problem.m}, f32, "ofPiece");
  words = kernel.local({tiles.columns, lines.words()}, b.getI32Type(), "words");
  if (lines.narrow.getZero())
    zeros = kernel.local({tiles.columns}, f32, "zeros");
  if (lines.hasOffset()) {
    scales = kernel.local({tiles.columns}, f32, "scales");
    offsets = kernel.local({tiles.columns}, f32, "offsets");
  }
  row = kernel.local({problem.m, lines.perWord()}, f32, "x");
  clear(sums);
  LogicalResult result = success();
  math().loop(
      lane, math().constant(lines.pieces()), tiles.lanes,
      [&](Value piece) { result = addPiece(kernel.named(piece, "piece")); });
  return result;
}

void QuantizedGemvEmitter::loadWords(Value piece) {
  Value values = lines.narrow.getValues();
  Value memory =
      math().flatten(kernel.inputs[cast<BlockArgument>(values).getArgNumber()]);
  Type stored = cast<MemRefType>(memory.getType()).getElementType();
  int64_t perPiece = lines.pieceBytes / bytesPerElement(stored);
  unrolled(kernel, tiles.columns, "c", [&](Value c) {
    Value at = math().add(math().mul(columnOf(c), lines.pieces() * perPiece),
                          math().mul(piece, perPiece));
    Value loaded = vector::LoadOp::create(
        b, kernel.loc, VectorType::get({perPiece}, stored), memory, at);
    Value asWords = vector::BitCastOp::create(
        b, kernel.loc, VectorType::get({lines.words()}, b.getI32Type()),
        loaded);
    for (int64_t i = 0; i < lines.words(); ++i)
      store(vector::ExtractOp::create(b, kernel.loc, asWords, i), words,
            {c, math().constant(i)});
  });
}

void QuantizedGemvEmitter::addWords(Value piece, Value to) {
  int64_t perWord = lines.perWord();
  Type f32 = b.getF32Type();
  unrolled(kernel, lines.words(), "w", [&](Value w) {
    unrolled(kernel, problem.m, "r", [&](Value r) {
      Value part = vector::LoadOp::create(
          b, kernel.loc, VectorType::get({perWord}, problem.tileType), rows,
          ValueRange{piece, r, math().mul(w, perWord)});
      if (!problem.tileType.isF32())
        part = arith::ExtFOp::create(b, kernel.loc,
                                     VectorType::get({perWord}, f32), part);
      for (int64_t i = 0; i < perWord; ++i)
        store(vector::ExtractOp::create(b, kernel.loc, part, i), row,
              {r, math().constant(i)});
    });
    unrolled(kernel, tiles.columns, "c", [&](Value c) {
      Value zero = zeros ? load(zeros, c) : Value();
      SmallVector<Value> numbers =
          numbersOfWord(kernel, lines, load(words, {c, w}), zero);
      for (auto [i, number] : llvm::enumerate(numbers)) {
        Value at = math().constant(int64_t(i)), weight = number;
        if (offsets)
          weight = math::FmaOp::create(b, kernel.loc, weight, load(scales, c),
                                       load(offsets, c));
        unrolled(kernel, problem.m, "r", [&](Value r) {
          Value sum = math::FmaOp::create(b, kernel.loc, load(row, {r, at}),
                                          weight, load(to, {c, r}));
          store(sum, to, {c, r});
        });
      }
    });
  });
}

LogicalResult QuantizedGemvEmitter::loadOfGroup(Value tensor, Value group,
                                                Value to) {
  LogicalResult result = success();
  unrolled(kernel, tiles.columns, "c", [&](Value c) {
    FailureOr<Value> number = elements.emit(tensor, {columnOf(c), group}, 1);
    if (failed(number)) {
      result = failure();
      return;
    }
    Value wide = *number;
    if (isa<IntegerType>(wide.getType()))
      wide = arith::UIToFPOp::create(b, kernel.loc, b.getF32Type(), wide);
    store(wide, to, c);
  });
  return result;
}

LogicalResult QuantizedGemvEmitter::addPiece(Value piece) {
  LogicalResult result = success();
  loadWords(piece);
  Value group = math().div(math().mul(piece, lines.piece()), lines.group);
  named(math(), group, "group");
  if (zeros && failed(loadOfGroup(lines.narrow.getZero(), group, zeros)))
    return failure();
  if (offsets &&
      (failed(loadOfGroup(lines.narrow.getScale(), group, scales)) ||
       failed(loadOfGroup(lines.narrow.getOffset(), group, offsets))))
    return failure();
  if (!lines.isGrouped()) {
    addWords(piece, sums);
    return result;
  }
  clear(ofPiece);
  addWords(piece, ofPiece);
  unrolled(kernel, tiles.columns, "c", [&](Value c) {
    FailureOr<Value> scale =
        elements.emit(lines.narrow.getScale(), {columnOf(c), group}, 1);
    if (failed(scale)) {
      result = failure();
      return;
    }
    unrolled(kernel, problem.m, "r", [&](Value r) {
      Value sum = math::FmaOp::create(
          b, kernel.loc, *scale, load(ofPiece, {c, r}), load(sums, {c, r}));
      store(sum, sums, {c, r});
    });
  });
  return result;
}

/// Butterfly reduction; the first lane of a column stores.
LogicalResult QuantizedGemvEmitter::join() {
  unrolled(kernel, tiles.columns, "c", [&](Value c) {
    unrolled(kernel, problem.m, "r", [&](Value r) {
      Value sum = load(sums, {c, r});
      for (int64_t apart = tiles.lanes / 2; apart > 0; apart /= 2) {
        Value other =
            gpu::ShuffleOp::create(b, kernel.loc, sum, int32_t(apart),
                                   /*width=*/32, gpu::ShuffleMode::XOR)
                .getShuffleResult();
        sum = arith::AddFOp::create(b, kernel.loc, sum, other);
      }
      store(sum, sums, {c, r});
    });
  });
  LogicalResult result = success();
  kernel.within(math().less(lane, 1), [&] {
    unrolled(kernel, tiles.columns, "c", [&](Value c) {
      Value scale;
      if (lines.narrow.getScale() && !lines.isGrouped() && !lines.hasOffset()) {
        FailureOr<Value> read = elements.emit(
            lines.narrow.getScale(), {columnOf(c), math().constant(0)}, 1);
        if (failed(read)) {
          result = failure();
          return;
        }
        scale = *read;
      }
      unrolled(kernel, problem.m, "r", [&](Value r) {
        Value sum = load(sums, {c, r});
        if (scale)
          sum = arith::MulFOp::create(b, kernel.loc, sum, scale);
        store(sum, results, {r, math().add(inBlock, c)});
      });
    });
  });
  return result;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

LogicalResult QuantizedGemvEmitter::finish() {
  int64_t columns = tiles.blockColumns() / (problem.pair ? 2 : 1);
  epilogue.lanes = powerOfTwoIn(columns, epilogue.lanes);
  int64_t together = epilogue.lanes, perRow = columns / together;
  OpBuilder::InsertionGuard guard(b);
  auto [line, part] = enterItems(perRow);
  Value from = named(math(), math().mul(part, together), "resultColumn");
  Value begin = problem.pair ? math().div(blockBegin, 2) : blockBegin;
  Value column = named(math(), math().add(begin, from), "column");
  if (lines.count % tiles.blockColumns() != 0)
    kernel.enter(math().less(column, problem.resultColumns()));
  auto read = [&](Value at) -> Value {
    if (together == 1)
      return load(results, {line, at});
    return vector::LoadOp::create(b, kernel.loc,
                                  VectorType::get({together}, b.getF32Type()),
                                  results, ValueRange{line, at});
  };
  SmallVector<Value> batch(problem.batchShape.size(), math().constant(0));
  SmallVector<Value> place = problem.resultIndices(math(), batch, line, column);
  if (!problem.pair)
    return epilogue.emit(kernel, read(from), place);
  // A vector of columns is in one block of a pair.
  int64_t block = problem.pair->block;
  Value first = math().add(math().mul(math().div(from, block), 2 * block),
                           math().rem(from, block));
  Value left = read(first), right = read(math().add(first, block));
  return epilogue.emit(kernel, {left, right}, place);
}

LogicalResult cuda::emitQuantizedGemv(GpuKernel &kernel,
                                      const QuantizedGemv &product,
                                      const GemmEpilogue &epilogue) {
  // Copy the concat's other inputs before waiting for own operands.
  if (failed(epilogue.emitRest(kernel)))
    return failure();
  return QuantizedGemvEmitter(kernel, product, epilogue).emit();
}
