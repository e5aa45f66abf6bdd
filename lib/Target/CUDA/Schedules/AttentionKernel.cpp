//===- AttentionKernel.cpp - common code of attention kernels -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionKernel.h"

#include "Mma.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

//===----------------------------------------------------------------------===//
// Problem
//===----------------------------------------------------------------------===//

AttentionProblem::AttentionProblem(AttentionOp op)
    : query(op.getQuery()), key(op.getKey()), value(op.getValue()),
      mask(op.getMask()), scale(op.getScale().convertToDouble()),
      causal(op.getCausal()), compute(op.getCompute()) {}

AttentionProblem::AttentionProblem(AttentionGradientOp op)
    : query(op.getQuery()), key(op.getKey()), value(op.getValue()),
      mask(op.getMask()), scale(op.getScale().convertToDouble()),
      causal(op.getCausal()), compute(op.getCompute()) {}

AttentionSizes::AttentionSizes(const AttentionProblem &problem) {
  auto shape = [](Value tensor) {
    return cast<RankedTensorType>(tensor.getType()).getShape();
  };
  ArrayRef<int64_t> query = shape(problem.query), key = shape(problem.key);
  queryHeads.assign(query.begin(), query.end() - 2);
  keyHeads.assign(key.begin(), key.end() - 2);
  heads = productOf(queryHeads);
  sharedHeads = productOf(keyHeads);
  length = query[query.size() - 2];
  depth = query.back();
  positions = key[key.size() - 2];
  width = shape(problem.value).back();
}

Type cuda::attentionSumType(Value query) {
  Type element = getElementTypeOrSelf(query.getType());
  return element.isF64() ? element : Type(Float32Type::get(query.getContext()));
}

AttentionOp cuda::attentionOf(func::FuncOp kernel) {
  AttentionOp found;
  for (AttentionOp op : kernel.getOps<AttentionOp>()) {
    if (found)
      return {};
    found = op;
  }
  if (found && !ContractionEpilogue(kernel, found).fits())
    return {};
  return found;
}

AttentionCodegen::AttentionCodegen(GpuKernel &kernel,
                                   const AttentionProblem &problem)
    : kernel(kernel), problem(problem), sizes(problem), b(kernel.builder),
      math{b, kernel.loc}, values(b, kernel.loc, cudaElementTarget()),
      formula(values, problem.scale), sumType(attentionSumType(problem.query)) {
  thread = kernel.named(kernel.thread(), "thread");
}

AttentionKernel::AttentionKernel(GpuKernel &kernel, AttentionOp op)
    : AttentionCodegen(kernel, AttentionProblem(op)), op(op),
      parameters(kernel.schedule.get<AttentionSchedule>()),
      results(kernel.kernel, op) {
  sizes.grouped = parameters.grouped;
}

//===----------------------------------------------------------------------===//
// Block indices
//===----------------------------------------------------------------------===//

void AttentionKernel::placeBlock(int64_t rows, int64_t columns) {
  int64_t rowTiles = llvm::divideCeil(sizes.groupRows(), rows);
  int64_t columnTiles = llvm::divideCeil(sizes.width, columns);
  int64_t parts = parameters.parts;
  tile = kernel.block();
  part = math.constant(0);
  if (parts > 1) {
    part = kernel.named(math.rem(tile, parts), "part");
    tile = kernel.named(math.div(tile, parts), "tile");
  }
  SmallVector<Value> place =
      math.delinearize(tile, {sizes.groups(), columnTiles, rowTiles});
  // Causal: later rows have more keys, so launch them first.
  if (problem.causal && rowTiles > 1)
    place[2] = math.sub(math.constant(rowTiles - 1), place[2]);
  firstRow = kernel.named(math.mul(place[2], rows), "first_row");
  firstColumn = columnTiles == 1
                    ? math.constant(0)
                    : kernel.named(math.mul(place[1], columns), "first_column");
  placeHead(place[0]);
}

SmallVector<Value> AttentionCodegen::headAt(Value number,
                                            ArrayRef<int64_t> extents) {
  SmallVector<Value> at = math.delinearize(number, extents);
  for (auto [i, index] : llvm::enumerate(at))
    if (index.getDefiningOp<arith::DivUIOp>() ||
        index.getDefiningOp<arith::RemUIOp>())
      kernel.named(index, i + 1 == at.size() ? "head" : "batch");
  return at;
}

void AttentionCodegen::placeHead(Value number) {
  if (sizes.grouped > 1) {
    keyHead = headAt(number, sizes.keyHeads);
    head = keyHead;
    head.back() = math.mul(keyHead.back(), sizes.grouped);
    return;
  }
  head = headAt(number, sizes.queryHeads);
  keyHead = head;
  if (int64_t share = sizes.share(); share > 1)
    keyHead.back() = kernel.named(math.div(head.back(), share), "key_head");
}

std::pair<SmallVector<Value>, Value> AttentionCodegen::placeInGroup(Value row) {
  SmallVector<Value> at(head);
  if (sizes.grouped == 1)
    return {at, row};
  at.back() = math.add(at.back(), math.div(row, sizes.length));
  return {at, math.rem(row, sizes.length)};
}

Value AttentionCodegen::keyEnd(Value rowEnd) {
  // The last row of every head attends to all keys.
  if (!problem.causal || sizes.grouped > 1)
    return math.constant(sizes.positions);
  // Row s attends to t <= s + T - S.
  Value last = math.min(rowEnd, sizes.length);
  return kernel.named(
      math.subOrZero(math.add(last, sizes.positions), sizes.length), "key_end");
}

ElementEmitter AttentionCodegen::makeEmitter() {
  ElementEmitter emitter(b, kernel.loc, cudaElementTarget());
  kernel.bindInputs(emitter);
  return emitter;
}

Value AttentionCodegen::shuffleXor(Value value, int64_t flip) {
  return gpu::ShuffleOp::create(b, kernel.loc, value, flip, /*width=*/32,
                                gpu::ShuffleMode::XOR)
      .getShuffleResult();
}

/// Maximum elements of a tile that a thread computes before the first store,
/// and copies in flight per thread.
static constexpr int64_t kComputedAtOnce = 64, kCopiesAtOnce = 16;

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

void AttentionCodegen::eachChunk(const Tile &tile, int64_t lanes,
                                 int64_t atOnce,
                                 llvm::function_ref<void(Value, Value)> body) {
  int64_t perRow = tile.columns / lanes, chunks = tile.rows * perRow;
  int64_t threads = kernel.schedule.threads;
  auto one = [&](Value i) {
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
  };
  int64_t each = llvm::divideCeil(chunks, threads);
  atOnce = std::min(atOnce, each);
  while (each % atOnce != 0)
    --atOnce;
  if (atOnce == each)
    return unrolled(kernel, each, "i", one);
  auto loop = scf::ForOp::create(b, kernel.loc, math.constant(0),
                                 math.constant(each), math.constant(atOnce));
  loop->setAttr(kUnrollAttr, b.getI64IntegerAttr(1));
  Value first = kernel.named(loop.getInductionVar(), "first");
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop.getBody()->getTerminator());
  unrolled(kernel, atOnce, "i", [&](Value i) { one(math.add(first, i)); });
}

int64_t AttentionCodegen::rowsOf(const Tile &tile) const {
  if (tile.ofGroup)
    return sizes.groupRows();
  auto shape = cast<RankedTensorType>(tile.tensor.getType()).getShape();
  return shape[shape.size() - 2];
}

SmallVector<Value> AttentionCodegen::sourceOf(const Tile &tile, Value row,
                                              Value column) {
  SmallVector<Value> at(tile.leading);
  if (tile.ofGroup)
    std::tie(at, row) = placeInGroup(row);
  at.append({row, math.add(tile.firstColumn, column)});
  return at;
}

Value AttentionCodegen::isInside(const Tile &tile, Value row, Value column) {
  auto shape = cast<RankedTensorType>(tile.tensor.getType()).getShape();
  int64_t rows = rowsOf(tile), columns = shape.back();
  Value inside;
  if (rows % tile.rows || rows == 0)
    inside = math.less(math.add(tile.firstRow, row), rows);
  if (columns % tile.columns || columns == 0) {
    Value fits = math.less(math.add(tile.firstColumn, column), columns);
    inside = inside ? values.bitAnd(inside, fits) : fits;
  }
  return inside;
}

Value AttentionCodegen::flatMemory(const StridedView &view) {
  return math.flatten(kernel.inputs[view.argument.getArgNumber()]);
}

Value AttentionCodegen::placeIn(const StridedView &view, ValueRange indices) {
  Value sum;
  for (auto [index, stride] : llvm::zip_equal(indices, view.strides))
    if (stride != 0) {
      Value part = math.mul(index, stride);
      sum = sum ? math.add(sum, part) : part;
    }
  return sum ? math.add(sum, view.offset) : math.constant(view.offset);
}

/// Returns the elements per aligned load of the operand, at most `most`.
static int64_t vectorWidth(const StridedView &view, Value tensor,
                           int64_t most) {
  auto shape = cast<RankedTensorType>(tensor.getType()).getShape();
  return view.alignedRun(shape.size() - 1, shape.back(), most);
}

LogicalResult AttentionCodegen::fill(const Tile &tile) {
  Type stored = cast<MemRefType>(tile.memory.getType()).getElementType();
  Type element = getElementTypeOrSelf(tile.tensor.getType());
  std::optional<StridedView> view = StridedView::of(tile.tensor);
  int64_t bytes = std::max(element.getIntOrFloatBitWidth(),
                           stored.getIntOrFloatBitWidth()) /
                  8;
  int64_t lanes = view ? vectorWidth(*view, tile.tensor, 16 / bytes)
                       : alignedRunOf(tile.tensor, 16 / bytes);
  while (tile.columns % lanes)
    lanes /= 2;
  Type type = lanesOf(stored, lanes);
  LogicalResult status = success();
  // Computed elements occupy registers until they are stored.
  int64_t atOnce = view ? tile.rows * tile.columns : kComputedAtOnce / lanes;
  eachChunk(tile, lanes, atOnce, [&](Value row, Value column) {
    SmallVector<Value> to(tile.at);
    to.append({row, column});
    auto read = [&]() -> Value {
      SmallVector<Value> from =
          sourceOf(tile, math.add(tile.firstRow, row), column);
      ElementEmitter emitter = makeEmitter();
      Value value;
      if (view) {
        value = emitter.load(flatMemory(*view), element, placeIn(*view, from),
                             lanes);
      } else {
        FailureOr<Value> emitted = emitter.emit(tile.tensor, from, lanes);
        if (failed(emitted)) {
          status = failure();
          return arith::ConstantOp::create(b, kernel.loc, type,
                                           b.getZeroAttr(type));
        }
        value = *emitted;
      }
      if (tile.rounded)
        value = emitter.round(value, tile.rounded);
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

int64_t AttentionCodegen::asyncBytes(Value tensor) {
  std::optional<StridedView> view = StridedView::of(tensor);
  if (!view)
    return 0;
  int64_t size = elementBytesOf(tensor);
  int64_t bytes = size * vectorWidth(*view, tensor, 16 / size);
  return bytes >= 4 ? bytes : 0;
}

void AttentionCodegen::copyAsync(const Tile &tile) {
  std::optional<StridedView> view = StridedView::of(tile.tensor);
  int64_t bytes = asyncBytes(tile.tensor);
  int64_t rows = rowsOf(tile);
  int64_t lanes = bytes / elementBytesOf(tile.tensor);
  eachChunk(tile, lanes, kCopiesAtOnce, [&](Value row, Value column) {
    SmallVector<Value> to(tile.at);
    to.append({row, column});
    Value valid, sourceRow = math.add(tile.firstRow, row);
    if (Value inside = isInside(tile, row, column)) {
      Type i32 = b.getI32Type();
      valid = values.select(inside, values.integer(i32, bytes),
                            values.integer(i32, 0));
      sourceRow = math.min(sourceRow, rows - 1);
    }
    SmallVector<Value> from = sourceOf(tile, sourceRow, column);
    cuda::CopyAsyncOp::create(b, kernel.loc, tile.memory, to, flatMemory(*view),
                              placeIn(*view, from), valid, bytes);
  });
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

Value AttentionCodegen::masked(Value score, Value row, Value column) {
  score = formula.scaled(score);
  if (!problem.mask)
    return score;
  // Out-of-bounds scores are dropped later: clamp their indices.
  auto [at, inHead] = placeInGroup(math.min(row, sizes.groupRows() - 1));
  at.append({inHead, math.min(column, sizes.positions - 1)});
  ElementEmitter emitter = makeEmitter();
  FailureOr<Value> mask =
      emitter.emitBroadcast(problem.mask, at, 1, {0, sizes.positions});
  return succeeded(mask) ? formula.masked(score, *mask) : Value();
}

Value AttentionCodegen::bounded(Value score, Value row, Value column) {
  Value keeps = math.less(column, sizes.positions);
  if (problem.causal)
    keeps = values.bitAnd(
        keeps, AttentionMath::isCausal(math, placeInGroup(row).second, column,
                                       sizes.length, sizes.positions));
  return formula.kept(keeps, score);
}

Value AttentionCodegen::updateOnlineSoftmax(
    const OnlineSoftmaxRow &row, Value scores, Scores each,
    llvm::function_ref<Value(Value)> joined,
    llvm::function_ref<void(ArrayRef<Value>, Value)> use) {
  Value slot = row.slot;
  Value before = kernel.named(load(row.largest, slot), "before");
  each([&](ArrayRef<Value> at) {
    store(formula.larger(load(row.largest, slot), load(scores, at)),
          row.largest, slot);
  });
  Value now = load(row.largest, slot);
  if (joined) {
    now = kernel.named(joined(now), "now");
    store(now, row.largest, slot);
  }
  Value shift = kernel.named(formula.shift(now), "shift");
  Value shrink = kernel.named(formula.power(before, shift), "shrunk");
  for (Value sum : row.sums)
    store(values.mul(load(sum, slot), shrink), sum, slot);
  each([&](ArrayRef<Value> at) {
    Value weight =
        kernel.named(formula.power(load(scores, at), shift), "weight");
    Value total = row.sums.front();
    store(values.add(load(total, slot), weight), total, slot);
    use(at, weight);
  });
  return shrink;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

int64_t AttentionCodegen::storeLanes(const ContractionEpilogue &results,
                                     Value result, int64_t width,
                                     int64_t most) {
  int64_t lanes = powerOfTwoIn(width, most);
  llvm::DenseMap<Value, int64_t> known = {{result, lanes}};
  for (const EpilogueOutput &stored : results.all()) {
    lanes = std::min(lanes, alignedRunOf(stored.value, lanes, known));
    if (stored.strides.empty())
      continue;
    lanes = stored.strides.back() == 1 ? powerOfTwoIn(stored.first, lanes) : 1;
    for (int64_t stride : llvm::drop_end(stored.strides))
      lanes = powerOfTwoIn(stride, lanes);
  }
  return lanes;
}

int64_t AttentionKernel::storeLanes(int64_t most) {
  return AttentionCodegen::storeLanes(results, op.getResult(), sizes.width,
                                      most);
}

LogicalResult AttentionKernel::store(Value sums, Value row, Value column,
                                     int64_t lanes) {
  auto [at, inHead] = placeInGroup(row);
  at.append({inHead, column});
  ElementEmitter emitter = makeEmitter();
  return results.store(emitter, kernel.outputs, sums, at, lanes);
}
