//===- AttentionKernel.cpp - parts of attention kernels -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionKernel.h"

#include "Mma.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;
using namespace mpc;

AttentionSizes::AttentionSizes(AttentionOp op) {
  auto shape = [](Value tensor) {
    return cast<RankedTensorType>(tensor.getType()).getShape();
  };
  ArrayRef<int64_t> query = shape(op.getQuery()), key = shape(op.getKey());
  queryHeads.assign(query.begin(), query.end() - 2);
  keyHeads.assign(key.begin(), key.end() - 2);
  heads = productOf(queryHeads);
  length = query[query.size() - 2];
  depth = query.back();
  positions = key[key.size() - 2];
  width = shape(op.getValue()).back();
}

Type mpc::attentionSumType(AttentionOp op) {
  Type element = getElementTypeOrSelf(op.getQuery().getType());
  return element.isF64() ? element : Type(Float32Type::get(op.getContext()));
}

AttentionOp mpc::attentionOf(func::FuncOp kernel) {
  AttentionOp found;
  for (AttentionOp op : kernel.getOps<AttentionOp>()) {
    if (found)
      return {};
    found = op;
  }
  if (found && !StoredResults(kernel, found).fits())
    return {};
  return found;
}

AttentionKernel::AttentionKernel(GpuKernel &kernel, AttentionOp op)
    : kernel(kernel), op(op), sizes(op), b(kernel.builder), math{b, kernel.loc},
      values(b, kernel.loc, cudaElementTarget()), results(kernel.kernel, op),
      sumType(attentionSumType(op)) {
  thread = kernel.named(kernel.thread(), "thread");
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

void AttentionKernel::placeBlock(int64_t rows, int64_t columns) {
  int64_t rowTiles = llvm::divideCeil(sizes.length, rows);
  int64_t columnTiles = llvm::divideCeil(sizes.width, columns);
  SmallVector<Value> place =
      math.delinearize(kernel.block(), {sizes.heads, columnTiles, rowTiles});
  // Later rows look at more keys: they begin first.
  if (op.getCausal() && rowTiles > 1)
    place[2] = math.sub(math.constant(rowTiles - 1), place[2]);
  firstRow = kernel.named(math.mul(place[2], rows), "first_row");
  firstColumn = columnTiles == 1
                    ? math.constant(0)
                    : kernel.named(math.mul(place[1], columns), "first_column");
  head = math.delinearize(place[0], sizes.queryHeads);
  for (auto [i, index] : llvm::enumerate(head))
    if (index.getDefiningOp<arith::DivUIOp>() ||
        index.getDefiningOp<arith::RemUIOp>())
      kernel.named(index, i + 1 == head.size() ? "head" : "batch");
  keyHead = head;
  if (int64_t share = sizes.queryHeads.back() / sizes.keyHeads.back();
      share > 1)
    keyHead.back() = kernel.named(math.div(head.back(), share), "key_head");
}

Value AttentionKernel::keyEnd(Value rowEnd) {
  if (!op.getCausal())
    return math.constant(sizes.positions);
  // Row s keeps t <= s + T - S.
  Value last = math.min(rowEnd, sizes.length);
  return kernel.named(
      math.subOrZero(math.add(last, sizes.positions), sizes.length), "key_end");
}

ElementEmitter AttentionKernel::makeEmitter() {
  ElementEmitter emitter(b, kernel.loc, cudaElementTarget());
  for (auto [argument, memory] :
       llvm::zip_equal(kernel.kernel.getArguments(), kernel.inputs))
    emitter.bindMemory(argument, memory);
  return emitter;
}

Value AttentionKernel::shuffleXor(Value value, int64_t flip) {
  return gpu::ShuffleOp::create(b, kernel.loc, value, flip, /*width=*/32,
                                gpu::ShuffleMode::XOR)
      .getShuffleResult();
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

void AttentionKernel::eachChunk(const Tile &tile, int64_t lanes,
                                llvm::function_ref<void(Value, Value)> body) {
  int64_t perRow = tile.columns / lanes, chunks = tile.rows * perRow;
  int64_t threads = kernel.schedule.threads;
  unrolled(kernel, llvm::divideCeil(chunks, threads), "i", [&](Value i) {
    Value chunk = math.add(math.mul(i, threads), thread);
    OpBuilder::InsertionGuard guard(b);
    if (chunks % threads) {
      auto branch = scf::IfOp::create(b, kernel.loc, math.less(chunk, chunks),
                                      /*withElseRegion=*/false);
      b.setInsertionPoint(branch.thenBlock()->getTerminator());
    }
    Value row = kernel.named(math.div(chunk, perRow), "row");
    Value column =
        kernel.named(math.mul(math.rem(chunk, perRow), lanes), "column");
    body(row, column);
  });
}

Value AttentionKernel::isInside(const Tile &tile, Value row, Value column) {
  auto shape = cast<RankedTensorType>(tile.tensor.getType()).getShape();
  int64_t rows = shape[shape.size() - 2], columns = shape.back();
  Value inside;
  if (rows % tile.rows || rows == 0)
    inside = math.less(math.add(tile.firstRow, row), rows);
  if (columns % tile.columns || columns == 0) {
    Value fits = math.less(math.add(tile.firstColumn, column), columns);
    inside = inside ? values.bitAnd(inside, fits) : fits;
  }
  return inside;
}

Value AttentionKernel::flatMemory(const StridedView &view) {
  return math.flatten(kernel.inputs[view.argument.getArgNumber()]);
}

Value AttentionKernel::placeIn(const StridedView &view, ValueRange indices) {
  Value sum;
  for (auto [index, stride] : llvm::zip_equal(indices, view.strides))
    if (stride != 0) {
      Value part = math.mul(index, stride);
      sum = sum ? math.add(sum, part) : part;
    }
  return sum ? math.add(sum, view.offset) : math.constant(view.offset);
}

/// Elements of the operand that one aligned access moves, at most `most`.
static int64_t vectorWidth(const StridedView &view, Value tensor,
                           int64_t most) {
  auto shape = cast<RankedTensorType>(tensor.getType()).getShape();
  return view.alignedRun(shape.size() - 1, shape.back(), most);
}

LogicalResult AttentionKernel::fill(const Tile &tile) {
  Type stored = cast<MemRefType>(tile.memory.getType()).getElementType();
  Type element = getElementTypeOrSelf(tile.tensor.getType());
  std::optional<StridedView> view = StridedView::of(tile.tensor);
  int64_t bytes = std::max(element.getIntOrFloatBitWidth(),
                           stored.getIntOrFloatBitWidth()) /
                  8;
  int64_t lanes = view ? vectorWidth(*view, tile.tensor, 16 / bytes) : 1;
  while (tile.columns % lanes)
    lanes /= 2;
  Type type = lanesOf(stored, lanes);
  LogicalResult status = success();
  eachChunk(tile, lanes, [&](Value row, Value column) {
    SmallVector<Value> from(tile.leading), to(tile.at);
    from.append(
        {math.add(tile.firstRow, row), math.add(tile.firstColumn, column)});
    to.append({row, column});
    auto read = [&]() -> Value {
      ElementEmitter emitter = makeEmitter();
      Value value;
      if (view) {
        value = emitter.load(flatMemory(*view), element, placeIn(*view, from),
                             lanes);
      } else {
        FailureOr<Value> emitted = emitter.emit(tile.tensor, from, 1);
        if (failed(emitted)) {
          status = failure();
          return arith::ConstantOp::create(b, kernel.loc, type,
                                           b.getZeroAttr(type));
        }
        value = *emitted;
      }
      unsigned has = getElementTypeOrSelf(value).getIntOrFloatBitWidth(),
               wants = stored.getIntOrFloatBitWidth();
      if (has > wants)
        return values.truncateFloat(value, stored);
      return has < wants ? values.extendFloat(value, stored) : value;
    };
    Value value;
    if (Value inside = isInside(tile, row, column)) {
      auto branch = scf::IfOp::create(b, kernel.loc, TypeRange(type), inside,
                                      /*withElseRegion=*/true);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(branch.thenBlock());
      scf::YieldOp::create(b, kernel.loc, read());
      b.setInsertionPointToStart(branch.elseBlock());
      Value zero =
          arith::ConstantOp::create(b, kernel.loc, type, b.getZeroAttr(type));
      scf::YieldOp::create(b, kernel.loc, zero);
      value = branch.getResult(0);
    } else {
      value = read();
    }
    if (lanes == 1)
      store(value, tile.memory, to);
    else
      vector::StoreOp::create(b, kernel.loc, value, tile.memory, to);
  });
  return status;
}

static int64_t elementBytesOf(Value tensor) {
  return getElementTypeOrSelf(tensor.getType()).getIntOrFloatBitWidth() / 8;
}

int64_t AttentionKernel::asyncBytes(Value tensor) {
  std::optional<StridedView> view = StridedView::of(tensor);
  if (!view)
    return 0;
  int64_t size = elementBytesOf(tensor);
  int64_t bytes = size * vectorWidth(*view, tensor, 16 / size);
  return bytes >= 4 ? bytes : 0;
}

void AttentionKernel::copyAsync(const Tile &tile) {
  std::optional<StridedView> view = StridedView::of(tile.tensor);
  int64_t bytes = asyncBytes(tile.tensor);
  auto shape = cast<RankedTensorType>(tile.tensor.getType()).getShape();
  int64_t rows = shape[shape.size() - 2];
  int64_t lanes = bytes / elementBytesOf(tile.tensor);
  eachChunk(tile, lanes, [&](Value row, Value column) {
    SmallVector<Value> from(tile.leading), to(tile.at);
    to.append({row, column});
    Value valid, sourceRow = math.add(tile.firstRow, row);
    if (Value inside = isInside(tile, row, column)) {
      Type i32 = b.getI32Type();
      valid = values.select(inside, values.integer(i32, bytes),
                            values.integer(i32, 0));
      sourceRow = math.min(sourceRow, rows - 1);
    }
    from.append({sourceRow, math.add(tile.firstColumn, column)});
    cuda::CopyAsyncOp::create(b, kernel.loc, tile.memory, to, flatMemory(*view),
                              placeIn(*view, from), valid, bytes);
  });
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

Value AttentionKernel::masked(Value score, Value row, Value column,
                              bool scaled) {
  double scale = op.getScale().convertToDouble();
  if (scaled && scale != 1.0)
    score = values.mul(score, scale);
  Value mask = op.getMask();
  if (!mask)
    return score;
  SmallVector<Value> at(head);
  // What lies outside is dropped later and may be read anywhere.
  at.push_back(math.min(row, sizes.length - 1));
  at.push_back(math.min(column, sizes.positions - 1));
  ElementEmitter emitter = makeEmitter();
  FailureOr<Value> emitted =
      emitter.emitBroadcast(mask, at, 1, {0, sizes.positions});
  if (failed(emitted))
    return {};
  Value value = *emitted;
  if (!isa<FloatType>(value.getType()))
    return values.select(
        value, score,
        values.constant(sumType, -std::numeric_limits<double>::infinity()));
  unsigned has = value.getType().getIntOrFloatBitWidth(),
           wants = sumType.getIntOrFloatBitWidth();
  if (has < wants)
    value = values.extendFloat(value, sumType);
  else if (has > wants)
    value = values.truncateFloat(value, sumType);
  return values.add(score, value);
}

Value AttentionKernel::bounded(Value score, Value row, Value column) {
  Value kept = math.less(column, sizes.positions);
  if (op.getCausal())
    kept = values.bitAnd(kept, math.less(math.add(column, sizes.length),
                                         math.add(row, sizes.positions + 1)));
  return values.select(
      kept, score,
      values.constant(sumType, -std::numeric_limits<double>::infinity()));
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

int64_t AttentionKernel::storeLanes(int64_t most) {
  int64_t lanes = powerOfTwoIn(sizes.width, most);
  llvm::DenseMap<Value, int64_t> known = {{op.getResult(), lanes}};
  for (const StoredResult &result : results.all())
    lanes = std::min(lanes, alignedRunOf(result.value, lanes, known));
  return lanes;
}

LogicalResult AttentionKernel::store(Value sums, Value row, Value column,
                                     int64_t lanes) {
  SmallVector<Value> at(head);
  at.append({row, column});
  ElementEmitter emitter = makeEmitter();
  return results.store(emitter, kernel.outputs, sums, at, lanes);
}
