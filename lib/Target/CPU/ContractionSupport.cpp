//===- ContractionSupport.cpp - packing and epilogues ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ContractionSupport.h"

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Vectors
//===----------------------------------------------------------------------===//

SmallVector<Chunk> mpc::chunksOf(int64_t count, int64_t most,
                                 const CpuTarget &target) {
  SmallVector<Chunk> chunks;
  int64_t offset = 0;
  for (; count - offset >= most; offset += most)
    chunks.push_back({offset, most, most});
  if (int64_t rest = count - offset; rest > 0 && target.isa == CpuIsa::Avx512) {
    int64_t lanes = std::min<int64_t>(most, llvm::PowerOf2Ceil(rest));
    chunks.push_back({offset, lanes, rest});
    return chunks;
  }
  for (int64_t lanes = most / 2; lanes >= 1; lanes /= 2)
    if (count - offset >= lanes) {
      chunks.push_back({offset, lanes, lanes});
      offset += lanes;
    }
  return chunks;
}

Value mpc::maskOf(OpBuilder &builder, Location loc, const Chunk &chunk) {
  if (chunk.used == chunk.lanes)
    return {};
  return vector::ConstantMaskOp::create(
      builder, loc, VectorType::get({chunk.lanes}, builder.getI1Type()),
      ArrayRef<int64_t>{chunk.used});
}

SmallVector<Value> mpc::transposeVectors(OpBuilder &builder, Location loc,
                                         ValueRange vectors) {
  int64_t lanes = vectors.size();
  SmallVector<Value> now(vectors);
  // Each stage interleaves vector i with vector i + lanes / 2; after
  // log2(lanes) stages positions and lanes have changed places.
  for (int64_t stage = 1; stage < lanes; stage *= 2) {
    SmallVector<Value> next;
    for (int64_t i = 0; i < lanes / 2; ++i)
      for (int64_t half = 0; half < 2; ++half) {
        SmallVector<int64_t> order;
        for (int64_t j = 0; j < lanes / 2; ++j) {
          int64_t lane = half * lanes / 2 + j;
          order.push_back(lane);
          order.push_back(lanes + lane);
        }
        next.push_back(vector::ShuffleOp::create(builder, loc, now[i],
                                                 now[i + lanes / 2], order));
      }
    now = std::move(next);
  }
  return now;
}

//===----------------------------------------------------------------------===//
// Blocks and panels
//===----------------------------------------------------------------------===//

BlockRows::BlockRows(const IndexMath &math, const RowSplit &split, Value block)
    : math(math), split(split),
      firstRow(
          math.add(math.mul(block, split.rows), math.min(block, split.larger))),
      isLarge(split.larger ? math.less(block, split.larger) : Value()) {}

Value BlockRows::choose(int64_t ofLarge, int64_t ofOthers) const {
  Value others = math.constant(ofOthers);
  if (!isLarge)
    return others;
  return arith::SelectOp::create(math.b, math.loc, isLarge,
                                 math.constant(ofLarge), others);
}

void BlockRows::with(llvm::function_ref<void(int64_t)> body) const {
  if (isLarge)
    math.branch(
        isLarge, [&] { body(split.rows + 1); }, [&] { body(split.rows); });
  else
    body(split.rows);
}

void mpc::withPanelColumns(const IndexMath &math, Value number, int64_t panels,
                           int64_t columns, int64_t extent,
                           llvm::function_ref<void(int64_t)> body) {
  int64_t rest = extent - (panels - 1) * columns;
  if (panels == 1 || rest == columns)
    body(rest);
  else
    math.branch(
        math.less(number, panels - 1), [&] { body(columns); },
        [&] { body(rest); });
}

//===----------------------------------------------------------------------===//
// Set-up
//===----------------------------------------------------------------------===//

static Value stripReshapes(Value tensor) {
  while (auto reshape = tensor.getDefiningOp<ReshapeOp>())
    tensor = reshape.getInput();
  return tensor;
}

ContractionKernel::ContractionKernel(func::FuncOp kernel, func::FuncOp impl,
                                     Operation *anchor, const CpuTarget &target)
    : kernel(kernel), impl(impl), arguments(kernel, impl), anchor(anchor),
      target(target), stored(kernel, anchor) {}

Value ContractionKernel::memoryOf(Value tensor) const {
  auto argument = dyn_cast<BlockArgument>(stripReshapes(tensor));
  return argument ? arguments.inputs()[argument.getArgNumber()] : Value();
}

ElementEmitter ContractionKernel::makeEmitter(OpBuilder &builder) const {
  ElementEmitter emitter(builder, anchor->getLoc(), elementTarget(target));
  func::FuncOp function = kernel;
  for (auto [argument, memref] :
       llvm::zip_equal(function.getArguments(), arguments.inputs()))
    emitter.bindMemory(argument, memref);
  return emitter;
}

Value ContractionKernel::toSumType(OpBuilder &builder, Value value,
                                   Type sumType) const {
  Type element = getElementTypeOrSelf(value.getType());
  if (element == sumType)
    return value;
  Type type = sumType;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    type = vector.clone(sumType);
  if (isa<FloatType>(sumType))
    return arith::ExtFOp::create(builder, anchor->getLoc(), type, value);
  return arith::ExtSIOp::create(builder, anchor->getLoc(), type, value);
}

/// Stores a carried value that may be scalar.
static void storeLanes(OpBuilder &builder, Location loc, Value value,
                       Value memory, Value offset) {
  if (isa<VectorType>(value.getType()))
    vector::StoreOp::create(builder, loc, value, memory, offset);
  else
    memref::StoreOp::create(builder, loc, value, memory, offset);
}

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

LogicalResult ContractionKernel::packRows(OpBuilder &builder, Value tensor,
                                          Indices indices, Value rowCount,
                                          int64_t extent, Value memory,
                                          int64_t pitch, Value first) const {
  Location loc = anchor->getLoc();
  IndexMath math{builder, loc};
  Type sumType = cast<MemRefType>(memory.getType()).getElementType();
  int64_t wide = 4 * vectorLanes(sumType, target);
  LogicalResult result = success();
  math.loop(math.constant(0), rowCount, 1, [&](Value row) {
    SmallVector<Value> leading = indices(row);
    Value base = math.mul(row, pitch);
    auto copy = [&](Value column, const Chunk &chunk) {
      ElementEmitter emitter = makeEmitter(builder);
      SmallVector<Value> at(leading);
      at.push_back(first ? math.add(first, column) : column);
      FailureOr<Value> value =
          emitter.emit(tensor, at, chunk.lanes, maskOf(builder, loc, chunk));
      if (failed(value)) {
        result = failure();
        return;
      }
      storeLanes(builder, loc, toSumType(builder, *value, sumType), memory,
                 math.add(base, column));
    };
    if (int64_t whole = extent - extent % wide)
      math.loop(math.constant(0), math.constant(whole), wide,
                [&](Value column) { copy(column, {0, wide, wide}); });
    // The pitch leaves no room for masked lanes, so the rest goes in powers of
    // two.
    for (const Chunk &chunk :
         chunksOf(extent % wide, wide, CpuTarget{CpuIsa::Avx2}))
      copy(math.constant(extent - extent % wide + chunk.offset), chunk);
  });
  return result;
}

LogicalResult ContractionKernel::packColumns(OpBuilder &builder, Value tensor,
                                             Indices indices, Value column,
                                             int64_t rows, int64_t extent,
                                             Value memory,
                                             int64_t pitch) const {
  Location loc = anchor->getLoc();
  IndexMath math{builder, loc};
  Type sumType = cast<MemRefType>(memory.getType()).getElementType();
  LogicalResult result = success();
  math.loop(extent, [&](Value k) {
    SmallVector<Value> leading = indices(k);
    for (const Chunk &chunk : chunksOf(rows, vectorLanes(sumType, target),
                                       CpuTarget{CpuIsa::Avx2})) {
      ElementEmitter emitter = makeEmitter(builder);
      SmallVector<Value> at(leading);
      at.push_back(math.add(column, chunk.offset));
      FailureOr<Value> value = emitter.emit(tensor, at, chunk.lanes);
      if (failed(value)) {
        result = failure();
        return;
      }
      storeLanes(builder, loc, toSumType(builder, *value, sumType), memory,
                 math.add(math.mul(k, pitch), chunk.offset));
    }
  });
  return result;
}

LogicalResult ContractionKernel::copyRun(OpBuilder &builder, Value tensor,
                                         ValueRange indices, int64_t lanes,
                                         Value memory, Value at) const {
  ElementEmitter emitter = makeEmitter(builder);
  FailureOr<Value> value = emitter.emit(tensor, indices, lanes);
  if (failed(value))
    return failure();
  Type sumType = cast<MemRefType>(memory.getType()).getElementType();
  storeLanes(builder, anchor->getLoc(), toSumType(builder, *value, sumType),
             memory, at);
  return success();
}

LogicalResult
ContractionKernel::packPanel(OpBuilder &builder, Value tensor,
                             ValueRange leading, bool transposed, Value panel,
                             int64_t columns, Value memory, Value offset,
                             std::optional<DepthRange> range) const {
  Location loc = anchor->getLoc();
  IndexMath math{builder, loc};
  Type sumType = cast<MemRefType>(memory.getType()).getElementType();
  int64_t lanes = vectorLanes(sumType, target);
  auto shape = cast<RankedTensorType>(tensor.getType()).getShape();
  int64_t depth =
      range ? range->count : shape[shape.size() - (transposed ? 1 : 2)];
  int64_t width = shape[shape.size() - (transposed ? 2 : 1)];
  int64_t panels = llvm::divideCeil(width, columns);
  Value first = math.mul(panel, columns);
  LogicalResult result = success();
  auto emitAt = [&](Value k, Value n, int64_t count) -> Value {
    ElementEmitter emitter = makeEmitter(builder);
    SmallVector<Value> at(leading);
    if (range)
      k = math.add(range->first, k);
    at.append({transposed ? n : k, transposed ? k : n});
    FailureOr<Value> value = emitter.emit(tensor, at, count);
    if (failed(value)) {
      result = failure();
      return {};
    }
    return toSumType(builder, *value, sumType);
  };

  if (!transposed) {
    auto copy = [&](int64_t used) {
      math.loop(depth, [&](Value k) {
        Value base = math.add(offset, math.mul(k, columns));
        for (const Chunk &chunk :
             chunksOf(used, 2 * lanes, CpuTarget{CpuIsa::Avx2}))
          if (Value value =
                  emitAt(k, math.add(first, chunk.offset), chunk.lanes))
            storeLanes(builder, loc, value, memory,
                       math.add(base, chunk.offset));
        // Sums of missing columns are dropped; zeros keep them from being NaN.
        for (const Chunk &chunk :
             chunksOf(columns - used, 2 * lanes, CpuTarget{CpuIsa::Avx2})) {
          Type type = chunk.lanes == 1
                          ? sumType
                          : Type(VectorType::get({chunk.lanes}, sumType));
          Value zero = arith::ConstantOp::create(builder, loc, type,
                                                 builder.getZeroAttr(type));
          storeLanes(builder, loc, zero, memory,
                     math.add(base, used + chunk.offset));
        }
      });
    };
    withPanelColumns(math, panel, panels, columns, width, copy);
    return result;
  }

  // Missing columns repeat the last one: their sums are dropped.
  auto columnAt = [&](Value n) {
    return math.min(math.add(first, n), width - 1);
  };
  int64_t whole = depth - depth % lanes;
  if (whole)
    math.loop(math.constant(0), math.constant(whole), lanes, [&](Value k) {
      math.loop(math.constant(0), math.constant(columns), lanes, [&](Value n) {
        SmallVector<Value> rows;
        for (int64_t i = 0; i < lanes; ++i)
          rows.push_back(emitAt(k, columnAt(math.add(n, i)), lanes));
        if (failed(result))
          return;
        for (auto [i, row] :
             llvm::enumerate(transposeVectors(builder, loc, rows)))
          storeLanes(
              builder, loc, row, memory,
              math.add(math.add(offset, n), math.mul(math.add(k, i), columns)));
      });
    });
  if (whole < depth)
    math.loop(math.constant(whole), math.constant(depth), 1, [&](Value k) {
      math.loop(columns, [&](Value n) {
        if (Value value = emitAt(k, columnAt(n), 1))
          storeLanes(builder, loc, value, memory,
                     math.add(math.add(offset, n), math.mul(k, columns)));
      });
    });
  return result;
}

//===----------------------------------------------------------------------===//
// Epilogue
//===----------------------------------------------------------------------===//

LogicalResult ContractionKernel::storeTile(OpBuilder &builder, Value tile,
                                           int64_t pitch, Value rowCount,
                                           Indices indices, unsigned columnDim,
                                           Value column,
                                           int64_t columns) const {
  Location loc = anchor->getLoc();
  IndexMath math{builder, loc};
  auto type = cast<RankedTensorType>(anchor->getResult(0).getType());
  Type sumType = cast<MemRefType>(tile.getType()).getElementType();
  bool vectors = columnDim + 1 == type.getRank();
  LogicalResult result = success();
  auto store = [&](Value row, Value offset, const Chunk &chunk) {
    Value at = math.add(math.mul(row, pitch), offset);
    Value sums;
    if (chunk.lanes > 1)
      sums = vector::LoadOp::create(
          builder, loc, VectorType::get({chunk.lanes}, sumType), tile, at);
    else
      sums = memref::LoadOp::create(builder, loc, tile, at);
    SmallVector<Value> position = indices(row);
    position.insert(position.begin() + columnDim, math.add(column, offset));
    ElementEmitter emitter = makeEmitter(builder);
    if (failed(stored.store(emitter, arguments.outputs(), sums, position,
                            chunk.lanes, maskOf(builder, loc, chunk))))
      result = failure();
  };
  math.loop(math.constant(0), rowCount, 1, [&](Value row) {
    if (!vectors) {
      math.loop(columns, [&](Value offset) { store(row, offset, {0, 1, 1}); });
      return;
    }
    for (const Chunk &chunk :
         chunksOf(columns, 2 * vectorLanes(sumType, target), target))
      store(row, math.constant(chunk.offset), chunk);
  });
  return result;
}
