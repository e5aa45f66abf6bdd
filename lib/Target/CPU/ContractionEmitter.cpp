//===- ContractionEmitter.cpp - what kernels of products share ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ContractionEmitter.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

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

ContractionEmitter::Range ContractionEmitter::groupOf(Value group, int64_t each,
                                                      int64_t all) {
  Value begin = math.mul(group, each);
  return {begin, math.min(math.add(begin, each), all)};
}

Value ContractionEmitter::firstColumn(Value number) const {
  return math.add(math.mul(groupOfPanel(number), contraction.width()),
                  math.mul(math.rem(number, panelsOfGroup), columns));
}

void ContractionEmitter::withColumns(
    Value number, llvm::function_ref<void(int64_t)> body) const {
  withColumns(panels == panelsOfGroup ? number
                                      : math.rem(number, panelsOfGroup),
              contraction.width(), columns, body);
}

void ContractionEmitter::withColumns(
    Value number, int64_t extent, int64_t columns,
    llvm::function_ref<void(int64_t)> body) const {
  int64_t panels = llvm::divideCeil(extent, columns);
  int64_t rest = extent - (panels - 1) * columns;
  if (panels == 1 || rest == columns)
    body(rest);
  else
    math.branch(
        math.less(number, panels - 1), [&] { body(columns); },
        [&] { body(rest); });
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

ContractionEmitter::ContractionEmitter(const ContractionKernel &from)
    : contraction(from.contraction), blocks(from.blocks),
      loc(contraction.op->getLoc()),
      b(from.impl->getRegion(0).front().getTerminator()), math{b, loc},
      arguments(from.kernel, from.impl), sumType(contraction.sumType),
      lanes(contraction.lanes), columns(blocks.getColumns()),
      panelsOfGroup(contraction.panelsOfGroup(columns)),
      panels(contraction.groups() * panelsOfGroup),
      panelsPerItem(perItem(blocks.getPanelsPerItem(), panels)),
      panelGroups(llvm::divideCeil(panels, panelsPerItem)), kernel(from.kernel),
      stored(from.kernel, contraction.op) {
  panel.columns = columns;
  panel.form = contraction.panelForm;
}

FailureOr<int64_t> ContractionEmitter::run() {
  if (failed(stored.check()))
    return failure();
  prepare();
  auto own = tile::OwnOp::create(b, loc, items, cyclesPerItem,
                                 /*inOrder=*/false);
  b.setInsertionPoint(own.getBody().front().getTerminator());
  emitItem(own.getItem());
  if (failed(status))
    return failure();
  return scratchBytes;
}

Value ContractionEmitter::memoryOf(Value tensor) const {
  auto argument = dyn_cast<BlockArgument>(stripReshapes(tensor));
  return argument ? arguments.inputs()[argument.getArgNumber()] : Value();
}

ElementEmitter ContractionEmitter::makeEmitter() {
  ElementEmitter emitter(b, loc, elementTarget(contraction.target));
  for (auto [argument, memref] :
       llvm::zip_equal(kernel.getArguments(), arguments.inputs()))
    emitter.bindMemory(argument, memref);
  return emitter;
}

Value ContractionEmitter::toSumType(Value value) {
  if (getElementTypeOrSelf(value.getType()) == sumType)
    return value;
  Type type = sumType;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    type = vector.clone(sumType);
  if (isa<FloatType>(sumType))
    return arith::ExtFOp::create(b, loc, type, value);
  return arith::ExtSIOp::create(b, loc, type, value);
}

Value ContractionEmitter::load(Value tensor, ValueRange indices,
                               int64_t lanes) {
  FailureOr<Value> value = makeEmitter().emit(tensor, indices, lanes);
  if (succeeded(value))
    return toSumType(*value);
  status = failure();
  return arith::ConstantOp::create(b, loc,
                                   b.getZeroAttr(lanesOf(sumType, lanes)));
}

void ContractionEmitter::store(Value value, Value memory, Value at) {
  value = toSumType(value);
  if (isa<VectorType>(value.getType()))
    vector::StoreOp::create(b, loc, value, memory, at);
  else
    memref::StoreOp::create(b, loc, value, memory, at);
}

void ContractionEmitter::storeZeros(Value memory, Value at, int64_t lanes) {
  store(
      arith::ConstantOp::create(b, loc, b.getZeroAttr(lanesOf(sumType, lanes))),
      memory, at);
}

void ContractionEmitter::forPowers(
    int64_t count, int64_t most,
    llvm::function_ref<void(int64_t, int64_t)> body) {
  int64_t at = 0;
  for (int64_t lanes = most; lanes >= 1; lanes /= 2)
    for (; count - at >= lanes; at += lanes)
      body(at, lanes);
}

void ContractionEmitter::forRuns(
    int64_t count, int64_t most,
    llvm::function_ref<void(Value, int64_t)> body) {
  int64_t whole = count - count % most;
  if (whole)
    math.loop(math.constant(0), math.constant(whole), most,
              [&](Value at) { body(at, most); });
  forPowers(count - whole, most, [&](int64_t at, int64_t lanes) {
    body(math.constant(whole + at), lanes);
  });
}

Value ContractionEmitter::area(int64_t elements) {
  elements = std::max<int64_t>(elements, 1);
  Value view = math.view(arguments.scratch, scratchBytes, elements, sumType);
  scratchBytes += llvm::alignTo(elements * bytesPerElement(sumType), 64);
  return view;
}

Value ContractionEmitter::stack(int64_t elements) {
  return memref::AllocaOp::create(b, loc, MemRefType::get({elements}, sumType),
                                  b.getI64IntegerAttr(64));
}

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

void ContractionEmitter::packRows(Value tensor, Indices indices, Value rowCount,
                                  Value first, int64_t extent, Value memory,
                                  int64_t pitch) {
  math.loop(math.constant(0), rowCount, 1, [&](Value row) {
    SmallVector<Value> at = indices(row);
    at.emplace_back();
    Value base = math.mul(row, pitch);
    forRuns(extent, 4 * lanes, [&](Value column, int64_t count) {
      at.back() = math.add(first, column);
      copyRun(tensor, at, count, memory, math.add(base, column));
    });
  });
}

/// Interleaves: vectors[i][j] becomes result[j][i]. As many vectors as lanes, a
/// power of two.
static SmallVector<Value> transposeVectors(OpBuilder &builder, Location loc,
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

void ContractionEmitter::packColumns(
    int64_t columns, int64_t count, bool asVectors, Value memory, Value offset,
    llvm::function_ref<Value(Value, Value, int64_t)> values,
    llvm::function_ref<Value(Value)> place) {
  auto target = [&](Value n, Value k) {
    return math.add(math.add(offset, n), math.mul(place(k), columns));
  };
  // Squares are transposed in registers.
  int64_t whole = asVectors ? count - count % lanes : 0;
  if (whole)
    math.loop(math.constant(0), math.constant(whole), lanes, [&](Value k) {
      math.loop(math.constant(0), math.constant(columns), lanes, [&](Value n) {
        SmallVector<Value> rows;
        for (int64_t i = 0; i < lanes; ++i)
          rows.push_back(values(math.add(n, i), k, lanes));
        for (auto [i, row] : llvm::enumerate(transposeVectors(b, loc, rows)))
          store(row, memory, target(n, math.add(k, i)));
      });
    });
  if (whole < count)
    math.loop(math.constant(whole), math.constant(count), 1, [&](Value k) {
      math.loop(columns,
                [&](Value n) { store(values(n, k, 1), memory, target(n, k)); });
    });
}

void ContractionEmitter::packPanel(Value tensor, ValueRange leading,
                                   bool transposed, Value number,
                                   int64_t columns, Value from, int64_t count,
                                   Value memory, Value offset) {
  auto shape = cast<RankedTensorType>(tensor.getType()).getShape();
  int64_t width = shape[shape.size() - (transposed ? 2 : 1)];
  Value first = math.mul(number, columns);
  SmallVector<Value> at(leading);
  if (transposed) {
    // Missing columns repeat the last one: their sums are dropped.
    packColumns(
        columns, count, /*asVectors=*/true, memory, offset,
        [&](Value n, Value k, int64_t lanes) {
          at.truncate(leading.size());
          at.append(
              {math.min(math.add(first, n), width - 1), math.add(from, k)});
          return load(tensor, at, lanes);
        },
        [](Value k) { return k; });
    return;
  }
  withColumns(number, width, columns, [&](int64_t used) {
    math.loop(count, [&](Value k) {
      Value base = math.add(offset, math.mul(k, columns));
      forPowers(used, 2 * lanes, [&](int64_t n, int64_t run) {
        at.truncate(leading.size());
        at.append({math.add(from, k), math.add(first, n)});
        copyRun(tensor, at, run, memory, math.add(base, n));
      });
      // Sums of missing columns are dropped; zeros keep them from being
      // NaN.
      forPowers(columns - used, 2 * lanes, [&](int64_t n, int64_t run) {
        storeZeros(memory, math.add(base, used + n), run);
      });
    });
  });
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

void ContractionEmitter::prepareSums(int64_t elements, int64_t tiles) {
  tileElements = elements;
  if (!keepsSums()) {
    sums = stack(elements);
    return;
  }
  sumElements = tiles * elements;
  sumsStart = scratchBytes;
  sums = area(sumElements);
}

void ContractionEmitter::clearSums() {
  math.loop(math.constant(0), math.constant(sumElements), lanes,
            [&](Value at) { storeZeros(sums, at, lanes); });
}

void ContractionEmitter::multiply(ArrayRef<int64_t> rowOffsets, int64_t vectors,
                                  Value memory, Value base,
                                  ArrayRef<KLoop> loops, Value offset) {
  SumBlock block = blockOf(rowOffsets, vectors);
  mpc::storeSums(b, loc, block,
                 emitMicroKernel(b, loc, block, memory, base, panel, loops),
                 sums, columns, offset, /*add=*/keepsSums());
}

void ContractionEmitter::storeSums(Value offset, Value rowCount,
                                   Indices indices, unsigned columnDim,
                                   Value column, int64_t used) {
  Value tile = sums;
  if (keepsSums()) {
    Value start =
        math.add(math.mul(offset, bytesPerElement(sumType)), sumsStart);
    tile =
        memref::ViewOp::create(b, loc, MemRefType::get({tileElements}, sumType),
                               arguments.scratch, start, ValueRange{});
  }
  storeTile(tile, columns, rowCount, indices, columnDim, column, used);
}

void ContractionEmitter::storeTile(Value tile, int64_t pitch, Value rowCount,
                                   Indices indices, unsigned columnDim,
                                   Value column, int64_t used) {
  auto type = cast<RankedTensorType>(contraction.op->getResult(0).getType());
  bool vectors = columnDim + 1 == type.getRank();
  auto storeRun = [&](Value row, Value offset, int64_t lanes, Value mask) {
    Value at = math.add(math.mul(row, pitch), offset);
    Value values =
        lanes > 1 ? Value(vector::LoadOp::create(
                        b, loc, VectorType::get({lanes}, sumType), tile, at))
                  : Value(memref::LoadOp::create(b, loc, tile, at));
    SmallVector<Value> position = indices(row);
    position.insert(position.begin() + columnDim, math.add(column, offset));
    ElementEmitter emitter = makeEmitter();
    if (failed(stored.store(emitter, arguments.outputs(), values, position,
                            lanes, mask)))
      status = failure();
  };
  math.loop(math.constant(0), rowCount, 1, [&](Value row) {
    if (!vectors) {
      math.loop(used, [&](Value offset) { storeRun(row, offset, 1, Value()); });
      return;
    }
    // The last vector is masked where the target masks cheaply.
    bool masks = contraction.target.isa == CpuIsa::Avx512;
    int64_t most = 2 * lanes, whole = masks ? used - used % most : used;
    forPowers(whole, most, [&](int64_t at, int64_t run) {
      storeRun(row, math.constant(at), run, Value());
    });
    if (int64_t rest = used - whole) {
      int64_t run = llvm::PowerOf2Ceil(rest);
      Value mask;
      if (rest < run)
        mask = vector::ConstantMaskOp::create(
            b, loc, VectorType::get({run}, b.getI1Type()),
            ArrayRef<int64_t>{rest});
      storeRun(row, math.constant(whole), run, mask);
    }
  });
}
