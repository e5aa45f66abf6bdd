//===- AttentionKernel.cpp - common code of attention kernels -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionKernel.h"

#include "../Gemm/Mma.h"

#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Maximum elements of a tile that a thread computes before the first store,
/// and copies in flight per thread.
static constexpr int64_t kComputedAtOnce = 64, kCopiesAtOnce = 16;

//===----------------------------------------------------------------------===//
// Problem
//===----------------------------------------------------------------------===//

AttentionSizes::AttentionSizes(const AttentionProblem &problem) {
  ArrayRef<int64_t> query = shapeOf(problem.query), key = shapeOf(problem.key);
  queryHeads.assign(query.begin(), query.end() - 2);
  keyHeads.assign(key.begin(), key.end() - 2);
  heads = productOf(queryHeads);
  sharedHeads = productOf(keyHeads);
  length = query[query.size() - 2];
  depth = query.back();
  positions = key[key.size() - 2];
  width = shapeOf(problem.value).back();
}

Type cuda::attentionSumType(Value query) {
  Type element = getElementTypeOrSelf(query.getType());
  return element.isF64() ? element : Type(Float32Type::get(query.getContext()));
}

AttentionCodegen::AttentionCodegen(GpuKernel &kernel,
                                   const AttentionProblem &problem)
    : kernel(kernel), problem(problem), sizes(problem), b(kernel.builder),
      math{b, kernel.loc}, values(b, kernel.loc, cudaElementTarget()),
      formula(values, problem.scale), sumType(attentionSumType(problem.query)) {
  thread = kernel.named(kernel.thread(), "thread");
}

//===----------------------------------------------------------------------===//
// Block indices
//===----------------------------------------------------------------------===//

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
    head = keyHead = headAt(number, sizes.keyHeads);
    head.back() = math.mul(keyHead.back(), sizes.grouped);
    return;
  }
  head = keyHead = headAt(number, sizes.queryHeads);
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

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// Returns the elements per aligned load of the operand, at most `most`.
static int64_t vectorWidth(const StridedView &view, Value tensor,
                           int64_t most) {
  ArrayRef<int64_t> shape = shapeOf(tensor);
  return view.alignedRun(shape.size() - 1, shape.back(), most);
}

int64_t AttentionCodegen::asyncBytes(Value tensor) {
  std::optional<StridedView> view = StridedView::of(tensor);
  int64_t size = bytesPerElement(getElementTypeOrSelf(tensor));
  int64_t bytes = view ? size * vectorWidth(*view, tensor, 16 / size) : 0;
  return bytes >= 4 ? bytes : 0;
}

void AttentionCodegen::loadTile(const Tile &tile, bool isAsync) {
  Type stored = getElementTypeOrSelf(tile.memory.getType()),
       element = getElementTypeOrSelf(tile.tensor.getType());
  std::optional<StridedView> view = StridedView::of(tile.tensor);
  Value source =
      view ? math.flatten(kernel.inputs[view->argument.getArgNumber()])
           : Value();
  int64_t bytes = std::max(bytesPerElement(element), bytesPerElement(stored));
  int64_t lanes = view ? vectorWidth(*view, tile.tensor, 16 / bytes)
                       : alignedRunOf(tile.tensor, 16 / bytes);
  lanes = powerOfTwoIn(tile.columns, lanes);
  // Added last: the rest of an index is the same for operands side by side.
  int64_t offset = view ? std::exchange(view->offset, 0) : 0;
  ArrayRef<int64_t> shape = shapeOf(tile.tensor);
  int64_t rows = tile.ofGroup ? sizes.groupRows() : shape.end()[-2],
          columns = shape.back();
  auto loadChunk = [&](Value row, Value column) {
    SmallVector<Value> to(tile.at);
    to.append({row, column});
    row = math.add(tile.firstRow, row);
    column = math.add(tile.firstColumn, column);
    Value inside;
    if (rows % tile.rows || rows == 0)
      inside = math.less(row, rows);
    if (columns % tile.columns || columns == 0) {
      Value fits = math.less(column, columns);
      inside = inside ? values.bitAnd(inside, fits) : fits;
    }
    auto sourceAt = [&](Value row) {
      SmallVector<Value> at(tile.leading);
      if (tile.ofGroup)
        std::tie(at, row) = placeInGroup(row);
      at.append({row, column});
      return at;
    };
    auto indexAt = [&](Value row) {
      return math.add(view->offsetAt(math, sourceAt(row)), offset);
    };
    if (isAsync) {
      Value valid;
      if (inside) {
        Type i32 = b.getI32Type();
        valid = values.select(inside, values.integer(i32, lanes * bytes),
                              values.integer(i32, 0));
        row = math.min(row, rows - 1);
      }
      cuda::CopyAsyncOp::create(b, kernel.loc, tile.memory, to, source,
                                indexAt(row), valid, lanes * bytes);
      return;
    }
    auto read = [&]() -> Value {
      ElementEmitter emitter = makeEmitter();
      FailureOr<Value> value =
          view ? emitter.load(source, element, indexAt(row), lanes)
               : emitter.emit(tile.tensor, sourceAt(row), lanes);
      if (failed(value)) {
        status = failure();
        return values.constant(lanesOf(stored, lanes), 0);
      }
      if (tile.rounded)
        value = emitter.round(*value, tile.rounded);
      int64_t has = bytesPerElement(getElementTypeOrSelf(*value)),
              wants = bytesPerElement(stored);
      if (has > wants)
        return values.truncateFloat(*value, stored);
      return has < wants ? values.extendFloat(*value, stored) : *value;
    };
    store(kernel.orElse(inside, lanesOf(stored, lanes), read), tile.memory, to);
  };
  int64_t perRow = tile.columns / lanes, chunks = tile.rows * perRow,
          threads = kernel.schedule.threads,
          each = llvm::divideCeil(chunks, threads);
  // Computed elements occupy registers until they are stored.
  int64_t atOnce = isAsync ? kCopiesAtOnce
                   : view  ? each
                           : kComputedAtOnce / lanes;
  atOnce = std::min(atOnce, each);
  while (each % atOnce != 0)
    --atOnce;
  auto loadNext = [&](Value i) {
    Value chunk = math.add(math.mul(i, threads), thread);
    kernel.within(chunks % threads ? math.less(chunk, chunks) : Value(), [&] {
      Value row = kernel.named(math.div(chunk, perRow), "row");
      loadChunk(row, kernel.named(math.mul(math.rem(chunk, perRow), lanes),
                                  "column"));
    });
  };
  if (atOnce == each)
    return unrolled(kernel, each, "i", loadNext);
  math.loop(math.constant(0), math.constant(each), atOnce, [&](Value first) {
    kernel.named(first, "first");
    first.getParentBlock()->getParentOp()->setAttr(kUnrollAttr,
                                                   b.getI64IntegerAttr(1));
    unrolled(kernel, atOnce, "i",
             [&](Value i) { loadNext(math.add(first, i)); });
  });
}

void AttentionCodegen::waitForCopies() {
  cuda::CommitCopiesOp::create(b, kernel.loc);
  cuda::WaitCopiesOp::create(b, kernel.loc, 0);
}

void AttentionCodegen::pipeline(Value begin, Value end, int64_t rows,
                                bool isAsync, StringRef name,
                                llvm::function_ref<void(Value, Value)> fetch,
                                llvm::function_ref<void(Value, Value)> body) {
  Value zero = math.constant(0);
  auto stageOf = [&](Value first) {
    return knownDivisor(first) % (2 * rows) == 0
               ? zero
               : math.rem(math.div(first, rows), 2);
  };
  if (isAsync) {
    fetch(begin, stageOf(begin));
    cuda::CommitCopiesOp::create(b, kernel.loc);
  }
  math.loop(begin, end, rows, [&](Value first) {
    kernel.named(first, name);
    Value stage = zero;
    if (isAsync) {
      stage = kernel.named(stageOf(first), "stage");
      cuda::WaitCopiesOp::create(b, kernel.loc, 0);
      kernel.barrier();
      Value next = kernel.named(math.add(first, rows), "next");
      kernel.within(math.less(next, end),
                    [&] { fetch(next, math.sub(math.constant(1), stage)); });
      cuda::CommitCopiesOp::create(b, kernel.loc);
    } else {
      fetch(first, stage);
      kernel.barrier();
    }
    body(first, stage);
    // All threads must have read the tiles before they are overwritten.
    if (!isAsync)
      kernel.barrier();
  });
  // Without a single tile the first copies are still in flight.
  if (isAsync)
    cuda::WaitCopiesOp::create(b, kernel.loc, 0);
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
  if (failed(mask))
    status = failure();
  return failed(mask) ? score : formula.masked(score, *mask);
}

Value AttentionCodegen::bounded(Value score, Value row, Value column) {
  Value keeps = math.less(column, sizes.positions);
  if (problem.causal)
    keeps = values.bitAnd(
        keeps, AttentionMath::isCausal(math, placeInGroup(row).second, column,
                                       sizes.length, sizes.positions));
  return formula.kept(keeps, score);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

ElementEmitter AttentionCodegen::makeEmitter() {
  ElementEmitter emitter(b, kernel.loc, cudaElementTarget());
  kernel.bindInputs(emitter);
  return emitter;
}

Value AttentionCodegen::vectorOf(ArrayRef<Value> elements) {
  if (elements.size() == 1)
    return elements.front();
  auto type = VectorType::get({int64_t(elements.size())}, sumType);
  return vector::FromElementsOp::create(b, kernel.loc, type, elements);
}

int64_t AttentionCodegen::storeLanes(const ContractionEpilogue &results,
                                     Value result) {
  int64_t lanes = powerOfTwoIn(shapeOf(result).back(),
                               kVectorBytes / bytesPerElement(sumType));
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

void AttentionCodegen::store(const ContractionEpilogue &results, Value row,
                             ValueRange at) {
  ElementEmitter emitter = makeEmitter();
  auto vector = dyn_cast<VectorType>(row.getType());
  if (failed(results.store(emitter, kernel.outputs, row, at,
                           vector ? vector.getDimSize(0) : 1)))
    status = failure();
}
